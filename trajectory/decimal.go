package trajectory

import (
	"encoding/binary"
	"slices"
	"strconv"
)

// padded are the decimal numbers of three digits, zeros in front, the first digit in the
// lowest byte.
var padded = threeDigits()

func threeDigits() (table [1000]uint32) {
	for i := range uint32(len(table)) {
		table[i] = '0' + i/100 | ('0'+i/10%10)<<8 | ('0'+i%10)<<16
	}
	return table
}

// digits is how many digits a number below a thousand has.
func digits(v uint32) int {
	switch {
	case v >= 100:
		return 3
	case v >= 10:
		return 2
	}
	return 1
}

// DecimalLen is the length of what [AppendDecimal] appends for list.
func DecimalLen(list []Token) int {
	n := max(0, len(list)-1)
	for _, t := range list {
		v := uint32(t)
		if t < 0 {
			v = -v
			n++
		}
		for v >= 1000 {
			v /= 1000
			n += 3
		}
		n += digits(v)
	}
	return n
}

// AppendDecimal appends the tokens as decimal numbers with a comma between them. Every
// token of a prompt and of a group for a trainer is written so, which is why three digits
// are written at once: strconv takes three times as long.
func AppendDecimal(b []byte, list []Token) []byte {
	const most = len(",") + 3 + 3 + len("x") // bytes that are touched for a number below a million
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}
		v, at := uint32(t), len(b)
		if cap(b)-at < most || v >= 1e6 { // a negative token, too
			if cap(b)-at < most && cap(b)-at < DecimalLen(list[i:]) {
				b = slices.Grow(b, DecimalLen(list[i:]))
			}
			b = strconv.AppendInt(b, int64(t), 10)
			continue
		}
		b = b[:at+most]
		if v >= 1000 {
			high := v / 1000
			n := digits(high)
			binary.LittleEndian.PutUint32(b[at:], padded[high]>>(8*(3-n)))
			at += n
			binary.LittleEndian.PutUint32(b[at:], padded[v-1000*high])
			b = b[:at+3]
			continue
		}
		n := digits(v)
		binary.LittleEndian.PutUint32(b[at:], padded[v]>>(8*(3-n)))
		b = b[:at+n]
	}
	return b
}
