package tool

import (
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermes/internal/nearest"
)

// Distribution says how likely each toolset is given to a group of rollouts.
type Distribution struct {
	Name        string
	Description string
	Chances     []Chance // in the order of the draws
}

// Chance is the probability of one toolset, in percent.
type Chance struct {
	Toolset string
	Percent float64
}

// Sample draws each toolset on its own. If none was drawn, the likeliest is given, the
// first of them on a tie. The same generator state gives the same sets.
func (d Distribution) Sample(r *rand.Rand) []string {
	var names []string
	best := -1
	for i, c := range d.Chances {
		if r.Float64()*100 < c.Percent {
			names = append(names, c.Toolset)
		}
		if best < 0 || c.Percent > d.Chances[best].Percent {
			best = i
		}
	}
	if len(names) == 0 && best >= 0 {
		names = []string{d.Chances[best].Toolset}
	}
	return names
}

// Possible lists every toolset that a draw can give.
func (d Distribution) Possible() []string {
	var names []string
	for _, c := range d.Chances {
		if c.Percent > 0 {
			names = append(names, c.Toolset)
		}
	}
	return names
}

//go:embed presets/distributions.yaml
var distributionsYAML []byte

// BuiltinDistributions lists the 17 distributions that ship with hermes.
func BuiltinDistributions() []Distribution {
	ds, err := decodeDistributions(distributionsYAML)
	if err != nil {
		panic("presets/distributions.yaml: " + err.Error())
	}
	return ds
}

// DecodeDistributions reads the section `distributions` of a run file: {NAME:
// {description, toolsets: {SET: PERCENT}}}. Unknown keys, sets named twice and percentages
// outside of 0 to 100 are refused; the order of the sets is kept.
func DecodeDistributions(section *yaml.Node) ([]Distribution, error) {
	raw, err := sectionBytes(section)
	if err != nil {
		return nil, fmt.Errorf("distributions: %w", err)
	}
	ds, err := decodeDistributions(raw)
	if err != nil {
		return nil, fmt.Errorf("distributions: %w", err)
	}
	return ds, nil
}

func decodeDistributions(raw []byte) ([]Distribution, error) {
	var byName ordered[struct {
		Description string           `yaml:"description"`
		Toolsets    ordered[float64] `yaml:"toolsets"`
	}]
	if err := strictYAML(raw, &byName); err != nil {
		return nil, err
	}
	var ds []Distribution
	for _, e := range byName {
		d := Distribution{Name: e.key, Description: e.value.Description}
		for _, c := range e.value.Toolsets {
			if !(c.value >= 0 && c.value <= 100) {
				return nil, fmt.Errorf("%s: %s: %v is not a percentage", e.key, c.key, c.value)
			}
			d.Chances = append(d.Chances, Chance{Toolset: c.key, Percent: c.value})
		}
		if len(d.Possible()) == 0 {
			return nil, fmt.Errorf("%s: no toolset has a chance above 0", e.key)
		}
		ds = append(ds, d)
	}
	return ds, nil
}

// ordered is a YAML mapping whose order matters.
type ordered[V any] []struct {
	key   string
	value V
}

// UnmarshalYAML reads a mapping and refuses keys that occur twice.
func (o *ordered[V]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: expected a mapping", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if slices.ContainsFunc(*o, func(e struct {
			key   string
			value V
		}) bool {
			return e.key == key
		}) {
			return fmt.Errorf("line %d: %s is there twice", n.Content[i].Line, key)
		}
		raw, err := yaml.Marshal(n.Content[i+1])
		if err != nil {
			return err
		}
		var v V
		if err := strictYAML(raw, &v); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		*o = append(*o, struct {
			key   string
			value V
		}{key, v})
	}
	return nil
}

// Distributions is a checked collection. It does not change.
type Distributions struct{ list []Distribution }

// NewDistributions checks that names are unique and that every toolset is known.
func NewDistributions(known *Toolsets, ds ...Distribution) (*Distributions, error) {
	seen := map[string]bool{}
	for _, d := range ds {
		if seen[d.Name] {
			return nil, fmt.Errorf("distribution %s: the name is taken", d.Name)
		}
		seen[d.Name] = true
		if len(d.Chances) == 0 {
			return nil, fmt.Errorf("distribution %s: %w", d.Name, errors.New("no toolsets"))
		}
		for _, c := range d.Chances {
			if _, err := known.Get(c.Toolset); err != nil {
				return nil, fmt.Errorf("distribution %s: %w", d.Name, err)
			}
		}
	}
	return &Distributions{list: slices.Clone(ds)}, nil
}

// All lists the distributions in the order given.
func (d *Distributions) All() []Distribution { return slices.Clone(d.list) }

// Get finds a distribution.
func (d *Distributions) Get(name string) (Distribution, error) {
	var names []string
	for _, x := range d.list {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	if n := nearest.Name(name, names); n != "" {
		return Distribution{}, fmt.Errorf("unknown distribution %q (did you mean %s?)", name, n)
	}
	return Distribution{}, fmt.Errorf("unknown distribution %q (have %s)", name, strings.Join(names, ", "))
}
