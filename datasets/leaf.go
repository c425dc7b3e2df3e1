package datasets

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"hermes/datasets/scan"
)

// leafKind is what the bytes of a Parquet leaf mean.
type leafKind struct {
	text, json, uuid, half, date, unsigned, local bool
	decimal                                       bool
	scale                                         int
	stamp                                         time.Duration // unit of a timestamp
	clock                                         time.Duration // unit of a time of day
}

// nesting tells whether a group is a list or a map, in new or old annotation.
func nesting(node parquet.Node) (list, mapping bool) {
	if lt := node.Type().LogicalType(); lt != nil {
		switch lt.Value.(type) {
		case *format.ListType:
			return true, false
		case *format.MapType:
			return false, true
		}
	}
	if ct := node.Type().ConvertedType(); ct != nil {
		return *ct == deprecated.List, *ct == deprecated.Map || *ct == deprecated.MapKeyValue
	}
	return false, false
}

func kindOf(t parquet.Type) leafKind {
	var k leafKind
	if lt := t.LogicalType(); lt != nil && lt.Value != nil {
		switch v := lt.Value.(type) {
		case *format.StringType, *format.EnumType:
			k.text = true
		case *format.JsonType:
			k.json = true
		case *format.UUIDType:
			k.uuid = true
		case *format.Float16Type:
			k.half = true
		case *format.DateType:
			k.date = true
		case *format.IntType:
			k.unsigned = !v.IsSigned
		case *format.DecimalType:
			k.decimal, k.scale = true, int(v.Scale)
		case *format.TimestampType:
			k.stamp, k.local = unit(v.Unit), !v.IsAdjustedToUTC
		case *format.TimeType:
			k.clock = unit(v.Unit)
		}
		return k
	}
	if ct := t.ConvertedType(); ct != nil {
		switch *ct {
		case deprecated.UTF8, deprecated.Enum:
			k.text = true
		case deprecated.Json:
			k.json = true
		case deprecated.Date:
			k.date = true
		case deprecated.TimestampMillis:
			k.stamp = time.Millisecond
		case deprecated.TimestampMicros:
			k.stamp = time.Microsecond
		case deprecated.TimeMillis:
			k.clock = time.Millisecond
		case deprecated.TimeMicros:
			k.clock = time.Microsecond
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			k.unsigned = true
		}
	}
	return k
}

func unit(u format.TimeUnit) time.Duration {
	if u.Value == nil {
		return time.Millisecond
	}
	return u.Value.Duration()
}

// leafWriter returns how values of a leaf become JSON: numbers as numbers, decimals
// exactly, dates and times as ISO 8601 text, bytes that are no text as base64. NaN and
// infinities become null, as JSON has no word for them.
func leafWriter(node parquet.Node) func([]byte, parquet.Value) ([]byte, error) {
	k := kindOf(node.Type())
	return func(to []byte, v parquet.Value) ([]byte, error) {
		if v.IsNull() {
			return append(to, "null"...), nil
		}
		switch v.Kind() {
		case parquet.Boolean:
			return strconv.AppendBool(to, v.Boolean()), nil
		case parquet.Int32:
			if k.unsigned {
				return strconv.AppendUint(to, uint64(v.Uint32()), 10), nil
			}
			return k.integer(to, int64(v.Int32())), nil
		case parquet.Int64:
			if k.unsigned {
				return strconv.AppendUint(to, v.Uint64(), 10), nil
			}
			return k.integer(to, v.Int64()), nil
		case parquet.Int96:
			return int96(to, v.Int96()), nil
		case parquet.Float:
			return appendFloat(to, float64(v.Float()), 32), nil
		case parquet.Double:
			return appendFloat(to, v.Double(), 64), nil
		}
		return k.bytes(to, v.ByteArray())
	}
}

// mixedWriter writes a column of [marks.Mixed]: what reads as a value that is no text is one.
func mixedWriter(text func([]byte, parquet.Value) ([]byte, error)) func([]byte, parquet.Value) ([]byte, error) {
	return func(to []byte, v parquet.Value) ([]byte, error) {
		if b := v.ByteArray(); !v.IsNull() && notText(b) {
			return append(to, b...), nil
		}
		return text(to, v)
	}
}

func (k leafKind) integer(to []byte, n int64) []byte {
	switch {
	case k.date:
		return quoteTime(to, time.Unix(0, 0).UTC().AddDate(0, 0, int(n)), time.DateOnly)
	case k.stamp > 0:
		per := int64(time.Second / k.stamp)
		sec, rest := n/per, n%per
		layout := time.RFC3339Nano
		if k.local {
			layout = "2006-01-02T15:04:05.999999999"
		}
		return quoteTime(to, time.Unix(sec, rest*int64(k.stamp)).UTC(), layout)
	case k.clock > 0:
		return quoteTime(to, time.Unix(0, n*int64(k.clock)).UTC(), "15:04:05.999999999")
	case k.decimal:
		return appendDecimal(to, big.NewInt(n), k.scale)
	}
	return strconv.AppendInt(to, n, 10)
}

func quoteTime(to []byte, t time.Time, layout string) []byte {
	return append(t.AppendFormat(append(to, '"'), layout), '"')
}

// int96 is the timestamp of old writers: nanoseconds of the day, then the Julian day.
func int96(to []byte, v deprecated.Int96) []byte {
	nanos := int64(v[1])<<32 | int64(v[0])
	day := int64(v[2]) - 2440588
	return quoteTime(to, time.Unix(day*86400, nanos).UTC(), "2006-01-02T15:04:05.999999999")
}

func appendFloat(to []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(to, "null"...)
	}
	form := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	from := len(to)
	to = strconv.AppendFloat(to, f, form, -1, bits)
	for _, c := range to[from:] {
		if c == '.' || c == 'e' {
			return to
		}
	}
	return append(to, ".0"...) // still a float for whoever reads it
}

func appendDecimal(to []byte, n *big.Int, scale int) []byte {
	text := new(big.Int).Abs(n).String()
	if scale > 0 {
		for len(text) <= scale {
			text = "0" + text
		}
		text = text[:len(text)-scale] + "." + text[len(text)-scale:]
	}
	if n.Sign() < 0 {
		to = append(to, '-')
	}
	return append(to, text...)
}

func (k leafKind) bytes(to, b []byte) ([]byte, error) {
	switch {
	case k.decimal:
		n := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
		}
		return appendDecimal(to, n, k.scale), nil
	case k.uuid && len(b) == 16:
		h := hex.EncodeToString(b)
		return fmt.Appendf(to, "%q", h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:]), nil
	case k.half && len(b) == 2:
		return appendFloat(to, float16(binary.LittleEndian.Uint16(b)), 32), nil
	case !utf8.Valid(b):
		if k.text || k.json {
			return to, fmt.Errorf("text that is not valid UTF-8")
		}
		return append(base64.StdEncoding.AppendEncode(append(to, '"'), b), '"'), nil
	case k.json:
		if end, err := scan.Value(b, 0); err == nil && scan.Space(b, end) == len(b) {
			return append(to, b...), nil
		}
	}
	return scan.Quote(to, string(b)), nil
}

func float16(h uint16) float64 {
	sign := 1.0
	exp := int(h >> 10 & 31)
	frac := float64(h & 1023)
	if h&0x8000 != 0 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
