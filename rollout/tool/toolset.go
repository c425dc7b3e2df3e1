package tool

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermes/internal/nearest"
)

// Toolset is a named group of tools; it may include other toolsets.
type Toolset struct {
	Name        string   `yaml:"-"`
	Description string   `yaml:"description"` // for people
	Tools       []string `yaml:"tools"`       // names of tools
	Includes    []string `yaml:"includes"`    // names of other toolsets
	Reason      string   `yaml:"-"`           // why this program has none of its tools; empty: it has them
}

// Composite reports whether the set is made of others.
func (t Toolset) Composite() bool { return len(t.Includes) > 0 }

//go:embed presets/toolsets.yaml
var toolsetsYAML []byte

//go:embed presets/absent.yaml
var absentYAML []byte

// noReason is why a tool that nothing is known of cannot be used.
const noReason = "not built into this program"

// builtinToolsets lists the toolsets that hermes knows by name: a leaf for each toolset
// that tools name, the composed ones, and those that this program has no tools for.
func builtinToolsets(defs []Def) []Toolset {
	sets := leaves(defs)
	have := map[string]bool{}
	for _, s := range sets {
		have[s.Name] = true
	}
	composed, err := decodeToolsets(toolsetsYAML)
	if err != nil {
		panic("presets/toolsets.yaml: " + err.Error())
	}
	var absent map[string]struct {
		Description, Reason string
		Tools               []string
	}
	if err := strictYAML(absentYAML, &absent); err != nil {
		panic("presets/absent.yaml: " + err.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(absent)) {
		if a := absent[name]; !have[name] {
			sets = append(sets, Toolset{Name: name, Description: a.Description, Tools: a.Tools, Reason: a.Reason})
			have[name] = true
		}
	}
	sets = append(sets, composed...)
	var named []string // by composed sets and distributions
	for _, s := range composed {
		have[s.Name] = true
		named = append(named, s.Includes...)
	}
	for _, d := range BuiltinDistributions() {
		named = append(named, d.Possible()...)
	}
	for _, name := range named {
		if !have[name] { // a program that left out tools of ours
			have[name] = true
			sets = append(sets, Toolset{Name: name, Reason: noReason})
		}
	}
	return sets
}

// leaves are the toolsets that tools name, with these tools.
func leaves(defs []Def) []Toolset {
	byName := map[string]Toolset{}
	for _, d := range defs {
		s := byName[d.Toolset]
		s.Name = d.Toolset
		s.Description = cmp.Or(s.Description, d.About)
		s.Tools = append(s.Tools, d.Spec.Name)
		byName[d.Toolset] = s
	}
	var sets []Toolset
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s := byName[name]
		s.Description = cmp.Or(s.Description, "The tools "+strings.Join(s.Tools, ", ")+".")
		sets = append(sets, s)
	}
	return sets
}

// DecodeToolsets reads the section `own-toolsets` of a run file: {NAME: {description,
// tools, includes}}. Unknown keys are refused.
func DecodeToolsets(section *yaml.Node) ([]Toolset, error) {
	raw, err := sectionBytes(section)
	if err != nil {
		return nil, fmt.Errorf("own-toolsets: %w", err)
	}
	sets, err := decodeToolsets(raw)
	if err != nil {
		return nil, fmt.Errorf("own-toolsets: %w", err)
	}
	return sets, nil
}

func decodeToolsets(raw []byte) ([]Toolset, error) {
	var byName map[string]Toolset
	if err := strictYAML(raw, &byName); err != nil {
		return nil, err
	}
	var sets []Toolset
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		t := byName[name]
		t.Name = name
		if len(t.Tools)+len(t.Includes) == 0 {
			return nil, fmt.Errorf("%s: names no tools and includes nothing", name)
		}
		sets = append(sets, t)
	}
	return sets, nil
}

func sectionBytes(n *yaml.Node) ([]byte, error) {
	if n == nil || n.IsZero() {
		return nil, nil
	}
	return yaml.Marshal(n)
}

func strictYAML(raw []byte, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	return d.Decode(into)
}

// Toolsets is a checked collection: names are unique, every include exists, nothing
// includes itself. It does not change and is safe for concurrent use.
type Toolsets struct{ byName map[string]Toolset }

// NewToolsets checks the sets against each other.
func NewToolsets(sets ...Toolset) (*Toolsets, error) {
	t := &Toolsets{byName: map[string]Toolset{}}
	for _, s := range sets {
		if _, taken := t.byName[s.Name]; taken {
			return nil, fmt.Errorf("toolset %s: the name is taken", s.Name)
		}
		if s.Name == "" || s.Name == "all" || s.Name == "*" || legacy(s.Name) != s.Name {
			return nil, fmt.Errorf("toolset %q: the name is reserved", s.Name)
		}
		t.byName[s.Name] = s
	}
	for _, s := range sets {
		if err := t.acyclic(s.Name, nil); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Toolsets) acyclic(name string, path []string) error {
	if i := slices.Index(path, name); i >= 0 {
		return fmt.Errorf("toolset %s includes itself: %s", name, strings.Join(append(path[i:], name), " → "))
	}
	s, err := t.Get(name)
	if err != nil {
		if len(path) > 0 {
			return fmt.Errorf("toolset %s: %w", path[len(path)-1], err)
		}
		return err
	}
	for _, in := range s.Includes {
		if err := t.acyclic(in, append(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// Names lists the sets in alphabetical order.
func (t *Toolsets) Names() []string { return slices.Sorted(maps.Keys(t.byName)) }

// Get finds a set; older names with the ending _tools are understood.
func (t *Toolsets) Get(name string) (Toolset, error) {
	if s, ok := t.byName[legacy(name)]; ok {
		return s, nil
	}
	if n := nearest.Name(name, t.Names()); n != "" {
		return Toolset{}, fmt.Errorf("unknown toolset %q (did you mean %s?)", name, n)
	}
	return Toolset{}, fmt.Errorf("unknown toolset %q (have %s)", name, strings.Join(t.Names(), ", "))
}

func legacy(name string) string {
	switch name {
	case "image_tools":
		return "image_gen"
	case "web_tools", "terminal_tools", "vision_tools", "moa_tools", "skills_tools", "browser_tools", "cronjob_tools", "rl_tools", "file_tools", "tts_tools":
		return strings.TrimSuffix(name, "_tools")
	}
	return name
}

// Tools returns the tools of the sets and of all that they include, sorted. "all" and "*" mean
// every set.
func (t *Toolsets) Tools(names ...string) ([]string, error) {
	tools := map[string]bool{}
	for _, name := range names {
		if name == "all" || name == "*" {
			for _, s := range t.byName {
				for _, tool := range s.Tools {
					tools[tool] = true
				}
			}
			continue
		}
		parts, err := t.parts(name, map[string]bool{})
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			for _, tool := range p.Tools {
				tools[tool] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(tools)), nil
}

// parts lists the set and everything that it includes, each once, depth first.
func (t *Toolsets) parts(name string, seen map[string]bool) ([]Toolset, error) {
	s, err := t.Get(name)
	if err != nil || seen[s.Name] {
		return nil, err
	}
	seen[s.Name] = true
	parts := []Toolset{s}
	for _, in := range s.Includes {
		more, err := t.parts(in, seen)
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	return parts, nil
}

// reason says why a tool that this program does not have cannot be used.
func (t *Toolsets) reason(tool string) string {
	if set, ok := t.absent()[tool]; ok {
		return t.byName[set].Reason
	}
	return noReason
}

// absent lists the tools that are known by name alone, with the smallest toolset of each.
func (t *Toolsets) absent() map[string]string {
	home := map[string]string{}
	for _, name := range t.Names() {
		s := t.byName[name]
		if s.Reason == "" {
			continue
		}
		for _, one := range s.Tools {
			if best, ok := home[one]; !ok || len(s.Tools) < len(t.byName[best].Tools) {
				home[one] = name
			}
		}
	}
	return home
}
