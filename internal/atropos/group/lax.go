package group

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// slow reads a value whose elements are not all spelled as the numbers that they stand
// for. Atropos' server takes 1.0, "1" and true for an integer, "0.5" and true for a float.
// The bytes that come back are spelled plainly.
func (s *scan) slow(f form, h *shape) ([]byte, error) {
	from, before := s.i, s.nonFinite
	if err := s.value(0); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(s.b[from:s.i]))
	d.UseNumber()
	s.nonFinite = before
	p := plain{scan: s, shape: h, d: d}
	if err := p.write(f.depth, f.kind, 0); err != nil {
		if _, ok := err.(*Fault); ok {
			return nil, err
		}
		s.i = from // a number that JSON cannot say is among them
		return nil, s.bad("NaN and Infinity cannot stand beside numbers that are strings or booleans")
	}
	return p.out, nil
}

// plain spells values plainly, one after the other: a tree of them would take twenty times
// the body.
type plain struct {
	scan  *scan
	shape *shape
	d     *json.Decoder
	out   []byte
}

// write spells the next value, lists nested depth times around values of a kind. Errors
// beside faults are the decoder's.
func (p *plain) write(depth int, k kind, level int) error {
	if depth == 0 {
		return p.single(k)
	}
	v, err := p.d.Token()
	if err != nil {
		return err
	}
	if v != json.Delim('[') {
		f := &Fault{Type: "list_type", Msg: "Input should be a valid list"}
		switch v.(type) {
		case json.Number, bool, nil:
			f.Crash = k == kMessage // it walks through them before it looks at their type
		case string:
			if k == kMessage && v != "" {
				f.Type, f.Msg = "value_error", "Value error, Message must have 'role' and 'content' fields"
			}
		}
		return f
	}
	p.out = append(p.out, '[')
	n := 0
	for ; p.d.More(); n++ {
		if n > 0 {
			p.out = append(p.out, ',')
		}
		if depth > 1 && level == 0 && n == maxSequences {
			return tooMany()
		}
		if err := p.write(depth-1, k, level+1); err != nil {
			return below(err, n)
		}
	}
	if _, err := p.d.Token(); err != nil {
		return err
	}
	p.shape.add(level, n)
	p.out = append(p.out, ']')
	return nil
}

func (p *plain) single(k kind) error {
	if k == kObject || k == kMessage {
		return p.object(k)
	}
	v, err := p.d.Token() // a list or an object is its bracket, and no number
	if err != nil {
		return err
	}
	if k == kFloat {
		return p.float(v)
	}
	n, err := Integer(v)
	if err != nil {
		return err
	}
	if !p.scan.rules.Types {
		if k == kID && (n.Sign() < 0 || n.BitLen() > 31) {
			return &Fault{Type: "value_error", Msg: "a token id is " + clip([]byte(n.String())) + ", which is not in 0…2147483647"}
		}
		if n.BitLen() > 63 {
			return &Fault{Type: "value_error", Msg: clip([]byte(n.String())) + " does not fit into 64 bits"}
		}
	}
	p.out = n.Append(p.out, 10)
	return nil
}

// object takes an object as it is.
func (p *plain) object(k kind) error {
	var raw json.RawMessage
	if err := p.d.Decode(&raw); err != nil {
		return err
	}
	if raw[0] == '{' {
		p.out = append(p.out, raw...)
		return nil
	}
	f := &Fault{Type: "dict_type", Msg: "Input should be a valid dictionary"}
	switch {
	case k != kMessage:
	case raw[0] == '"', raw[0] == '[':
		f.Type, f.Msg = "value_error", "Value error, Message must have 'role' and 'content' fields"
	default:
		f.Crash = true
	}
	return f
}

// maxInteger bounds the digits of an integer, as Python does.
const maxInteger = 4300

// Integer reads what counts as an integer: a value of encoding/json with numbers as
// [json.Number]. The error is a [Fault].
func Integer(v any) (*big.Int, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1), nil
		}
		return new(big.Int), nil
	case string:
		t := strings.TrimSpace(v)
		if whole, zeros, ok := strings.Cut(t, "."); ok && strings.Trim(zeros, "0") == "" && zeros != "" {
			t = whole
		}
		if len(t) <= maxInteger { // reading more digits takes the square of their number
			if n, ok := new(big.Int).SetString(t, 10); ok {
				return n, nil
			}
		}
		return nil, &Fault{Type: "int_parsing", Msg: "Input should be a valid integer, unable to parse string as an integer"}
	case json.Number:
		if len(v) <= maxInteger {
			if n, ok := new(big.Int).SetString(string(v), 10); ok {
				return n, nil
			}
		}
		x, err := v.Float64()
		if err != nil || x != math.Trunc(x) {
			return nil, &Fault{Type: "int_from_float", Msg: "Input should be a valid integer, got a number with a fractional part"}
		}
		n, _ := big.NewFloat(x).Int(nil)
		return n, nil
	}
	return nil, &Fault{Type: "int_type", Msg: "Input should be a valid integer"}
}

// Float reads what counts as a float, NaN and infinities included. The error is a [Fault].
func Float(v any) (float64, error) {
	switch v := v.(type) {
	case json.Number:
		x, err := v.Float64()
		if err != nil && !math.IsInf(x, 0) {
			return 0, &Fault{Type: "float_type", Msg: "Input should be a valid number"}
		}
		return x, nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case string:
		x, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil && !math.IsInf(x, 0) || strings.ContainsAny(v, "xXpP_") {
			return 0, &Fault{Type: "float_parsing", Msg: "Input should be a valid number, unable to parse string as a number"}
		}
		return x, nil
	}
	return 0, &Fault{Type: "float_type", Msg: "Input should be a valid number"}
}

func (p *plain) float(v any) error {
	if n, ok := v.(json.Number); ok {
		p.out = append(p.out, n...) // as it was sent
		return nil
	}
	x, err := Float(v)
	if err != nil {
		return err
	}
	if !math.IsNaN(x) && !math.IsInf(x, 0) {
		p.out = strconv.AppendFloat(p.out, x, 'g', -1, 64)
		return nil
	}
	word := "NaN"
	if math.IsInf(x, 0) {
		word = map[bool]string{true: "Infinity", false: "-Infinity"}[x > 0]
	}
	p.scan.nonFinite = true
	if !p.scan.rules.Types {
		return &Fault{Type: "finite_number", Msg: "Input should be a finite number, not " + word}
	}
	p.out = append(p.out, word...)
	return nil
}

// unescape undoes the escapes of a valid string with its quotes.
func unescape(quoted []byte) []byte {
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return nil
	}
	return []byte(text)
}
