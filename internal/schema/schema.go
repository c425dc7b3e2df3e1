// Package schema is the one meaning of JSON Schema in hermes: whether a value fits
// ([Schema.Check]), what a model meant that did not quite fit ([Schema.Coerce]), what a
// schema declares ([Node]), a value that fits ([Example]), and the objects in a text
// ([Objects]).
//
// The library santhosh-tekuri/jsonschema decides what fits, by draft 2020-12 or the draft
// that $schema names. Before, [Standard] puts a schema into the standard's words: models'
// tools come with names of types from Python, with OpenAPI's nullable and with keywords of
// older drafts. A schema refers to itself alone: a $ref to a file or an address is refused.
// Values of this package do not change and are safe for concurrent use.
//
// The library compiles the drafts' own schemas when the program starts: 1.7 MB and 3 to
// 9 ms, which cannot be put off. google/jsonschema-go starts in 0.05 ms, but takes a
// json.Number for a text, finds 19.99 to be no multiple of 0.01, and overflows the stack
// on {"$ref": "#"}. A wrong verdict costs more than these milliseconds.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled JSON Schema.
type Schema struct{ s *jsonschema.Schema }

// nowhere refuses to load: a schema refers to itself alone, never to files or the network.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref %s: a schema may refer only to itself", url)
}

// Compile reads a schema.
func Compile(raw []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if o, ok := doc.(map[string]any); ok {
		doc = Standard(o, "")
	}
	return compile(doc)
}

// maxNesting bounds how deep a schema's JSON may be nested. The library's time to compile
// grows with the third power of it: 6,000 levels take minutes.
const maxNesting = 300

func compile(doc any) (*Schema, error) {
	if deeper(doc, maxNesting) {
		return nil, fmt.Errorf("schema: its JSON is nested more than %d levels deep", maxNesting)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{s}, nil
}

// deeper reports whether a value has more than so many levels.
func deeper(v any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			if deeper(x, levels-1) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return deeper(x, levels-1) })
	}
	return false
}

// Lenient reads the schema of a tool's arguments, which a stranger wrote. A schema that
// [Compile] takes means the same here; in others, what cannot be read is left out and
// checks nothing. The arguments are an object in any case.
func Lenient(raw []byte) *Schema {
	if s, err := Compile(raw); err == nil && s.s.Bool == nil {
		return s
	}
	if s, err := compile(pruned(ReadNode(raw))); err == nil {
		return s
	}
	s, err := compile(map[string]any{"type": "object"})
	if err != nil {
		panic(err) // a constant of ours
	}
	return s
}

// Check says in one line why a value does not fit, in the library's words; nil: it does.
// Numbers in v are json.Number or float64.
func (s *Schema) Check(v any) error {
	err := newBudget(v).validate(s.s, v)
	var why *jsonschema.ValidationError
	if !errors.As(err, &why) {
		return err
	}
	for len(why.Causes) > 0 { // the place itself, not that something below it is wrong
		why = why.Causes[0]
	}
	lines := strings.Split(strings.TrimSpace(why.Error()), "\n")
	return errors.New(strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "- "))
}

// Cache keeps what [Lenient] made of schemas, by their text: compiling one takes 40 to 300 µs,
// and every rollout has the same tools. The zero value is usable, by several goroutines.
type Cache struct {
	mu   sync.Mutex
	made map[string]*Schema
}

// maxCached bounds a [Cache]: where every row has its own tools, later ones are not kept.
const maxCached = 1024

// Lenient is [Lenient], once for each text.
func (c *Cache) Lenient(raw []byte) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.made[string(raw)]; ok {
		return s
	}
	s := Lenient(raw)
	if c.made == nil {
		c.made = map[string]*Schema{}
	}
	if len(c.made) < maxCached {
		c.made[string(raw)] = s
	}
	return s
}

// text encodes a value without escaping HTML.
func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
