package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"hermes/internal/schema"
)

// same is a schema whose alternatives are n times one reference.
func same(keyword, to string, n int) string {
	return `{"` + keyword + `":[` + strings.Repeat(`{"$ref":"`+to+`"},`, n-1) + `{"$ref":"` + to + `"}]}`
}

// chain is a schema of so many levels, each of which refers n times to the next.
func chain(keyword string, levels, n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","$ref":"#/$defs/d0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"d%d":%s,`, i, same(keyword, fmt.Sprintf("#/$defs/d%d", i+1), n))
	}
	fmt.Fprintf(&b, `"d%d":{"type":"integer"}}}`, levels)
	return b.String()
}

// TestHostileSchemas holds that every schema is answered: alternatives that multiply with
// each level, and schemas that refer to themselves. Without a bound each would take years.
func TestHostileSchemas(t *testing.T) {
	nested := strings.Repeat(`{"c":`, 60) + `"1"` + strings.Repeat(`}`, 60)
	for _, raw := range []string{
		same("anyOf", "#", 2),
		same("anyOf", "#", 20),
		same("oneOf", "#", 3),
		same("allOf", "#", 2),
		chain("anyOf", 14, 30),
		chain("allOf", 60, 2),
		chain("oneOf", 60, 2),
		`{"anyOf":[{"properties":{"c":{"$ref":"#"}},"required":["x"]},{"properties":{"c":{"$ref":"#"}},"required":["y"]}]}`,
		`{"properties":{"c":{"$ref":"#"}},"patternProperties":{"c":{"$ref":"#"}},"additionalProperties":false}`,
	} {
		l := schema.Lenient([]byte(raw))
		n := schema.ReadNode([]byte(raw))
		n.Types(n)
		n.Any(n, "x")
		n.Member(n, "x")
		schema.Example([]byte(raw))
		for _, value := range []string{`{"a":"1"}`, nested} {
			_, err := l.Fit("arguments", []byte(value))
			v, readErr := schema.Read([]byte(value))
			if readErr != nil {
				t.Fatal(readErr)
			}
			if why := l.Check(v); err == nil && why != nil && strings.Contains(why.Error(), "steps") {
				t.Errorf("%.80s: %.20s fits, but cannot be checked: %v", raw, value, why)
			}
		}
	}
	err := schema.Lenient([]byte(chain("anyOf", 60, 2))).Check(map[string]any{})
	if err == nil || !strings.Contains(err.Error(), "too many steps") {
		t.Errorf("a check without end: %v", err)
	}
}

// TestLargeValuesAreChecked holds that the bound of steps grows with the value.
func TestLargeValuesAreChecked(t *testing.T) {
	l := schema.Lenient([]byte(`{"type":"object","properties":{"l":{"items":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}}`))
	raw := `{"l":[` + strings.Repeat("1,", 100_000) + `1]}`
	if out, err := l.Fit("arguments", []byte(raw)); err != nil || string(out) != raw {
		t.Errorf("a list of 100,001 numbers: %d bytes, %v", len(out), err)
	}
	if _, err := l.Fit("arguments", []byte(strings.Replace(raw, "1]", `"x"]`, 1))); err == nil || !strings.Contains(err.Error(), "l[100000]") {
		t.Errorf("the last one is a text: %v", err)
	}
}

// TestReferenceToTheWhole follows "#" in a schema that Compile refuses.
func TestReferenceToTheWhole(t *testing.T) {
	l := schema.Lenient([]byte(`{"required":"n","properties":{"n":{"type":"integer"},"c":{"$ref":"#"}}}`))
	if out, err := l.Fit("arguments", []byte(`{"c":{"n":"5"}}`)); err != nil || string(out) != `{"c":{"n":5}}` {
		t.Errorf("%s %v", out, err)
	}
}

// TestDeepSchemas holds that a schema of many levels is refused, not compiled for minutes.
func TestDeepSchemas(t *testing.T) {
	deep := func(levels int) []byte {
		return []byte(strings.Repeat(`{"properties":{"c":`, levels) + `{"type":"integer"}` + strings.Repeat(`}}`, levels))
	}
	if _, err := schema.Compile(deep(100)); err != nil {
		t.Errorf("100 levels of properties: %v", err)
	}
	if _, err := schema.Compile(deep(4000)); err == nil || !strings.Contains(err.Error(), "levels deep") {
		t.Errorf("4000 levels of properties: %v", err)
	}
	if out, err := schema.Lenient(deep(4000)).Fit("arguments", []byte(`{"c":1}`)); err != nil || string(out) != `{"c":1}` {
		t.Errorf("4000 levels, lenient: %s %v", out, err)
	}
}
