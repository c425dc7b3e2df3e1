package schema_test

import (
	"errors"
	"strings"
	"testing"

	"hermes/internal/schema"
)

func TestObjects(t *testing.T) {
	for text, want := range map[string]string{
		`a {"x":{"y":1}} b {"z":2}`:              `{"x":{"y":1}}|{"z":2}`,
		`{ no {"x":"{"} }`:                       `{"x":"{"}`,
		"```json\n{\n\"x\": 1}\n``` {":           "{\n\"x\": 1}",
		`none`:                                   ``,
		strings.Repeat(`{"a":`, 40_000):          ``,
		strings.Repeat(`{`, 200_000) + `{"x":1}`: `{"x":1}`,
	} {
		var got []string
		for _, o := range schema.Objects(text) {
			got = append(got, string(o))
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%.60s: %q, want %q", text, s, want)
		}
	}
}

func TestRead(t *testing.T) {
	for raw, twice := range map[string]bool{
		`{"a":1,"a":2}`:         true,
		`[{"b":{"a":1,"A":2}}]`: true,
		`{"a":{"a":1}}`:         false,
		`[]`:                    false,
		`{}`:                    false,
		` "x" `:                 false,
	} {
		if _, err := schema.Read([]byte(raw)); errors.Is(err, schema.ErrTwice) != twice || (err != nil) != twice {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, raw := range []string{``, `{`, `[1`, `1 2`, `{"a"}`} {
		if v, err := schema.Read([]byte(raw)); err == nil {
			t.Errorf("%s is read as %v", raw, v)
		}
	}
}
