package configs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes that people write as 2GB (10⁹), 512MiB (2²⁰), 4k (2¹⁰, as
// container tools read it) or 1024. It is a flag's type and decodes from YAML.
type Size int64

// UnmarshalText reads a size; negative ones and those above 2⁶³-1 are errors.
func (s *Size) UnmarshalText(text []byte) error {
	in := strings.TrimSpace(string(text))
	cut := strings.IndexFunc(in, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if cut < 0 {
		cut = len(in)
	}
	unit, ok := unitOf(strings.ToLower(strings.TrimSpace(in[cut:])))
	number, err := strconv.ParseFloat(in[:cut], 64)
	if err != nil || !ok {
		return fmt.Errorf("size %q: want a number of bytes, or one with a unit such as 512MiB or 2GB", in)
	}
	if number*unit >= math.MaxInt64 {
		return errors.New("size " + in + " is too large")
	}
	if n, err := strconv.ParseInt(in[:cut], 10, 64); err == nil {
		*s = Size(n * int64(unit))
		return nil
	}
	*s = Size(number * unit)
	return nil
}

// MarshalText writes the size with the largest unit that divides it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is the size with the largest unit that divides it.
func (s Size) String() string {
	for _, u := range []struct {
		name string
		n    Size
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if s != 0 && s%u.n == 0 {
			return strconv.FormatInt(int64(s/u.n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func unitOf(name string) (float64, bool) {
	switch name {
	case "", "b":
		return 1, true
	case "kb":
		return 1e3, true
	case "mb":
		return 1e6, true
	case "gb":
		return 1e9, true
	case "tb":
		return 1e12, true
	case "k", "ki", "kib":
		return 1 << 10, true
	case "m", "mi", "mib":
		return 1 << 20, true
	case "g", "gi", "gib":
		return 1 << 30, true
	case "t", "ti", "tib":
		return 1 << 40, true
	}
	return 0, false
}
