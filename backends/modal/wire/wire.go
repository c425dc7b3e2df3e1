// Package wire holds the part of Modal's gRPC protocol that boxes need, and its encoding.
//
// A message is a struct whose fields bear their numbers in tags; [Codec] writes and reads
// it as protocol buffers (proto3), by reflection. Fields that are not listed here are
// skipped when they are read. Nothing is generated: the whole subset is in messages.go,
// and a test compares the codec with the protocol buffers of Go's own library.
//
// All of it is safe for concurrent use.
package wire

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Codec encodes the messages of this package for grpc.
//
// A field's Go type is its protobuf type: string, []byte, bool, int32, int64, uint32,
// uint64, float32, float64; a pointer to one of them is an optional field; a pointer to a
// struct is a message, slices of strings and of messages are repeated,
// map[string]string is a map.
type Codec struct{}

// Name implements grpc's encoding.Codec.
func (Codec) Name() string { return "proto" }

// Marshal implements grpc's encoding.Codec. v is a pointer to a message.
func (Codec) Marshal(v any) ([]byte, error) {
	m := reflect.ValueOf(v)
	if m.Kind() != reflect.Pointer || m.IsNil() || m.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("encode %T: not a message", v)
	}
	return appendMessage(nil, m.Elem())
}

// Unmarshal implements grpc's encoding.Codec. v is a pointer to a message, which keeps
// what data does not set.
func (Codec) Unmarshal(data []byte, v any) error {
	m := reflect.ValueOf(v)
	if m.Kind() != reflect.Pointer || m.IsNil() || m.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode %T: not a message", v)
	}
	return readMessage(data, m.Elem())
}

// number is the number of a field, which a programmer has written.
func number(f reflect.StructField) protowire.Number {
	n, err := strconv.ParseInt(f.Tag.Get("pb"), 10, 32)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("field %s has no number", f.Name))
	}
	return protowire.Number(n)
}

func appendMessage(b []byte, m reflect.Value) ([]byte, error) {
	var err error
	for i := range m.NumField() {
		f := m.Type().Field(i)
		b, err = appendField(b, number(f), m.Field(i))
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", m.Type().Name(), f.Name, err)
		}
	}
	return b, nil
}

// appendField writes a field that is not empty.
func appendField(b []byte, n protowire.Number, v reflect.Value) (_ []byte, err error) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return b, nil
		}
		return appendOne(b, n, v.Elem())
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			entry, err := appendOne(nil, 1, it.Key())
			if err == nil {
				entry, err = appendOne(entry, 2, it.Value())
			}
			if err != nil {
				return nil, err
			}
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), entry)
		}
		return b, nil
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.Len() == 0 {
				return b, nil
			}
			return appendOne(b, n, v)
		}
		for i := range v.Len() {
			b, err = appendOne(b, n, reflect.Indirect(v.Index(i)))
			if err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	if v.IsZero() {
		return b, nil
	}
	return appendOne(b, n, v)
}

// appendOne writes one value, also an empty one.
func appendOne(b []byte, n protowire.Number, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return nil, fmt.Errorf("%.40q is not UTF-8", v.String())
		}
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v.String()), nil
	case reflect.Slice:
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v.Bytes()), nil
	case reflect.Bool:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), protowire.EncodeBool(v.Bool())), nil
	case reflect.Int32, reflect.Int64:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v.Int())), nil
	case reflect.Uint32, reflect.Uint64:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v.Uint()), nil
	case reflect.Float32:
		return protowire.AppendFixed32(protowire.AppendTag(b, n, protowire.Fixed32Type), math.Float32bits(float32(v.Float()))), nil
	case reflect.Float64:
		return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), math.Float64bits(v.Float())), nil
	case reflect.Struct:
		body, err := appendMessage(nil, v)
		if err != nil {
			return nil, err
		}
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), body), nil
	}
	panic("no protobuf type for " + v.Type().String())
}
