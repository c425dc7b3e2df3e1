package parsers

import (
	"slices"

	"hermes/internal/schema"
	"hermes/trajectory"
)

// tools is what the declared tools say about names and types.
type tools struct {
	specs  []trajectory.ToolSpec
	parsed map[string]schema.Node
}

func newTools(specs []trajectory.ToolSpec) *tools { return &tools{specs: specs} }

func (t *tools) known() bool { return len(t.specs) > 0 }

func (t *tools) has(name string) bool {
	return slices.ContainsFunc(t.specs, func(s trajectory.ToolSpec) bool { return s.Name == name })
}

// params is the schema of a tool's arguments.
func (t *tools) params(name string) schema.Node {
	if s, ok := t.parsed[name]; ok {
		return s
	}
	var s schema.Node
	for _, spec := range t.specs {
		if spec.Name == name {
			s = schema.ReadNode(spec.Parameters)
			break
		}
	}
	if t.parsed == nil {
		t.parsed = map[string]schema.Node{}
	}
	t.parsed[name] = s
	return s
}
