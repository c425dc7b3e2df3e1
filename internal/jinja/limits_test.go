package jinja_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"hermes/internal/jinja"
)

// TestHostile runs templates that would never end, or fill the memory.
func TestHostile(t *testing.T) {
	tests := []struct{ name, src string }{
		{"endless recursion of a macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
		{"two macros in a circle", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"},
		{"recursive loop in a circle", "{% set ns = namespace(l=[1]) %}{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
		{"nested loops", strings.Repeat("{% for i in range(99999) %}", 4) + strings.Repeat("{% endfor %}", 4)},
		{"a text that doubles", "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"},
		{"a list that doubles", "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"},
		{"a tree that doubles", "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}"},
		{"a tree as JSON", "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}"},
		{
			"equal trees",
			"{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
		},
		{"a tall list", "{% set ns = namespace(s=[1]) %}{% for i in range(99999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}"},
		{"a tall key", "{% set ns = namespace(s=(1,)) %}{% for i in range(99999) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}{{ {ns.s: 1} }}"},
		{"a namespace in itself", "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}"},
		{"a repeated text", "{{ 'x' * 99999999999 }}"},
		{"a repeated list", "{{ [1] * 99999999999 }}"},
		{"a wide format", "{{ '%99999999999d' % 1 }}"},
		{"a wide brace format", "{{ '{:99999999999}'.format(1) }}"},
		{"a wide centre", "{{ 'x'.center(99999999999) }}"},
		{"a great power", "{{ 9 ** (9 ** 9) }}"},
		{"a power of powers", "{{ (9 ** 9999) ** 9999 }}"},
		{"a replacement that explodes", "{{ ('x' * 999999).replace('', 'y' * 999999) }}"},
		{"a join that explodes", "{{ ('x' * 999999).join('y' * 999999) }}"},
		{"a deep indentation", "{{ [[1]] | tojson(indent=999999999) }}"},
		{"an endless batch", "{{ [1] | batch(99999999999, 'x') | list }}"},
		{"many slices", "{{ [1] | slice(99999999999) | list }}"},
		{"deep parentheses", "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}"},
		{"deep lists", "{{ " + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + " }}"},
		{"deep not", "{{ " + strings.Repeat("not ", 100000) + "1 }}"},
		{"deep signs", "{{ " + strings.Repeat("-", 100000) + "1 }}"},
		{"deep ifs", strings.Repeat("{% if 1 %}", 100000) + strings.Repeat("{% endif %}", 100000)},
		{"a long sum", "{{ 1" + strings.Repeat("+1", 100000) + " }}"},
		{"a long path", "{{ x" + strings.Repeat(".a", 100000) + " }}"},
		{"a long elif", "{% if 0 %}" + strings.Repeat("{% elif 0 %}", 100000) + "{% endif %}"},
		{"a long filter chain", "{{ 1" + strings.Repeat("|string", 100000) + " }}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl, err := jinja.Parse(tt.src, jinja.Options{})
			if err == nil {
				_, err = tmpl.Render(nil, jinja.RenderOptions{MaxSteps: 2_000_000, MaxBytes: 8 << 20})
			}
			var e *jinja.Error
			if !errors.As(err, &e) || e.Class != jinja.ClassLimit {
				t.Errorf("the end is %v, not a limit", err)
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	tests := []struct {
		src       string
		class     jinja.Class
		line, col int
	}{
		{"a\nb {{ 1 + }}", jinja.ClassSyntax, 2, 10},
		{"{% if x %}\n{% endfor %}", jinja.ClassSyntax, 2, 4},
		{"é{{ ? }}", jinja.ClassSyntax, 1, 5},
		{"x{%0", jinja.ClassSyntax, 1, 2},
		{"{{ 'a' | nofilter }}", jinja.ClassSyntax, 1, 10},
		{"\n{{ x.y.z }}", jinja.ClassTemplate, 2, 1},
		{"\n\n  {{ raise_exception('no') }}", jinja.ClassTemplate, 3, 3},
	}
	for _, tt := range tests {
		tmpl, err := jinja.Parse(tt.src, jinja.Options{})
		if err == nil {
			_, err = tmpl.Render(nil, jinja.RenderOptions{})
		}
		var e *jinja.Error
		if !errors.As(err, &e) || e.Class != tt.class || e.Line != tt.line || e.Column != tt.col {
			t.Errorf("%q: %#v, want %s at %d:%d", tt.src, err, tt.class, tt.line, tt.col)
		}
	}
}

func TestDecodeKeepsOrderAndNumbers(t *testing.T) {
	v, err := jinja.Decode([]byte(`{"z": 1, "a": 123456789012345678901234567890, "m": -0.0, "z": 2, "e": 1e5}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := parse(t, "{{ x | tojson }}").Render(jinja.NewDict().Set("x", v), jinja.RenderOptions{})
	if want := `{"z": 2, "a": 123456789012345678901234567890, "m": -0.0, "e": 100000.0}`; err != nil || out.Text != want {
		t.Errorf("%q %v, want %q", out.Text, err, want)
	}
	for _, bad := range []string{"", "{", `{"a" 1}`, "1 2", strings.Repeat("[", 5000)} {
		if _, err := jinja.Decode([]byte(bad)); err == nil {
			t.Errorf("%.20q was decoded", bad)
		}
	}
}

// FuzzRender: any source ends within its limits, in valid UTF-8 when the source
// is, and twice in the same way.
func FuzzRender(f *testing.F) {
	for _, x := range features(f, readFile(f, "features.jsonl")) {
		f.Add(x.Source)
	}
	f.Add(chatml)
	f.Fuzz(func(t *testing.T, src string) {
		tmpl, err := jinja.Parse(src, jinja.Options{MaxSource: 1 << 16})
		if err != nil {
			var e *jinja.Error
			if !errors.As(err, &e) {
				t.Fatalf("%q: %v is not an Error", src, err)
			}
			return
		}
		vars, o := featureVariables(t), jinja.RenderOptions{Now: frozen, MaxSteps: 50_000, MaxBytes: 1 << 20}
		one, err1 := tmpl.Render(vars, o)
		two, err2 := tmpl.Render(vars, o)
		if one.Text != two.Text || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q: two renderings differ: %q %v, %q %v", src, one.Text, err1, two.Text, err2)
		}
		if utf8.ValidString(src) && !utf8.ValidString(one.Text) {
			t.Fatalf("%q: %q is not UTF-8", src, one.Text)
		}
	})
}
