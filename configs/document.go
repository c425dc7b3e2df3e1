package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"hermes/internal/late"
)

const (
	maxFile  = 1 << 20 // bytes of a configuration file
	maxNodes = 100_000 // nodes after aliases were followed
	maxDepth = 64
)

// Document is one YAML file that passed the checks that need no schema: one document,
// a mapping at the top, no key twice, aliases that stay small.
type Document struct {
	File string
	Root *yaml.Node // a mapping; nil when the file is empty
}

// ReadFile reads the YAML file at path. name is what messages call it.
func ReadFile(path, name string) (*Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{File: name, Msg: reason(err)}
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, &Error{File: name, Msg: reason(err)}
	} else if info.IsDir() {
		return nil, &Error{File: name, Msg: "is a directory, want a YAML file"}
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, &Error{File: name, Msg: reason(err)}
	}
	return Read(name, raw)
}

// Read checks raw as the YAML file called name.
func Read(name string, raw []byte) (*Document, error) {
	if err := plainText(name, raw); err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return &Document{File: name}, nil
	case err != nil:
		return nil, syntaxError(name, raw, err)
	}
	var second yaml.Node
	if err := d.Decode(&second); err == nil {
		return nil, &Error{File: name, Line: second.Line, Msg: "a second document begins; want one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(name, raw, err)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return &Document{File: name}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, &Error{File: name, Line: root.Line, Msg: "want keys and values at the top, got " + describe(root)}
	}
	w := walker{file: name, open: map[*yaml.Node]bool{}}
	if err := w.walk(root, 0); err != nil {
		return nil, err
	}
	return &Document{File: name, Root: root}, nil
}

// plainText refuses what is not UTF-8 text of a sensible length.
func plainText(name string, raw []byte) error {
	switch {
	case len(raw) > maxFile:
		return &Error{File: name, Msg: fmt.Sprintf("longer than %d bytes", maxFile)}
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		return &Error{File: name, Line: 1, Msg: "begins with a byte order mark; save it as UTF-8 without one"}
	case bytes.HasPrefix(raw, []byte("\xff\xfe")), bytes.HasPrefix(raw, []byte("\xfe\xff")):
		return &Error{File: name, Line: 1, Msg: "is UTF-16 text (byte order mark); save it as UTF-8"}
	}
	for n, line := range bytes.Split(raw, []byte("\n")) {
		if !utf8.Valid(line) {
			return &Error{File: name, Line: n + 1, Msg: "is not UTF-8 text"}
		}
		if bytes.IndexByte(line, 0) >= 0 {
			return &Error{File: name, Line: n + 1, Msg: "holds a NUL byte"}
		}
	}
	return nil
}

var yamlLine = late.Regexp(`^yaml: (?:line (\d+): )?`)

// syntaxError words an error of the YAML parser. A tab in an indentation is its usual
// cause and gets its own message.
func syntaxError(name string, raw []byte, err error) error {
	for n, line := range strings.Split(string(raw), "\n") {
		if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
			return &Error{File: name, Line: n + 1, Msg: "a tab in the indentation; YAML wants spaces"}
		}
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	line := 0
	if len(m) == 2 {
		line, _ = strconv.Atoi(m[1])
	}
	return &Error{File: name, Line: line, Msg: yamlLine.ReplaceAllString(err.Error(), "")}
}

// walker visits a document as its reader will, following aliases.
type walker struct {
	file  string
	count int
	open  map[*yaml.Node]bool // aliases that are being followed
}

func (w *walker) walk(n *yaml.Node, depth int) error {
	w.count++
	if w.count > maxNodes {
		return &Error{File: w.file, Line: n.Line, Msg: fmt.Sprintf("more than %d values once aliases are followed", maxNodes)}
	}
	if depth > maxDepth {
		return &Error{File: w.file, Line: n.Line, Msg: fmt.Sprintf("nested deeper than %d", maxDepth)}
	}
	switch n.Kind {
	case yaml.AliasNode:
		if w.open[n.Alias] {
			return &Error{File: w.file, Line: n.Line, Msg: "alias *" + n.Value + " contains itself"}
		}
		w.open[n.Alias] = true
		defer delete(w.open, n.Alias)
		return w.walk(n.Alias, depth+1)
	case yaml.MappingNode:
		if err := w.keys(n); err != nil {
			return err
		}
	}
	for _, c := range n.Content {
		if err := w.walk(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) keys(n *yaml.Node) error {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode {
			return &Error{File: w.file, Line: k.Line, Msg: "a key must be a word, got " + describe(k)}
		}
		if line, ok := first[k.Value]; ok {
			return &Error{File: w.file, Line: k.Line, Msg: fmt.Sprintf("key %s is given twice (first in line %d)", k.Value, line)}
		}
		first[k.Value] = k.Line
	}
	return nil
}

// describe names a node for a message; long texts are cut.
func describe(n *yaml.Node) string {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	v := n.Value
	if r := []rune(v); len(r) > 40 {
		v = string(r[:40]) + "…"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!bool":
		return v
	case "!!int", "!!float":
		return "the number " + v
	}
	return "the text " + strconv.Quote(v)
}

// reason is the cause of an error of the file system without its path.
func reason(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
