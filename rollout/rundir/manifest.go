// Package rundir is the directory of one run: its manifest run.yaml, its journal, and the
// lease that keeps a second process out.
//
// A run has an identity, which must not change, and an extent, which may grow when that is
// asked for. [Open] compares both with what the directory holds and says what differs.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hermes/rollout/journal"
)

// Manifest is the content of run.yaml.
type Manifest struct {
	Version  string    `yaml:"version"` // of hermes
	Created  time.Time `yaml:"created"`
	Identity Fields    `yaml:"identity"`
	Extent   Extent    `yaml:"extent"`
	Books    Books     `yaml:"books"`
	Tools    []string  `yaml:"tools"`  // the run's tools: all are in the statistics
	Config   yaml.Node `yaml:"config"` // everything that was resolved; free to change
}

// Settings is everything that was resolved, by name.
func (m Manifest) Settings() (map[string]string, error) {
	all := map[string]string{}
	if err := m.Config.Decode(&all); err != nil {
		return nil, fmt.Errorf("run.yaml: config: %w", err)
	}
	return all, nil
}

// Field is one part of an identity.
type Field struct{ Name, Value string }

// Fields are parts of an identity in the order in which people read them.
type Fields []Field

// Extent is how much a run does.
type Extent struct {
	Dataset  string `yaml:"dataset"` // fingerprint
	Rollouts int    `yaml:"rollouts"`
	Limit    int64  `yaml:"limit"`           // rows; 0: all
	Shard    string `yaml:"shard,omitempty"` // i/n, several joined by +; empty: the whole
	Planned  int64  `yaml:"planned"`         // samples
	// Matched says that rows without an id have moved since the run began: they are known by
	// their content, and keep the ids that they had.
	Matched bool `yaml:"matched,omitempty"`
}

// Books is what the projections need beside the log.
type Books struct {
	Mode             string   `yaml:"mode"`             // batch, env or eval
	Accept           string   `yaml:"accept,omitempty"` // all, passed or an expression
	RequireReasoning bool     `yaml:"require-reasoning,omitempty"`
	Dedup            bool     `yaml:"dedup,omitempty"`   // reject samples of a row that are the same
	Formats          []string `yaml:"formats,omitempty"` // sharegpt, messages
	Parquet          bool     `yaml:"parquet,omitempty"`
	LogProbs         string   `yaml:"logprobs,omitempty"` // exact runs: raw or processed
	Sampling         Fields   `yaml:"sampling,omitempty"` // exact runs: what every request names, by flag
	Preamble         string   `yaml:"preamble,omitempty"` // text that replaces the ShareGPT preamble
}

// MarshalYAML writes the fields as a mapping that keeps their order.
func (f Fields) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, x := range f {
		var k, v yaml.Node
		k.SetString(x.Name)
		v.SetString(x.Value)
		n.Content = append(n.Content, &k, &v)
	}
	return n, nil
}

// UnmarshalYAML reads what MarshalYAML wrote.
func (f *Fields) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: identity is no mapping", n.Line)
	}
	*f = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		*f = append(*f, Field{Name: n.Content[i].Value, Value: n.Content[i+1].Value})
	}
	return nil
}

// Get returns the value of a field, ok false where it is missing.
func (f Fields) Get(name string) (string, bool) {
	for _, x := range f {
		if x.Name == name {
			return x.Value, true
		}
	}
	return "", false
}

// Difference is one thing in which a directory and a new run disagree.
type Difference struct{ Name, Have, Want string }

// MismatchError says that a directory holds another run.
type MismatchError struct {
	Dir         string
	Differences []Difference
	Extent      bool // only the extent differs, and amending would help
}

func (e *MismatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s holds another run:", e.Dir)
	for i, d := range e.Differences {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " %s is %s there, %s now", d.Name, shorten(d.Have), shorten(d.Want))
	}
	if e.Extent {
		b.WriteString(" (--amend accepts new rows and more rollouts)")
	} else {
		b.WriteString(" (choose another --run)")
	}
	return b.String()
}

// shorten quotes a value, and shows beginning and end of a long one.
func shorten(s string) string {
	if r := []rune(s); len(r) > 120 {
		s = string(r[:80]) + " … " + string(r[len(r)-30:])
	}
	return fmt.Sprintf("%q", s)
}

// diff compares identities in the order of have, then what only want knows.
func diff(have, want Fields) []Difference {
	var list []Difference
	for _, h := range have {
		if w, ok := want.Get(h.Name); !ok || w != h.Value {
			list = append(list, Difference{h.Name, h.Value, w})
		}
	}
	for _, w := range want {
		if _, ok := have.Get(w.Name); !ok {
			list = append(list, Difference{w.Name, "", w.Value})
		}
	}
	return list
}

func (e Extent) diff(want Extent) []Difference {
	var list []Difference
	add := func(name string, have, want any) {
		if have != want {
			list = append(list, Difference{name, fmt.Sprint(have), fmt.Sprint(want)})
		}
	}
	add("dataset", e.Dataset, want.Dataset)
	add("rollouts", e.Rollouts, want.Rollouts)
	add("limit", e.Limit, want.Limit)
	add("shard", e.Shard, want.Shard)
	add("planned", e.Planned, want.Planned)
	return list
}

// Path names run.yaml in a run directory.
func Path(dir string) string { return filepath.Join(dir, "run.yaml") }

// ErrNoRun says that a directory holds no run.
var ErrNoRun = errors.New("no run directory")

// Read returns the manifest of a run directory.
func Read(fsys journal.FS, dir string) (Manifest, error) {
	var m Manifest
	b, err := journal.ReadFile(fsys, Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s: %w: it has no run.yaml", dir, ErrNoRun)
	}
	if err != nil {
		return m, err
	}
	if err := yaml.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s: %w", Path(dir), err)
	}
	return m, nil
}

// Write replaces the manifest of a run directory; a crash leaves the old or the new one.
func Write(fsys journal.FS, dir string, m Manifest) error {
	if m.Config.IsZero() {
		m.Config = yaml.Node{Kind: yaml.MappingNode}
	}
	b, err := yaml.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", Path(dir), err)
	}
	if err := journal.WriteFile(fsys, Path(dir), b); err != nil {
		return fmt.Errorf("write %s: %w", Path(dir), err)
	}
	return nil
}

// SameIdentity compares the manifest of another run with that of dir; a *MismatchError
// says what differs.
func SameIdentity(dir string, have, other Manifest) error {
	differs := diff(have.Identity, other.Identity)
	if have.Books.Mode != other.Books.Mode {
		differs = append(differs, Difference{"mode", have.Books.Mode, other.Books.Mode})
	}
	if len(differs) > 0 {
		return &MismatchError{Dir: dir, Differences: differs}
	}
	return nil
}
