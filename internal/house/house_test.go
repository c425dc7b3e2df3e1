package house_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/internal/house"
)

type rule struct {
	name  string
	check func(*house.Tree) []house.Finding
}

func rules() []rule {
	return []rule{
		{"imports", house.Imports},
		{"layers", house.Layers},
		{"doors", house.Doors},
		{"docs", house.Docs},
		{"inits", house.Inits},
		{"variables", house.Variables},
		{"process", house.Process},
		{"host", house.HostReach},
		{"opens", house.Opens},
		{"words", house.Words},
		{"format", house.Format},
		{"sleeps", house.Sleeps},
		{"servers", house.Servers}, {"data paths", house.DataPaths}, {"sizes", house.Sizes},
		{"idioms", house.Idioms}, {"state in if", house.StateInIf}, {"wide assignments", house.WideAssignments}, {"long tests", house.LongTests},
	}
}

// root walks up to go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

func TestThisRepository(t *testing.T) {
	tree, err := house.Load(root(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 20 {
		t.Fatalf("only %d files were read", len(tree.Files))
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range r.check(tree) {
				t.Error(f)
			}
		})
	}
}

// packages are small packages and some of 2,600 lines.
func packages(small, rather int) map[string]string {
	files := map[string]string{}
	for i := range small + rather {
		text := "// Package x is a thing.\npackage x\n"
		if i >= small {
			text += strings.Repeat("\n", 2600)
		}
		files["envs/"+string(rune('a'+i))+"/a.go"] = text
	}
	return files
}

// withNamed adds a package that may be over the bound on lines.
func withNamed(files map[string]string) map[string]string {
	files["internal/jinja/a.go"] = "// Package x is a thing.\npackage x\n" + strings.Repeat("\n", 4000)
	return files
}

// TestRulesBite shows each rule a breach and its innocent neighbour.
func TestRulesBite(t *testing.T) {
	const doc = "// Package x is a thing.\npackage x\n\n"
	tests := []struct {
		name, rule string
		files      map[string]string
		want       string // "" means innocent
	}{
		{"up", "imports", map[string]string{"backends/a.go": doc + "import \"hermes/rollout\"\n"}, "goes up"},
		{"down", "imports", map[string]string{"rollout/a.go": doc + "import \"hermes/backends\"\n"}, ""},
		{"sideways", "imports", map[string]string{"parsers/a.go": doc + "import \"hermes/datasets\"\n"}, "another room"},
		{"inside a room", "imports", map[string]string{"backends/docker/a.go": doc + "import \"hermes/backends\"\n"}, ""},
		{"the contract of tools is low", "imports", map[string]string{"envs/a.go": doc + "import \"hermes/rollout/tool\"\n"}, ""},
		{"but not their implementation", "imports", map[string]string{"envs/a.go": doc + "import \"hermes/rollout/tool/box\"\n"}, "goes up"},
		{"trajectory stands alone", "imports", map[string]string{"trajectory/a.go": doc + "import \"hermes/trajectory/stats\"\n"}, "standard library"},
		{"a library is for all", "imports", map[string]string{"parsers/a.go": doc + "import \"hermes/internal/jinja\"\n", "internal/jinja/a.go": doc}, ""},
		{"no library any more",
			"imports",
			map[string]string{"parsers/a.go": doc + "import \"hermes/internal/jinja\"\n", "internal/jinja/a.go": doc + "import \"hermes/parsers/b\"\n"},
			"goes up"},
		{"tests may", "imports", map[string]string{"backends/a_test.go": "package x_test\n\nimport \"hermes/cmd\"\n"}, ""},
		{"no floor", "imports", map[string]string{"pkg/a.go": doc}, "no floor"},

		{"a run imports another", "imports", map[string]string{"internal/runs/eval/a.go": doc + "import \"hermes/internal/runs/batch\"\n"}, "another room"},
		{"a run builds",
			"imports",
			map[string]string{"internal/runs/eval/a.go": doc + "import (\n\t\"hermes/internal/build\"\n\t\"hermes/internal/runs/rollouts\"\n)\n"},
			""},
		{"settings build nothing", "imports", map[string]string{"internal/settings/a.go": doc + "import \"hermes/internal/build\"\n"}, "goes up"},

		{"files in a circle",
			"layers",
			map[string]string{"internal/build/a.go": doc + "func f() { g() }\n", "internal/build/b.go": "package x\n\nfunc g() { h() }\n\nfunc h() { f() }\n"},
			"in a circle"},
		{"by a method",
			"layers",
			map[string]string{"internal/build/a.go": doc + "type t int\n\nfunc f(x t) { x.g() }\n", "internal/build/b.go": "package x\n\nfunc (x t) g() {}\n"},
			"in a circle"},
		{"files in layers",
			"layers",
			map[string]string{"internal/build/a.go": doc + "func f() { g() }\n", "internal/build/b.go": "package x\n\nfunc g() {}\n"},
			""},

		{"a server without a guard",
			"servers",
			map[string]string{"envs/a.go": doc + "import web \"net/http\"\n\nfunc f() { (&web.Server{}).ListenAndServe() }\n"},
			"no guard"},
		{"in one call", "servers", map[string]string{"envs/a.go": doc + "import \"net/http\"\n\nfunc f() { http.ListenAndServe(\":0\", nil) }\n"}, "no guard"},
		{"of a test",
			"servers",
			map[string]string{"envs/a_test.go": "package x_test\n\nimport \"net/http\"\n\nfunc f() { http.ListenAndServe(\":0\", nil) }\n"},
			""},
		{"the guard's own", "servers", map[string]string{"internal/guard/a.go": doc + "import \"net/http\"\n\nvar s http.Server\n"}, ""},

		{"docker elsewhere", "doors", map[string]string{"rollout/a.go": doc + "import \"github.com/docker/docker/client\"\n"}, "one door"},
		{"docker at home", "doors", map[string]string{"backends/docker/a.go": doc + "import \"github.com/docker/docker/client\"\n"}, ""},
		{"trajectory with a dependency", "doors", map[string]string{"trajectory/a.go": doc + "import \"go.yaml.in/yaml/v3\"\n"}, "standard library only"},
		{"cgo", "doors", map[string]string{"parsers/a.go": doc + "import \"C\"\n"}, "one door"},
		{"a dependency's type in a signature",
			"doors",
			map[string]string{"trajectory/columns/a.go": doc + "import \"github.com/parquet-go/parquet-go\"\n\nfunc F(parquet.Node) {}\n"},
			"exported signature"},
		{"kept inside",
			"doors",
			map[string]string{"trajectory/columns/a.go": doc + "import \"github.com/parquet-go/parquet-go\"\n\ntype T struct{ f *parquet.File }\n\nfunc f(parquet.Node) {}\n"},
			""},

		{"no doc", "docs", map[string]string{"envs/a.go": "package x\n"}, "no package doc"},
		{"doc in one file", "docs", map[string]string{"envs/a.go": "package x\n", "envs/b.go": doc}, ""},
		{"init", "inits", map[string]string{"envs/a.go": doc + "func init() {}\n"}, "init function"},
		{"a method of that name", "inits", map[string]string{"envs/a.go": doc + "type t int\n\nfunc (t) init() {}\n"}, ""},
		{"blank import", "inits", map[string]string{"envs/a.go": doc + "import _ \"net/http/pprof\"\n"}, "blank import"},

		{"assigned", "variables", map[string]string{"envs/a.go": doc + "var n = 1\n\nfunc f() { n = 2 }\n"}, "assigned to"},
		{"assigned in another file",
			"variables",
			map[string]string{"envs/a.go": doc + "var n = 1\n", "envs/b.go": "package x\n\nfunc f() { n++ }\n"},
			"assigned to"},
		{"assigned from another package",
			"variables",
			map[string]string{"envs/a.go": doc + "var N = 1\n", "rollout/b.go": doc + "import \"hermes/envs\"\n\nfunc f() { envs.N = 3 }\n"},
			"assigned to"},
		{"an entry assigned",
			"variables",
			map[string]string{"envs/a.go": doc + "var m = map[string]int{\"a\": 1}\n\nfunc f() { m[\"a\"] = 2 }\n"},
			"assigned to"},
		{"an entry deleted",
			"variables",
			map[string]string{"envs/a.go": doc + "var m = map[string]int{\"a\": 1}\n\nfunc f() { delete(m, \"a\") }\n"},
			"emptied"},
		{"assigned by a test",
			"variables",
			map[string]string{"envs/a.go": doc + "var n = 1\n", "envs/a_test.go": "package x\n\nfunc f() { n = 2 }\n"},
			"assigned to"},
		{"a local of the same name",
			"variables",
			map[string]string{"envs/a.go": doc + "var n = 1\n", "envs/b.go": "package x\n\nfunc f() int { n := 1; n = 2; return n }\n"},
			""},
		{"a parameter of the same name", "variables", map[string]string{"envs/a.go": doc + "var n = 1\n\nfunc f(n int) int { n = 2; return n }\n"}, ""},
		{"no value", "variables", map[string]string{"envs/a.go": doc + "import \"sync\"\n\nvar mu sync.Mutex\n"}, "sync.Mutex"},
		{"a pool", "variables", map[string]string{"envs/a.go": doc + "import \"sync\"\n\nvar p = sync.Pool{New: nil}\n"}, "sync.Pool"},
		{"made empty", "variables", map[string]string{"envs/a.go": doc + "var m = make(map[string]int)\n"}, "made empty"},
		{"tables, errors, regexps, embedded",
			"variables",
			map[string]string{"envs/a.go": doc + "import (\n\t_ \"embed\"\n\t\"errors\"\n\t\"regexp\"\n)\n\nvar (\n\tErr = errors.New(\"x\")\n\tre  = regexp.MustCompile(`x`)\n\ttab = []int{1}\n)\n\n//go:embed a.md\nvar text string\n"},
			""},

		{"stdout", "process", map[string]string{"rollout/a.go": doc + "import \"os\"\n\nvar w = os.Stdout\n"}, "os.Stdout"},
		{"environment under another name",
			"process",
			map[string]string{"rollout/a.go": doc + "import sys \"os\"\n\nfunc f() { sys.Getenv(\"X\") }\n"},
			"os.Getenv"},
		{"print", "process", map[string]string{"rollout/a.go": doc + "import \"fmt\"\n\nfunc f() { fmt.Println() }\n"}, "fmt.Println"},
		{"cmd may", "process", map[string]string{"cmd/a.go": doc + "import \"os\"\n\nfunc f() { os.Getenv(\"X\") }\n"}, ""},
		{"a field called os",
			"process",
			map[string]string{"rollout/a.go": doc + "type t struct{ os struct{ Stdout int } }\n\nfunc f(os struct{ Stdout int }) int { return os.Stdout }\n"},
			""},

		{"a tool runs a program", "host", map[string]string{"rollout/tool/box/a.go": doc + "import \"os/exec\"\n"}, "os/exec"},
		{"a tool reads a file",
			"host",
			map[string]string{"internal/tools/web/a.go": doc + "import \"os\"\n\nfunc f() { os.ReadFile(\"x\") }\n"},
			"os.ReadFile"},
		{"a driver may", "host", map[string]string{"backends/local/a.go": doc + "import \"os/exec\"\n"}, ""},

		{"slotd opens by itself",
			"opens",
			map[string]string{"backends/slotd/host/a.go": doc + "import \"os\"\n\nfunc f() { os.Open(\"x\") }\n"},
			"files are opened in open.go"},
		{"by a root",
			"opens",
			map[string]string{"backends/slotd/host/a.go": doc + "import \"os\"\n\nfunc f(root *os.Root) { root.OpenRoot(\"x\") }\n"},
			"not by root.OpenRoot"},
		{"by a file system",
			"opens",
			map[string]string{"backends/slotd/host/a.go": doc + "import (\n\t\"io/fs\"\n\t\"os\"\n)\n\nfunc f(root *os.Root) { fs.WalkDir(root.FS(), \".\", nil) }\n"},
			"not by fs.WalkDir"},
		{"in its place", "opens", map[string]string{"backends/slotd/host/open.go": doc + "import \"os\"\n\nfunc f() { os.Open(\"x\") }\n"}, ""},

		{"a path of a machine", "words", map[string]string{"docs/a.md": "see /wor" + "k/main\n"}, "may not be named"},
		{"a relative one", "words", map[string]string{"docs/a.md": "see ./wor" + "k/main and a/roo" + "t/b and /workspace/x\n"}, ""},
		{"a registry", "words", map[string]string{"Makefile": "GOPROXY=https://proxy.golang" + ".org\n"}, "may not be named"},
		{"a test sleeps",
			"sleeps",
			map[string]string{"envs/a_test.go": "package x\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"},
			"sleeps outside a bubble"},
		{"in a bubble",
			"sleeps",
			map[string]string{"envs/a_test.go": "package x\n\nimport (\n\t\"testing\"\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nfunc f(t *testing.T) { synctest.Test(t, func(*testing.T) { time.Sleep(1) }) }\n"},
			""},
		{"a test counts folders up to the data", "data paths", map[string]string{"envs/a_test.go": "package x\n\nvar dir = filepath.Join(\"..\", \"shared\", \"data\")\n"}, "internal/realdata"},
		{"a test asks for the data", "data paths", map[string]string{"envs/a_test.go": "package x\n\nvar dir = realdata.Path(t, \"gsm8k\")\n"}, ""},
		{"a large package", "sizes", map[string]string{"envs/a.go": doc + strings.Repeat("\n", 3500)}, "more than 3500"},
		{"a large one of two files", "sizes", map[string]string{"envs/a.go": doc + strings.Repeat("\n", 1800), "envs/b.go": doc + strings.Repeat("\n", 1800)}, "more than 3500"},
		{"large tests", "sizes", map[string]string{"envs/a.go": doc, "envs/a_test.go": doc + strings.Repeat("\n", 3500)}, ""},
		{"a large package for tests", "sizes", map[string]string{"envs/a.go": doc + "import _ \"testing\"\n" + strings.Repeat("\n", 3500)}, ""},
		{"a large one that is named", "sizes", map[string]string{"internal/jinja/a.go": doc + strings.Repeat("\n", 3500)}, ""},
		{"two of ten are rather large", "sizes", packages(8, 2), "p90"},
		{"one of ten is rather large", "sizes", packages(9, 1), ""},
		{"a named one is another of ten", "sizes", withNamed(packages(8, 1)), "p90"},
		{"gofmt", "format", map[string]string{"envs/a.go": doc + "func f( ) {}\n"}, "gofmt"},
	}
	check := map[string]func(*house.Tree) []house.Finding{}
	for _, r := range rules() {
		check[r.name] = r.check
	}
	for _, tt := range tests {
		t.Run(tt.rule+"/"+tt.name, func(t *testing.T) {
			files := map[string][]byte{}
			for name, text := range tt.files {
				files[name] = []byte(text)
			}
			tree, err := house.Parse(files)
			if err != nil {
				t.Fatal(err)
			}
			found := check[tt.rule](tree)
			if tt.want == "" && len(found) > 0 {
				t.Errorf("innocent, but %v", found)
			}
			if tt.want != "" && (len(found) == 0 || !strings.Contains(found[0].Text, tt.want)) {
				t.Errorf("want a finding with %q, got %v", tt.want, found)
			}
		})
	}
}
