package wire_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"hermes/backends/modal/wire"
)

func ptr[T any](v T) *T { return &v }

// golden are messages with bytes made by hand from the numbers of the service's protocol:
// a number that is changed by mistake shows here.
func golden() []struct {
	hex string
	m   any
} {
	return []struct {
		hex string
		m   any
	}{
		{"0a01611202656e1801", &wire.AppRequest{Name: "a", Environment: "en", Creation: wire.CreateIfMissing}},
		{"12113206" + "46524f4d2078" + "8a0106" + "080312027374" + "220161" + "4a0139", &wire.ImageRequest{AppID: "a", Builder: "9",
			Image: &wire.Image{Commands: []string{"FROM x"}, Registry: &wire.RegistryConfig{Auth: wire.RegistryPublic, Secret: "st"}}}},
		{"0a0469" + "6d2d31" + "150000803f" + "1a01" + "65", &wire.ImageJoin{ID: "im-1", Timeout: 1, LastEntry: "e"}},
		{"0a02" + "0801" + "1203" + "0a0178" + "1a0165" + "2001", &wire.ImageProgress{Result: &wire.Result{Status: wire.StatusSuccess},
			Logs: []*wire.TaskLog{{Data: "x"}}, Entry: "e", EOF: true}},
		{"0802120165" + "1881" + "01", &wire.Result{Status: wire.StatusFailure, Exception: "e", ExitCode: 129}},
		{
			"0a0161" + "1229" + "0a0173" + "1a0169" + "2a12" + "100118" + "02" + "2206" + "1001" + "22025434" + "2801" + "3004" + "3802" + "388c1c" + "b20102" + "0802" + "f2010162" + "88021e" +
				"2206" + "0a016b" + "120176",
			&wire.CreateRequest{AppID: "a", Tags: []*wire.Tag{{Name: "k", Value: "v"}}, Definition: &wire.Sandbox{Entrypoint: []string{"s"}, ImageID: "i",
				Resources: &wire.Resources{MemoryMB: 1, MilliCPU: 2, GPU: &wire.GPU{Count: 1, Type: "T4"}, MemoryMBMax: 1, DiskMB: 4, MilliCPUMax: 2},
				Timeout:   3596, Network: &wire.NetworkAccess{Type: wire.NetworkBlocked}, Name: ptr("b"), Idle: ptr(uint32(30))}},
		},
		{"0a0173" + "1500000000", &wire.WaitRequest{ID: "s", Timeout: ptr(float32(0))}},
		{
			"0a0161" + "11000000000000f03f" + "2001" + "2a06" + "0a016b" + "120176",
			&wire.ListRequest{AppID: "a", Before: 1, Finished: true, Tags: []*wire.Tag{{Name: "k", Value: "v"}}},
		},
		{"0a0174" + "120165" + "1a026c73" + "2001" + "2801" + "3005" + "3a022f77" + "6206" + "0a016b" + "120176",
			&wire.ExecStart{
				TaskID:  "t",
				ExecID:  "e",
				Args:    []string{"ls"},
				Stdout:  wire.Pipe,
				Stderr:  wire.Pipe,
				Timeout: ptr(uint32(5)),
				Workdir: ptr("/w"),
				Env:     map[string]string{"k": "v"},
			}},
		{"0a0174" + "120165" + "1807" + "2202" + "00ff" + "2801", &wire.StdinWrite{TaskID: "t", ExecID: "e", Offset: 7, Data: []byte{0, 255}, EOF: true}},
		{"0a0174" + "120165" + "1807" + "2001", &wire.StdioRead{TaskID: "t", ExecID: "e", Offset: 7, Descriptor: wire.Stderr}},
		{"0800", &wire.ExecEnd{Code: ptr(int32(0))}},
		{"1009", &wire.ExecEnd{Signal: ptr(int32(9))}},
	}
}

func TestGolden(t *testing.T) {
	for _, g := range golden() {
		t.Run(reflect.TypeOf(g.m).Elem().Name(), func(t *testing.T) {
			want, err := hex.DecodeString(g.hex)
			if err != nil {
				t.Fatal(err)
			}
			got, err := wire.Codec{}.Marshal(g.m)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%x, %v\nwant %x", got, err, want)
			}
			back := reflect.New(reflect.TypeOf(g.m).Elem()).Interface()
			if err := (wire.Codec{}).Unmarshal(want, back); err != nil || !reflect.DeepEqual(back, g.m) {
				t.Errorf("read back: %+v, %v", back, err)
			}
		})
	}
}

// messages are all messages of the package that have fields.
func messages() []any {
	return []any{
		&wire.AppRequest{}, &wire.Environment{}, &wire.ImageRequest{}, &wire.ImageAnswer{}, &wire.ImageJoin{},
		&wire.ImageProgress{}, &wire.SecretRequest{},
		&wire.CreateRequest{}, &wire.SandboxID{}, &wire.NameRequest{}, &wire.WaitRequest{}, &wire.WaitAnswer{}, &wire.TaskAnswer{}, &wire.SnapshotAnswer{},
		&wire.ListRequest{}, &wire.ListAnswer{}, &wire.Access{}, &wire.RetryPolicy{}, &wire.ExecStart{}, &wire.StdinWrite{}, &wire.StdioRead{}, &wire.StdioChunk{}, &wire.ExecEnd{},
	}
}

// describe writes the descriptor of a struct as protoc would.
func describe(file *descriptorpb.FileDescriptorProto, m reflect.Type) string {
	for _, d := range file.MessageType {
		if d.GetName() == m.Name() {
			return "." + m.Name()
		}
	}
	d := &descriptorpb.DescriptorProto{Name: proto.String(m.Name())}
	file.MessageType = append(file.MessageType, d)
	for i := range m.NumField() {
		f := m.Field(i)
		n, _ := strconv.Atoi(f.Tag.Get("pb"))
		field := &descriptorpb.FieldDescriptorProto{
			Name:   proto.String("f" + strconv.Itoa(n)),
			Number: proto.Int32(int32(n)),
			Label:  descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		of := f.Type
		switch {
		case of.Kind() == reflect.Map:
			name := "F" + strconv.Itoa(n) + "Entry"
			field.TypeName, field.Label = proto.String("."+m.Name()+"."+name), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
			entry := &descriptorpb.DescriptorProto{Name: proto.String(name), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}}
			for i, part := range []string{"key", "value"} {
				entry.Field = append(entry.Field, &descriptorpb.FieldDescriptorProto{Name: proto.String(part), Number: proto.Int32(int32(i + 1)),
					Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()})
			}
			d.NestedType = append(d.NestedType, entry)
			d.Field = append(d.Field, field)
			continue
		case of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8:
			field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			of = of.Elem()
		}
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
			if of.Kind() != reflect.Struct {
				field.Proto3Optional, field.OneofIndex = proto.Bool(true), proto.Int32(int32(len(d.OneofDecl)))
				d.OneofDecl = append(d.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_f" + strconv.Itoa(n))})
			}
		}
		kinds := map[reflect.Kind]descriptorpb.FieldDescriptorProto_Type{
			reflect.String:  descriptorpb.FieldDescriptorProto_TYPE_STRING,
			reflect.Slice:   descriptorpb.FieldDescriptorProto_TYPE_BYTES,
			reflect.Bool:    descriptorpb.FieldDescriptorProto_TYPE_BOOL,
			reflect.Int32:   descriptorpb.FieldDescriptorProto_TYPE_INT32,
			reflect.Uint32:  descriptorpb.FieldDescriptorProto_TYPE_UINT32,
			reflect.Uint64:  descriptorpb.FieldDescriptorProto_TYPE_UINT64,
			reflect.Float32: descriptorpb.FieldDescriptorProto_TYPE_FLOAT,
			reflect.Float64: descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
			reflect.Struct:  descriptorpb.FieldDescriptorProto_TYPE_MESSAGE,
		}
		field.Type = kinds[of.Kind()].Enum()
		if of.Kind() == reflect.Struct {
			field.TypeName = proto.String(describe(file, of))
		}
		d.Field = append(d.Field, field)
	}
	return "." + m.Name()
}

// fill gives every field a random value.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	for i := range v.NumField() {
		if r.IntN(4) > 0 {
			fillOne(r, v.Field(i), depth)
		}
	}
}

func fillOne(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"", "a", "ö\n", "\x00x"}[r.IntN(4)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(int32(r.Uint32())) >> r.IntN(32))
	case reflect.Uint32:
		v.SetUint(uint64(r.Uint32() >> r.IntN(32)))
	case reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(float32(r.NormFloat64())))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillOne(r, v.Elem(), depth)
	case reflect.Struct:
		if depth < 5 {
			fill(r, v, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"k": "v"}))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{0, byte(r.Uint32()), 255})
			return
		}
		for range 1 + r.IntN(2) {
			one := reflect.New(v.Type().Elem()).Elem()
			fillOne(r, one, depth)
			v.Set(reflect.Append(v, one))
		}
	}
}

// TestLikeProtobuf compares the codec with the protocol buffers of Go's own library, in
// both directions, on random messages of every type.
func TestLikeProtobuf(t *testing.T) {
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("modal.proto"), Syntax: proto.String("proto3")}
	for _, m := range messages() {
		describe(file, reflect.TypeOf(m).Elem())
	}
	built, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range messages() {
		kind := reflect.TypeOf(m).Elem()
		d := built.Messages().ByName(protoreflect.Name(kind.Name()))
		for n := range 200 {
			ours := reflect.New(kind)
			fill(r, ours.Elem(), 0)
			raw, err := wire.Codec{}.Marshal(ours.Interface())
			if err != nil {
				t.Fatal(err)
			}
			theirs := dynamicpb.NewMessage(d)
			if err := proto.Unmarshal(raw, theirs); err != nil {
				t.Fatalf("%s %d: %x: %v", kind, n, raw, err)
			}
			if len(theirs.GetUnknown()) > 0 {
				t.Fatalf("%s %d: unknown fields in %s", kind, n, prototext.Format(theirs))
			}
			again, err := proto.MarshalOptions{Deterministic: true}.Marshal(theirs)
			if err != nil {
				t.Fatal(err)
			}
			back := reflect.New(kind)
			if err := (wire.Codec{}).Unmarshal(again, back.Interface()); err != nil {
				t.Fatal(err)
			}
			a, b := mustText(t, d, raw), mustText(t, d, mustMarshal(t, back.Interface()))
			if !bytes.Equal(a, b) {
				t.Fatalf("%s %d: %x\nbecame %x", kind, n, a, b)
			}
		}
	}
}

func mustMarshal(t *testing.T, m any) []byte {
	t.Helper()
	raw, err := wire.Codec{}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func mustText(t *testing.T, d protoreflect.MessageDescriptor, raw []byte) []byte {
	t.Helper()
	m := dynamicpb.NewMessage(d)
	if err := proto.Unmarshal(raw, m); err != nil {
		t.Fatal(err)
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBadInput(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		m         any
	}{
		{"cut off", "0a05", &wire.App{}},
		{"a number in place of a text", "0801", &wire.App{}},
		{"text that is not UTF-8", "0a01ff", &wire.App{}},
		{"field 0", "0001", &wire.App{}},
	} {
		raw, _ := hex.DecodeString(tt.hex)
		if err := (wire.Codec{}).Unmarshal(raw, tt.m); err == nil {
			t.Errorf("%s: %+v", tt.name, tt.m)
		}
	}
	if _, err := (wire.Codec{}).Marshal(&wire.App{ID: "\xff"}); err == nil {
		t.Error("text that is not UTF-8 was written")
	}
	var a wire.App
	raw, _ := hex.DecodeString("0a0161" + "f20f0178" + "0a0162") // a field that we do not know; the last of a field counts
	if err := (wire.Codec{}).Unmarshal(raw, &a); err != nil || a.ID != "b" {
		t.Errorf("%+v, %v", a, err)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, g := range golden() {
		raw, _ := hex.DecodeString(g.hex)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range messages() {
			if (wire.Codec{}).Unmarshal(raw, m) != nil {
				continue
			}
			once := mustMarshal(t, m)
			back := reflect.New(reflect.TypeOf(m).Elem()).Interface()
			if err := (wire.Codec{}).Unmarshal(once, back); err != nil || !bytes.Equal(mustMarshal(t, back), once) && !hasMap(m) {
				t.Fatalf("%T: %x, %v", m, once, err)
			}
		}
	})
}

// hasMap reports a message whose encoding has no order.
func hasMap(m any) bool {
	switch m.(type) {
	case *wire.SecretRequest, *wire.ExecStart:
		return true
	}
	return false
}
