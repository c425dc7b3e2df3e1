package wire

import (
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// readMessage reads the fields of a message. Those that it does not have are skipped.
func readMessage(data []byte, m reflect.Value) error {
	fields := map[protowire.Number]int{}
	for i := range m.NumField() {
		fields[number(m.Type().Field(i))] = i
	}
	for len(data) > 0 {
		n, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return fmt.Errorf("%s: %w", m.Type().Name(), protowire.ParseError(size))
		}
		data = data[size:]
		size = protowire.ConsumeFieldValue(n, kind, data)
		if size < 0 {
			return fmt.Errorf("%s, field %d: %w", m.Type().Name(), n, protowire.ParseError(size))
		}
		value := data[:size]
		data = data[size:]
		i, known := fields[n]
		if !known {
			continue
		}
		if err := readField(kind, value, m.Field(i)); err != nil {
			return fmt.Errorf("%s.%s: %w", m.Type().Name(), m.Type().Field(i).Name, err)
		}
	}
	return nil
}

// readField reads one occurrence of a field.
func readField(kind protowire.Type, value []byte, into reflect.Value) error {
	switch into.Kind() {
	case reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		return readOne(kind, value, into.Elem())
	case reflect.Map:
		return readEntry(kind, value, into)
	case reflect.Slice:
		if into.Type().Elem().Kind() == reflect.Uint8 {
			return readOne(kind, value, into)
		}
		one := reflect.New(into.Type().Elem()).Elem()
		to := one
		if one.Kind() == reflect.Pointer {
			one.Set(reflect.New(one.Type().Elem()))
			to = one.Elem()
		}
		if err := readOne(kind, value, to); err != nil {
			return err
		}
		into.Set(reflect.Append(into, one))
		return nil
	}
	return readOne(kind, value, into)
}

// entry is a field of a map, as it travels.
type entry struct {
	Key   string `pb:"1"`
	Value string `pb:"2"`
}

func readEntry(kind protowire.Type, value []byte, into reflect.Value) error {
	var e entry
	if err := readOne(kind, value, reflect.ValueOf(&e).Elem()); err != nil {
		return err
	}
	if into.IsNil() {
		into.Set(reflect.MakeMap(into.Type()))
	}
	into.SetMapIndex(reflect.ValueOf(e.Key), reflect.ValueOf(e.Value))
	return nil
}

// readOne reads a value that is known to be whole.
func readOne(kind protowire.Type, value []byte, into reflect.Value) error {
	if want := typeOf(into); kind != want {
		return fmt.Errorf("wire type %d in place of %d", kind, want)
	}
	switch kind {
	case protowire.VarintType:
		n, _ := protowire.ConsumeVarint(value)
		switch into.Kind() {
		case reflect.Bool:
			into.SetBool(n != 0)
		case reflect.Int32:
			into.SetInt(int64(int32(n)))
		case reflect.Int64:
			into.SetInt(int64(n))
		case reflect.Uint32:
			into.SetUint(uint64(uint32(n)))
		default:
			into.SetUint(n)
		}
	case protowire.Fixed32Type:
		n, _ := protowire.ConsumeFixed32(value)
		into.SetFloat(float64(math.Float32frombits(n)))
	case protowire.Fixed64Type:
		n, _ := protowire.ConsumeFixed64(value)
		into.SetFloat(math.Float64frombits(n))
	default:
		return readBytes(value, into)
	}
	return nil
}

func readBytes(value []byte, into reflect.Value) error {
	body, _ := protowire.ConsumeBytes(value)
	switch into.Kind() {
	case reflect.String:
		if !utf8.Valid(body) {
			return fmt.Errorf("%.40q is not UTF-8", body)
		}
		into.SetString(string(body))
	case reflect.Slice:
		into.SetBytes(append([]byte{}, body...)) // the buffer is grpc's
	default:
		return readMessage(body, into)
	}
	return nil
}

// typeOf is how values of a field travel.
func typeOf(v reflect.Value) protowire.Type {
	switch v.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return protowire.VarintType
	case reflect.Float32:
		return protowire.Fixed32Type
	case reflect.Float64:
		return protowire.Fixed64Type
	}
	return protowire.BytesType
}
