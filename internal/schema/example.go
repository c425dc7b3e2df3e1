package schema

import "encoding/json"

// Example is a small value that fits a schema, references followed: an object has the
// required properties alone. Patterns and lengths are not looked at.
func Example(raw []byte) any {
	root := ReadNode(raw)
	return root.example(root, 0)
}

func (s Node) example(root Node, depth int) any {
	s = s.follow(root)
	if depth > maxRefs {
		return nil
	}
	if c, ok := s["const"]; ok {
		return c
	}
	if members, _ := s["enum"].([]any); len(members) > 0 {
		return members[0]
	}
	if alternatives := s.alternatives(); s["type"] == nil && s["properties"] == nil && len(alternatives) > 0 {
		return alternatives[0].example(root, depth+1)
	}
	switch s.Types(root)[0] {
	case "integer", "number":
		if n, ok := s["minimum"].(json.Number); ok {
			return n
		}
		if n, ok := s["maximum"].(json.Number); ok && below(n, 1) {
			return n
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	case "array":
		return []any{s.Items(root).example(root, depth+1)}
	case "object":
		out := map[string]any{}
		required, _ := s["required"].([]any)
		for _, k := range required {
			if name, ok := k.(string); ok {
				out[name] = s.Member(root, name).example(root, depth+1)
			}
		}
		return out
	}
	return "example"
}

func below(n json.Number, limit float64) bool {
	f, err := n.Float64()
	return err == nil && f < limit
}
