// Package house holds the rules that the code of this repository keeps: who imports
// whom, package docs, no hidden state, streams and environment only in cmd, heavy
// dependencies behind one door each, words that must not appear, tests that sleep, packages
// that grow too large.
//
// A rule is a function from the parsed [Tree] to [Finding]s. Files are read and parsed
// directly, never through a go command, whose answer a test cache could keep. Each rule
// has a table of exceptions beside it (exceptions.go) with the reason for every entry.
package house

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path in front of all packages of ours.
const Module = "hermes"

// Finding is one breach of a rule.
type Finding struct {
	File string // from the root, with slashes
	Line int    // 0: the whole file or folder
	Text string
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

// File is one file of the tree.
type File struct {
	Path string // from the root, with slashes
	Raw  []byte
	AST  *ast.File // nil unless it is Go
}

// Dir is the folder of the file, "." for the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Test reports whether the file is a test's.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Tree is all files of a repository.
type Tree struct {
	Set   *token.FileSet
	Files []*File
}

// skipped reports whether a folder, named from the root, holds no source of ours. What runs and
// builds leave lies at the root: packages deeper down have these names too.
func skipped(rel string) bool {
	switch rel {
	case "build", "runs", "shared":
		return true
	}
	name := path.Base(rel)
	return name == ".git" || name == "vendor" || name == "node_modules"
}

// Load reads a repository from its root. A Go file that cannot be parsed is an error.
func Load(root string) (*Tree, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && skipped(rel):
			return filepath.SkipDir
		case !d.Type().IsRegular() || d.Name() == ".git": // a file in linked checkouts
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > 8<<20 {
			return err
		}
		raw, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files[rel] = raw
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	return Parse(files)
}

// Parse builds a tree of files by their paths.
func Parse(files map[string][]byte) (*Tree, error) {
	t := &Tree{Set: token.NewFileSet()}
	for name, raw := range files {
		f := &File{Path: name, Raw: raw}
		if strings.HasSuffix(name, ".go") && !strings.Contains(name, "testdata/") {
			parsed, err := parser.ParseFile(t.Set, name, raw, parser.ParseComments)
			if err != nil {
				return nil, fmt.Errorf("parse: %w", err)
			}
			f.AST = parsed
		}
		t.Files = append(t.Files, f)
	}
	slices.SortFunc(t.Files, func(a, b *File) int { return cmp.Compare(a.Path, b.Path) })
	return t, nil
}

// code yields the Go files that are not tests.
func (t *Tree) code() []*File {
	var out []*File
	for _, f := range t.Files {
		if f.AST != nil && !f.Test() {
			out = append(out, f)
		}
	}
	return out
}

func (t *Tree) at(f *File, pos token.Pos, format string, args ...any) Finding {
	return Finding{File: f.Path, Line: t.Set.Position(pos).Line, Text: fmt.Sprintf(format, args...)}
}

// imports maps the name by which a file uses a package to its path.
func imports(f *File) map[string]string {
	m := map[string]string{}
	for _, im := range f.AST.Imports {
		p := importPath(im)
		name := path.Base(p)
		if strings.HasPrefix(name, "v") && len(name) <= 3 && strings.Contains(p, "/") {
			if _, err := strconv.Atoi(name[1:]); err == nil {
				name = path.Base(path.Dir(p))
			}
		}
		name = strings.TrimSuffix(strings.TrimPrefix(name, "go-"), "-go")
		if im.Name != nil {
			name = im.Name.Name
		}
		m[name] = p
	}
	return m
}

func importPath(im *ast.ImportSpec) string {
	p, err := strconv.Unquote(im.Path.Value)
	if err != nil {
		return im.Path.Value
	}
	return p
}

// ours returns the folder of an import of this module.
func ours(p string) (dir string, ok bool) {
	if p == Module {
		return ".", true
	}
	return strings.CutPrefix(p, Module+"/")
}

// under reports whether dir is one of the rooms or inside of one.
func under(dir string, rooms ...string) bool {
	for _, r := range rooms {
		if dir == r || strings.HasPrefix(dir, r+"/") {
			return true
		}
	}
	return false
}

// binary reports whether a file is not text.
func binary(raw []byte) bool { return bytes.IndexByte(raw[:min(len(raw), 8000)], 0) >= 0 }
