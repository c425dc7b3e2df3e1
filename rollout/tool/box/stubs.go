package box

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermes/internal/late"
	"hermes/rollout/tool"
)

// hiddenParameters are those of terminal that code may not use.
func hiddenParameters(name string) []string {
	if name == "terminal" {
		return []string{"background", "pty", "notify_on_complete", "watch_patterns"}
	}
	return nil
}

// hidden names a parameter that code may not use.
func hidden(name string, args json.RawMessage) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(args, &m) != nil {
		return ""
	}
	for _, p := range hiddenParameters(name) {
		if v, ok := m[p]; ok && string(v) != "false" && string(v) != "null" && string(v) != "[]" {
			return name + " with " + p
		}
	}
	return ""
}

// functions writes one Python function for each tool that code may call.
func functions(s *tool.Scope) string {
	if s.Specs == nil {
		return ""
	}
	var b strings.Builder
	for _, spec := range s.Specs() {
		if !identifier.MatchString(spec.Name) {
			continue
		}
		var params, pairs []string
		for _, p := range parameters(spec.Parameters) {
			if slices.Contains(hiddenParameters(spec.Name), p.name) || !identifier.MatchString(p.name) || pythonWord(p.name) {
				continue
			}
			arg := p.name
			if !p.required {
				arg += "=None"
			}
			params = append(params, arg)
			pairs = append(pairs, fmt.Sprintf("%q: %s", p.name, p.name))
		}
		first, _, _ := strings.Cut(spec.Description, "\n")
		fmt.Fprintf(&b, "\n\ndef %s(%s):\n    %s\n    return _call(%q, {%s, **_more})\n", spec.Name,
			strings.Join(append(params, "**_more"), ", "), tool.JSON(first), spec.Name, strings.Join(pairs, ", "))
	}
	return strings.ReplaceAll(b.String(), "{, **_more}", "_more")
}

var identifier = late.Regexp(`^[A-Za-z][A-Za-z0-9_]*$`)

func pythonWord(s string) bool {
	return slices.Contains(strings.Fields("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield"), s)
}

type parameter struct {
	name     string
	required bool
}

// parameters lists the properties of a schema, required ones first, each in their order.
func parameters(schema json.RawMessage) []parameter {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var list []parameter
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var skip json.RawMessage
		if err != nil || d.Decode(&skip) != nil {
			return nil
		}
		n, _ := name.(string)
		list = append(list, parameter{n, slices.Contains(s.Required, n)})
	}
	slices.SortStableFunc(list, func(a, b parameter) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	return list
}
