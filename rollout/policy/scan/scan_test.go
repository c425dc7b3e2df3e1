package scan

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestFraction: log-probs are those that the library reads, to the bit, also where a
// number lies between two.
func TestFraction(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var list []string
	for range 20_000 {
		v := float32(-r.ExpFloat64() * math.Pow(10, float64(r.IntN(12)-6)))
		next := math.Nextafter32(v, 0)
		list = append(list, strconv.FormatFloat(float64(v),
			'f', -1, 32), strconv.FormatFloat(float64(v), 'f', -1, 64), strconv.FormatFloat(float64(v), 'f', r.IntN(12), 64),
			strconv.FormatFloat((float64(v)+float64(next))/2, 'f', -1, 64), strconv.FormatFloat((float64(v)+float64(next))/2, 'f', 14, 64))
	}
	list = append(list, "0", "-0", "-0.0", "1", "0.1", "-16777217", "-16777216.5", "-16777217.0000000000", "9007199254740993", "9007199254740992.5", "-123456789012345678901234567890", "1e3", "-1.5E-3",
		"-0.00000000000000000001", "0.0000000000000000000", "-00", "01", "-.5", "1.", "-", "", "0.000000000000000001", "3402823466385288598",
		"-0.1234567e1", "-0.12345678901234567", "-12345.123456789012345678", "0.12345678", "0.00000000")
	quick := 0
	for _, text := range list {
		fast := New([]byte(text))
		got, ok := fast.fraction()
		want, err := strconv.ParseFloat(text, 32)
		if ok && (err != nil || fast.at != len(text) || math.Float32bits(got) != math.Float32bits(float32(want)) || !json.Valid([]byte(text))) {
			t.Fatalf("%q is %v up to byte %d, the library reads %v, %v", text, got, fast.at, want, err)
		}
		whole := New([]byte(text))
		if got, ok := whole.LogProb(); ok != (json.Valid([]byte(text)) && err == nil) || ok && got != float32(want) {
			t.Fatalf("%q is %v, %v; the library reads %v, %v", text, got, ok, want, err)
		}
		if ok {
			quick++
		}
	}
	if quick < len(list)/2 {
		t.Errorf("%d of %d numbers were left to the library", len(list)-quick, len(list))
	}
}
