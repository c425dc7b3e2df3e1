package host_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"hermes/backends"
	"hermes/backends/slotd/host"
)

// TestGlobs plants files and searches for their names.
func TestGlobs(t *testing.T) {
	h, err := host.New(host.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	for _, f := range []string{"a.go", "b.txt", "d/a.go", "d/e/c.go", "d/x[1].txt", "w{x}.md", "é.txt"} {
		if err := h.WriteFile(t.Context(), f, []byte(f), 0); err != nil {
			t.Fatal(err)
		}
	}
	for glob, want := range map[string][]string{
		"*.go":         {"a.go", "d/a.go", "d/e/c.go"},
		"/*.go":        {"a.go"},
		"d/*.go":       {"d/a.go"},
		"d/**":         {"d/a.go", "d/e/c.go", "d/x[1].txt"},
		"**/c.go":      {"d/e/c.go"},
		"[ab].*":       {"a.go", "b.txt", "d/a.go"},
		"[!a].go":      {"d/e/c.go"},
		"*.{txt,md}":   {"b.txt", "d/x[1].txt", "w{x}.md", "é.txt"},
		`x\[1\].txt`:   {"d/x[1].txt"},
		"?.txt":        {"b.txt", "é.txt"},
		"w{x}.md":      {"w{x}.md"},
		"no-such-name": nil,
	} {
		found, err := h.Search(t.Context(), backends.Query{Pattern: glob})
		var got []string
		for _, m := range found.Matches {
			got = append(got, filepath.ToSlash(m.Path))
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", glob, got, err, want)
		}
	}
}

func TestIgnoreFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		ignore string
		want   []string
	}{
		"nothing":         {"", []string{"a.log", "d/a.log", "d/b.txt", "d/deep/c.txt"}},
		"by name":         {"*.log\n", []string{"d/b.txt", "d/deep/c.txt"}},
		"anchored":        {"/a.log\n", []string{"d/a.log", "d/b.txt", "d/deep/c.txt"}},
		"folder":          {"deep/\n", []string{"a.log", "d/a.log", "d/b.txt"}},
		"folder anchored": {"d/deep\n", []string{"a.log", "d/a.log", "d/b.txt"}},
		"kept again":      {"*.log\n!d/a.log\n", []string{"d/a.log", "d/b.txt", "d/deep/c.txt"}},
		"comment":         {"# *.log\n\n", []string{"a.log", "d/a.log", "d/b.txt", "d/deep/c.txt"}},
		"two stars":       {"d/**/c.txt\n", []string{"a.log", "d/a.log", "d/b.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := host.New(host.Options{Home: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close(context.Background())
			for _, f := range []string{"a.log", "d/a.log", "d/b.txt", "d/deep/c.txt"} {
				if err := h.WriteFile(t.Context(), f, []byte("line\n"), 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.WriteFile(t.Context(), ".gitignore", []byte(tt.ignore), 0); err != nil {
				t.Fatal(err)
			}
			found, err := h.Search(t.Context(), backends.Query{Pattern: "line", Content: true})
			var got []string
			for _, m := range found.Matches {
				got = append(got, m.Path)
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// FuzzGlob: no pattern breaks a search.
func FuzzGlob(f *testing.F) {
	for _, s := range []string{"*", "[", "[!", "[]", "[]]", "{a,b", "{a,{b,c}}", `\`, "**", "**/", "a[z-a]b", "é?", "[^/]*", "{,}"} {
		f.Add(s)
	}
	h, err := host.New(host.Options{Home: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { h.Close(context.Background()) })
	if err := h.WriteFile(context.Background(), "d/file.txt", nil, 0); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, glob string) {
		found, err := h.Search(t.Context(), backends.Query{Pattern: glob})
		if err == nil && len(found.Matches) > 1 {
			t.Errorf("%q: %d files of one", glob, len(found.Matches))
		}
		if _, err := h.Search(t.Context(), backends.Query{Pattern: "*"}); err != nil {
			t.Error(err)
		}
	})
}
