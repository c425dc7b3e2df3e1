package terminalbench

import (
	"maps"
	"testing"
)

func TestParsers(t *testing.T) {
	for _, tt := range []struct {
		name, parser, output string
		want                 results
	}{
		{
			"pytest",
			"pytest",
			"x\n==== short test summary info ====\nPASSED ../tests/test_outputs.py::test_a\nFAILED test_outputs.py::test_b - assert 1 - 2 == 3\n=== 1 failed, 1 passed in 0.1s ===\n",
			results{"test_outputs.py::test_a": true, "test_outputs.py::test_b - assert 1": false},
		},
		{"the last summary counts", "pytest", "== short test summary info ==\nPASSED a\n== short test summary info ==\nFAILED b\n", results{"b": false}},
		{"all states, in colour",
			"pytest",
			"\x1b[36m=== short test summary info ===\x1b[0m\r\nXFAIL a - why\nSKIPPED [1] b.py:3: no\nXPASS c\nERROR d\n",
			results{"a": true, "[1] b.py:3: no": true, "c": false, "d": false}},
		{"failed once, passed once", "pytest", "=== short test summary info ===\nFAILED a\nPASSED a\n", results{"a": false}},
		{"no summary", "pytest", "PASSED a\n", nil},
		{"a path in a parameter", "pytest", "=== short test summary info ===\nPASSED t/x.py::f[a/b]\n", results{"x.py::f[a/b]": true}},
		{"swebench",
			"swebench",
			"PASSED\nSWEBench results starts here\na<-|-|-> PASSED\nb <-|-|->failed\nSWEBench results ends here\nc<-|-|-> PASSED",
			results{"a": true, "b": false}},
		{"swebench, the whole", "swebench", "SWEBench results starts here\nPASSED\nSWEBench results ends here", results{"resolved": true}},
		{"swebench, cut off", "swebench", "SWEBench results starts here\na<-|-|-> PASSED\n", nil},
	} {
		if got := parsers()[tt.parser](tt.output); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRecipes(t *testing.T) {
	for _, tt := range []struct{ text, why, dir string }{
		{"FROM debian:12\n# RUN no\nWORKDIR /app\nWORKDIR sub\nCMD [\"sh\"]", "", "/app/sub"},
		{"FROM a\nRUN apt-get update && \\\n  apt-get install x", "RUN apt-get update &&    apt-get install x", ""},
		{"FROM a AS b\nFROM c", "FROM c", ""},
		{"FROM a\nCOPY --from=b x y", "COPY --from=b x y", ""},
		{"FROM a\nADD https://x/y z", "ADD https://x/y z", ""},
		{"FROM a\nENV A=\"b c\"", `ENV A="b c"`, ""},
		{"FROM a\nENV A b c\nENV B=1 C=2\nCOPY x y z/", "", ""},
		{"FROM a\nUSER nobody", "USER nobody", ""},
		{"FROM ghcr.io/laude-institute/t-bench/python-3-13:1\n", "", ""},
		{"FROM ghcr.io/laude-institute/t-bench/ubuntu-24-04:latest\n", "", "/app"},
	} {
		r, err := readRecipe(tt.text)
		if err != nil || r.why != tt.why || r.dir != tt.dir {
			t.Errorf("%q: needs %q in %q (%v)", tt.text, r.why, r.dir, err)
		}
	}
}

func TestPlaced(t *testing.T) {
	context := []file{{name: "a.txt"}, {name: "d/b.txt"}, {name: "d/e/c.txt"}}
	for copy, want := range map[string][]string{
		"COPY a.txt ./":      {"/w/a.txt"},
		"COPY a.txt b":       {"/w/b"},
		"COPY d .":           {"/w/b.txt", "/w/e/c.txt"},
		"COPY ./d/ /x/y":     {"/x/y/b.txt", "/x/y/e/c.txt"},
		"COPY a.txt d/e to/": {"/w/to/a.txt", "/w/to/c.txt"},
		"COPY . .":           {"/w/a.txt", "/w/d/b.txt", "/w/d/e/c.txt"},
	} {
		r, err := readRecipe("FROM x\nWORKDIR /w\n" + copy)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.placed(context)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v %v", copy, got, err)
		}
		for _, w := range want {
			if _, ok := got[w]; !ok {
				t.Errorf("%s: no %s in %v", copy, w, got)
			}
		}
	}
	r, err := readRecipe("FROM x\nCOPY tests/secret /x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.placed(context); err == nil {
		t.Error("a file that is not there is copied")
	}
}
