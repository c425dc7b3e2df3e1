package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hermes/cmd"
	"hermes/configs"
)

// TestKeys: docs/keys.md has every key of a run file. `go test ./cmd -run Keys -update` writes it
// from the flags, the settings of environments, and the fields of config structs with their
// comments; a key without an explanation fails.
func TestKeys(t *testing.T) {
	const page = "../docs/keys.md"
	want := keys(t)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("%s does not have the keys that there are (%v): go test ./cmd -run Keys -update", page, err)
	}
}

// owner is the struct that a section of a run file is decoded into.
type owner struct {
	section string
	dir     string // of the package, from this folder
	name    string // of the type
}

func owners() []owner {
	return []owner{
		{"backends.namespace", "../backends/namespace", "Config"},
		{"backends.docker", "../backends/docker", "Config"},
		{"backends.singularity", "../backends/singularity", "Config"},
		{"backends.nomad", "../backends/nomad", "Config"},
		{"backends.modal", "../backends/modal", "Config"},
		{"backends.ssh", "../backends/ssh", "Config"},
		{"backends.local", "../backends/local", "Config"},
		{"backends.pool", "../backends/pool", "Options"},
		{"training", "../internal/atropos/shape", "Rules"},
		{"own-toolsets.NAME", "../rollout/tool", "Toolset"},
	}
}

func keys(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Keys of run files\n\nMade from the program. How files, layers and values work: [configuration](configuration.md). Defaults and allowed values of flags: [all commands](cli.md).\n")
	b.WriteString("\n## Flags\n\n| key | commands | is |\n|---|---|---|\n")
	helps, commands := map[string][]string{}, map[string][]string{}
	for _, n := range nodes(t) {
		if len(n.Children) > 0 && n.Parent != nil {
			continue
		}
		path := n.Path()
		if n.Parent == nil {
			path = "all"
		}
		for _, f := range n.Flags {
			if f.Hidden || f.Tag.Has("nokey") || f.Name == "help" || f.Name == "help-all" || f.Name == "version" || f.Name == "config" {
				continue
			}
			commands[f.Name] = append(commands[f.Name], path)
			if !slices.Contains(helps[f.Name], f.Help) {
				helps[f.Name] = append(helps[f.Name], f.Help)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, strings.Join(commands[name], ", "), cell(strings.Join(helps[name], " · ")))
	}
	parts := cmd.Builtin()
	for _, k := range parts.Envs {
		fmt.Fprintf(&b, "\n## envs.%s\n\n%s.\n\n| key | type | is |\n|---|---|---|\n", k.Name, k.Summary)
		for _, s := range k.Settings {
			if s.Help == "" {
				t.Errorf("envs.%s.%s: the field has no tag help", k.Name, s.Key)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Key, plainType(s.Type), cell(s.Help))
		}
	}
	written := map[string]bool{"envs": true, "distributions": true}
	for _, o := range owners() {
		written[o.section], written[strings.Split(o.section, ".")[0]] = true, true
		fmt.Fprintf(&b, "\n## %s\n\n| key | type | is |\n|---|---|---|\n", o.section)
		for _, f := range fieldsOf(t, o.dir, o.name, "") {
			if f.comment == "" && f.leaf {
				t.Errorf("%s.%s: the field of %s has no comment that says what it is", o.section, f.key, o.dir)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.key, f.kind, cell(f.comment))
		}
	}
	b.WriteString("\n## distributions.NAME\n\n| key | type | is |\n|---|---|---|\n| `description` | text | for people |\n| `toolsets` | mapping | toolset to its chance in percent, in the order of the draws |\n")
	for _, k := range parts.Backends {
		if !written["backends."+k.Name] {
			t.Errorf("backends.%s has no struct in owners", k.Name)
		}
	}
	for _, s := range configs.Sections() {
		if !written[s] {
			t.Errorf("nothing reads the section %s", s)
		}
	}
	return b.String()
}

// field is a key of a section, nested ones with a dot.
type field struct {
	key, kind, comment string
	leaf               bool // not a group of keys
}

// fieldsOf reads the keys of a struct from the sources of its package.
func fieldsOf(t *testing.T, dir, name, prefix string) (out []field) {
	t.Helper()
	files := sources(t, dir)
	spec, file := structOf(files, name)
	if spec == nil {
		t.Fatalf("no struct %s in %s", name, dir)
	}
	for _, f := range spec.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			t.Fatal(err)
		}
		key, option, _ := strings.Cut(reflect.StructTag(tag).Get("yaml"), ",")
		if key == "-" || key == "" && option != "inline" {
			continue
		}
		comment := strings.TrimSpace(strings.ReplaceAll(f.Comment.Text()+f.Doc.Text(), "\n", " "))
		innerDir, inner := typeOf(dir, file, f.Type)
		nested := innerDir != ""
		if nested {
			s, _ := structOf(sources(t, innerDir), inner)
			nested = s != nil
		}
		if option == "inline" {
			out = append(out, fieldsOf(t, innerDir, inner, prefix)...)
			continue
		}
		out = append(out, field{prefix + key, kindOf(f.Type, nested), comment, !nested})
		if nested {
			out = append(out, fieldsOf(t, innerDir, inner, prefix+key+".")...)
		}
	}
	return out
}

func sources(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*ast.File{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		all[name], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func structOf(files map[string]*ast.File, name string) (*ast.StructType, *ast.File) {
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.Name == name {
					if st, ok := ts.Type.(*ast.StructType); ok {
						return st, f
					}
				}
			}
		}
	}
	return nil, nil
}

// typeOf finds the package folder and name of a type of ours; "" for others.
func typeOf(dir string, file *ast.File, e ast.Expr) (string, string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeOf(dir, file, e.X)
	case *ast.MapType:
		return typeOf(dir, file, e.Value)
	case *ast.Ident:
		return dir, e.Name
	case *ast.SelectorExpr:
		for _, im := range file.Imports {
			path, _ := strconv.Unquote(im.Path.Value)
			x, ok := e.X.(*ast.Ident)
			if rest, own := strings.CutPrefix(path, "hermes/"); own && ok && filepath.Base(path) == x.Name {
				return filepath.Join("..", filepath.FromSlash(rest)), e.Sel.Name
			}
		}
	}
	return "", ""
}

func kindOf(e ast.Expr, nested bool) string {
	if _, ok := e.(*ast.MapType); nested && !ok {
		return "section"
	}
	switch e := e.(type) {
	case *ast.StarExpr:
		return kindOf(e.X, nested)
	case *ast.ArrayType:
		return "list"
	case *ast.MapType:
		return "mapping"
	case *ast.Ident:
		return plainType(e.Name)
	case *ast.SelectorExpr:
		return plainType(e.Sel.Name)
	}
	return ""
}

// plainType is a type of Go in words of YAML.
func plainType(name string) string {
	name = strings.TrimPrefix(name, "*")
	switch {
	case strings.HasPrefix(name, "[]"):
		return "list"
	case strings.HasPrefix(name, "map"):
		return "mapping"
	}
	switch strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]) {
	case "string", "level":
		return "text"
	case "bool":
		return "true or false"
	case "int", "int64", "uint64":
		return "whole number"
	case "float64":
		return "number"
	case "duration":
		return "duration"
	}
	return "text or section"
}
