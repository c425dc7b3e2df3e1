package datasets

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermes/datasets/scan"
)

// taskKeys are the keys that may hold the task, in the order in which they are tried
// (behind --prompt-key).
var taskKeys = []string{"messages", "conversations", "prompt", "question", "problem", "problem_statement", "query", "instruction"}

// intern shares the strings of keys that most rows have.
func intern(b []byte) (string, bool) {
	switch string(b) {
	case "messages":
		return "messages", true
	case "conversations":
		return "conversations", true
	case "prompt":
		return "prompt", true
	case "question":
		return "question", true
	case "answer":
		return "answer", true
	case "id":
		return "id", true
	case "query":
		return "query", true
	case "problem":
		return "problem", true
	case "problem_statement":
		return "problem_statement", true
	case "instruction":
		return "instruction", true
	case "input":
		return "input", true
	case "tools":
		return "tools", true
	case "hermes":
		return "hermes", true
	case "metadata":
		return "metadata", true
	case "content":
		return "content", true
	case "role":
		return "role", true
	}
	return "", false
}

// ParseMap reads the value of --map: "from=to,from=to". A name may stand once on each
// side. A from with dots ("extra_info.answer") also reaches into objects.
func ParseMap(text string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		from, to, ok := strings.Cut(pair, "=")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("map %q: want from=to", pair)
		}
		if _, twice := out[from]; twice {
			return nil, fmt.Errorf("map %q: %q is mapped twice", text, from)
		}
		out[from] = to
	}
	return out, checkMap(out)
}

func checkMap(m map[string]string) error {
	targets := map[string]string{}
	for _, from := range sortedKeys(m) {
		to := m[from]
		if from == "" || to == "" {
			return errors.New("map: an empty name")
		}
		if other, twice := targets[to]; twice {
			return fmt.Errorf("map: both %q and %q become %q", other, from, to)
		}
		targets[to] = from
	}
	return nil
}

// rename applies the map to the members of a row.
// It notes in used which names of the map occurred.
func rename(fields []scan.Field, m map[string]string, used map[string]bool) ([]scan.Field, error) {
	renamed := make(map[string]string, len(m))
	var added []scan.Field
	for i, f := range fields {
		if to, ok := m[f.Key]; ok {
			renamed[to] = f.Key
			used[f.Key] = true
			fields[i].Key = to
		}
	}
	for _, from := range sortedKeys(m) {
		if !strings.Contains(from, ".") || renamed[m[from]] == from {
			continue
		}
		if v := reach(fields, from); v != nil {
			renamed[m[from]] = from
			used[from] = true
			added = append(added, scan.Field{Key: m[from], Value: v})
		}
	}
	fields = append(fields, added...)
	seen := make(map[string]bool, len(renamed))
	for _, f := range fields {
		if from, ok := renamed[f.Key]; ok {
			if seen[f.Key] {
				return nil, fmt.Errorf("key %q is mapped to %q, but the row has its own %q", from, f.Key, f.Key)
			}
			seen[f.Key] = true
		}
	}
	return fields, nil
}

// reach follows a dotted path into nested objects; nil when there is nothing.
func reach(fields []scan.Field, path string) []byte {
	for {
		name, rest, more := strings.Cut(path, ".")
		i := slices.IndexFunc(fields, func(f scan.Field) bool { return f.Key == name })
		if i < 0 {
			return nil
		}
		if !more {
			return fields[i].Value
		}
		inner, err := scan.Object(fields[i].Value, nil, nil)
		if err != nil {
			return nil
		}
		fields, path = inner, rest
	}
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
