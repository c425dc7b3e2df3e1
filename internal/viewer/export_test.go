package viewer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/internal/viewer"
)

// export writes a bundle of runs.
func export(t testing.TB, out string, dirs ...string) viewer.Exported {
	t.Helper()
	v, err := viewer.Open(t.Context(), dirs, viewer.Options{Decoder: decoder})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	n, err := v.Export(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// data reads a script of data as the page does: its call has a name and a text of JSON.
func data(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := bytes.CutPrefix(bytes.TrimSuffix(b, []byte(");\n")), []byte("hermesData("))
	var call []string
	if err := json.Unmarshal([]byte("["+string(text)+"]"), &call); !ok || err != nil || len(call) != 2 {
		t.Fatalf("%s is no call with two texts: %v, %.200s", file, err, b)
	}
	if err := json.Unmarshal([]byte(call[1]), into); err != nil {
		t.Fatal(err)
	}
}

// A bundle has every sample, what models wrote is in it as JSON within a text, and no file
// of it but the page is a page.
func TestExport(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "out")
	makeRun(t, dir)
	if n := export(t, out, dir); n.Runs != 1 || n.Records != 12 {
		t.Errorf("%+v", n)
	}
	var rows []struct{ ID, Key string }
	data(t, filepath.Join(out, "data", "0", "list-0.js"), &rows)
	if len(rows) != 12 {
		t.Errorf("%d rows", len(rows))
	}
	for _, r := range rows {
		var rec struct {
			Record struct{ Row string }
			Raw    struct{ Row string }
			Files  map[string]string
		}
		data(t, filepath.Join(out, "data", "0", "records", r.Key[:2], r.Key+".js"), &rec)
		if rec.Record.Row != r.ID || rec.Raw.Row != r.ID {
			t.Errorf("%s is %+v", r.ID, rec)
		}
		if r.Key == key(1, 0).String() && (len(rec.Files) != 1 || rec.Files["workspace.diff"] != "+two\n") {
			t.Errorf("files %v", rec.Files)
		}
	}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".js" {
			if name := filepath.Base(path); name != "index.html" && name != "style.css" {
				t.Errorf("the bundle has %s", path)
			}
		}
		b, _ := os.ReadFile(path)
		if bytes.Contains(b, []byte("<script>window.hacked")) {
			t.Errorf("%s holds what a model wrote as it is", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	index, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil || !strings.Contains(string(index), `content="default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"`) || !strings.Contains(string(index), "data-bundle") {
		t.Errorf("%s, %v", index, err)
	}

	// An older bundle is replaced, anything else is refused.
	stale := filepath.Join(out, "data", "9.js")
	if err := os.WriteFile(stale, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	export(t, out, dir)
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data of the older bundle are still there: %v", err)
	}
	v, err := viewer.Open(t.Context(), []string{dir}, viewer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Export(t.Context(), dir); !errors.Is(err, viewer.ErrNotEmpty) {
		t.Errorf("a run directory was taken for a bundle: %v", err)
	}
}
