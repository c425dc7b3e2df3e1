package jinja_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hermes/internal/jinja"
)

// feature is one line of testdata/features.jsonl: what Python made of a source.
type feature struct {
	Source string   `json:"source"`
	Text   string   `json:"text"`
	Spans  [][2]int `json:"spans"`
	Error  string   `json:"error"`
}

func features(t testing.TB, lines []byte) []feature {
	t.Helper()
	var list []feature
	scan := bufio.NewScanner(bytes.NewReader(lines))
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var f feature
		if err := json.Unmarshal(scan.Bytes(), &f); err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func featureVariables(t testing.TB) *jinja.Dict {
	t.Helper()
	v, err := jinja.Decode(readFile(t, "variables.json"))
	if err != nil {
		t.Fatal(err)
	}
	return v.(*jinja.Dict)
}

func checkFeatures(t *testing.T, list []feature) {
	vars := featureVariables(t)
	for _, f := range list {
		got := feature{Source: f.Source}
		tmpl, err := jinja.Parse(f.Source, jinja.Options{})
		if err == nil {
			var out jinja.Output
			out, err = tmpl.Render(vars, jinja.RenderOptions{Now: frozen})
			got.Text, got.Spans = out.Text, out.Spans
		}
		var e *jinja.Error
		if errors.As(err, &e) {
			got.Error = e.Kind
		}
		if !reflect.DeepEqual(got, f) {
			t.Errorf("%q\n gave %q %v %v\n want %q %v %s", f.Source, got.Text, got.Spans, err, f.Text, f.Spans, f.Error)
		}
	}
	t.Logf("%d sources", len(list))
}

// TestFeatures proves every part of the language against what Python answered.
func TestFeatures(t *testing.T) {
	list := features(t, readFile(t, "features.jsonl"))
	if len(list) < 100 {
		t.Fatalf("only %d features", len(list))
	}
	checkFeatures(t, list)
}

// TestOracle asks Python itself, where ORACLE_PYTHON names one with jinja2.
func TestOracle(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		t.Skip("ORACLE_PYTHON names no Python with jinja2")
	}
	var sources []string
	for _, f := range features(t, readFile(t, "features.jsonl")) {
		sources = append(sources, f.Source)
	}
	sources = append(sources, mixed(sources)...)
	given, err := json.Marshal(map[string]any{"sources": sources, "variables": json.RawMessage(readFile(t, "variables.json"))})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, filepath.Join("testdata", "oracle.py"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(given), os.Stderr
	lines, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	checkFeatures(t, features(t, lines))
}

// mixed joins single sources into loops, macros and blocks.
func mixed(sources []string) []string {
	var out []string
	for i, s := range sources {
		other := sources[(i*7+3)%len(sources)]
		if strings.Contains(s+other, "{% block ") { // in a loop or a macro it must be scoped, see TestUnsupported
			continue
		}
		out = append(out,
			"{% for turn in [1, 2] %}\n  "+s+"\n{% endfor %}"+other,
			"{% macro wrap() %}"+s+"{% endmacro %}{% if l %}{{ wrap() | upper }}{% endif %}",
			strings.ReplaceAll(s, "{{ ", "{{- "), strings.ReplaceAll(s, " %}", " -%}"))
	}
	return out
}
