package datasets_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"hermes/datasets"
)

func TestConditions(t *testing.T) {
	row := `{"id":"é","n":2.5,"s":"two \u00e9","b":true,"z":null,"l":[1,2,3],"o":{"a.b":{"c":7}},"x.y":1,"x":{"y":9},"len":{"l":99}}`
	for where, want := range map[string]bool{
		`n > 2`: true, `n == 2.50`: true, `n != 2.5`: false, `s == "two é"`: true, `s != two`: true, `b == true`: true, `b == "true"`: false,
		`z == null`: true, `len.s == 5`: true, `len.o = 1`: true, `x.y == 1`: true, `missing > 0`: false, `not missing > 0`: true, `missing != a`: false,
		`n > 3 or (b == true and not (n < 2))`: true, `s > 2`: false, `len.missing >= 0`: false, `len.l == 99`: true, `o.c == 7`: false,
	} {
		keep, err := datasets.ParseCondition(where)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		d, err := datasets.Inline("rows", row, datasets.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Texts(t.Context(), datasets.Fail, func(x datasets.Text) error {
			if got := keep(x); got != want {
				t.Errorf("%s is %v", where, got)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// Shares come out as asked, and a group keeps its part when the shares keep theirs.
func TestPartOf(t *testing.T) {
	parts := []datasets.Share{{Name: "a", Weight: 8}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1}}
	const n = 20_000
	count := map[int]int{}
	moved := 0
	for i := range n {
		key := sha256.Sum256(fmt.Append(nil, i))
		p := datasets.PartOf(key, 1, parts)
		count[p]++
		if p != datasets.PartOf(key, 2, parts) {
			moved++
		}
	}
	for i, p := range parts {
		if got := float64(count[i]) / n; math.Abs(got-p.Weight/10) > 0.01 {
			t.Errorf("part %s has %.3f of the groups", p.Name, got)
		}
	}
	if share := float64(moved) / n; math.Abs(share-0.34) > 0.02 { // 1 - 0.8² - 2 × 0.1²
		t.Errorf("another seed moves %.3f of the groups", share)
	}
}

func TestPickBadRows(t *testing.T) {
	d, err := datasets.Inline("rows", "{\"prompt\":\"a\"}\n[1]\n{\"prompt\":\n{\"prompt\":\"b\"}\n", datasets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.jsonl")
	all := func(datasets.Text) (int, error) { return 0, nil }
	var bad *datasets.RowError
	if _, err := d.Pick(t.Context(), []string{out}, datasets.Fail, all); !errors.As(err, &bad) || bad.Line != 2 {
		t.Errorf("%v", err)
	}
	if rows, err := d.Pick(t.Context(), []string{out}, datasets.Skip, all); err != nil || rows[0] != 2 {
		t.Errorf("%v, %v", rows, err)
	}
	if _, err := d.Pick(t.Context(), []string{strings.TrimSuffix(out, "l")}, datasets.Skip, all); err == nil {
		t.Error("a name that says JSON is written as lines")
	}
}
