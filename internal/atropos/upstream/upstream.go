// Package upstream reads the command lines and YAML files of Atropos' environments
// (`--env.group_size 8`, `--openai.base_url URL`, `--config FILE` with `env:` and
// `openai:`) and says them in the flags of hermes. Its functions are pure but for the
// reader of files that they are given.
package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermes/configs"
)

// Translated is a command line in the flags of hermes.
type Translated struct {
	Args  []string
	Notes []string // what was read and has no effect, for people
}

// setting is one value of Atropos.
type setting struct {
	value any
	from  string // --env.group_size, or FILE: env.group_size
}

// reader collects settings from a command line.
type reader struct {
	read    func(name string) ([]byte, error)
	env     map[string]setting
	servers []map[string]setting
	bare    map[string]setting // slurm, testing, max_n_completions, proxy_url
	cli     map[string]setting // --openai.*
	native  map[string]string  // long names of hermes' own flags that were given
	rest    []string
}

// Translate reads the arguments behind `env serve`. Arguments that are not Atropos' stay
// as they are. Where both say the same thing, that is an error.
func Translate(args []string, read func(name string) ([]byte, error)) (t Translated, err error) {
	r := &reader{read: read, env: map[string]setting{}, bare: map[string]setting{}, cli: map[string]setting{}, native: map[string]string{}}
	if err := r.args(args); err != nil {
		return t, err
	}
	if len(r.env)+len(r.servers)+len(r.bare)+len(r.cli) == 0 {
		return Translated{Args: args}, nil
	}
	if len(r.cli) > 0 {
		if len(r.servers) > 1 {
			return t, fmt.Errorf("%s: the file names %d servers, and a flag cannot say which one is meant: change the file", first(r.cli).from, len(r.servers))
		}
		if len(r.servers) == 0 {
			r.servers = []map[string]setting{{}}
		}
		maps.Copy(r.servers[0], r.cli)
	}
	w := &writer{r: r, said: map[string]string{}}
	if err := w.all(); err != nil {
		return t, err
	}
	return Translated{Args: append(slices.Clone(r.rest), w.out...), Notes: w.notes}, nil
}

func first(m map[string]setting) setting { return m[slices.Sorted(maps.Keys(m))[0]] }

// args sorts the arguments.
func (r *reader) args(args []string) error {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			r.rest = append(r.rest, args[i:]...)
			return nil
		}
		name, value, has := strings.Cut(a, "=")
		into, key := r.table(name)
		switch {
		case into != nil:
			if !has {
				value, has = next(args, i)
				if has {
					i++
				}
			}
			s := setting{value: true, from: name}
			if has {
				s.value = scalar(value)
			}
			into[key] = s
			continue
		case name == "--config" || name == "-c":
			if !has && i+1 < len(args) {
				i++
				value = args[i]
			}
			ours, err := r.file(value)
			if err != nil {
				return err
			}
			if !ours {
				r.rest = append(r.rest, "--config="+value)
			}
			continue
		case strings.HasPrefix(name, "--"):
			r.native[canonical(strings.TrimPrefix(name[2:], "no-"))] = name
		case strings.HasPrefix(name, "-n"):
			r.native["rollouts"] = "-n"
		}
		r.rest = append(r.rest, a)
	}
	return nil
}

// canonical is the first name of a flag that has several.
func canonical(name string) string {
	switch name {
	case "samples", "group-size":
		return "rollouts"
	case "in-flight":
		return "concurrency"
	}
	return name
}

// table is where a flag of Atropos belongs; nil: it is none.
func (r *reader) table(name string) (map[string]setting, string) {
	if key, ok := strings.CutPrefix(name, "--env."); ok {
		return r.env, key
	}
	if key, ok := strings.CutPrefix(name, "--openai."); ok {
		return r.cli, key
	}
	switch name {
	case "--slurm", "--testing", "--max_n_completions", "--proxy_url":
		return r.bare, name[2:]
	}
	return nil, ""
}

// next is the value behind a flag. What looks like a flag is none, but a number may be
// negative.
func next(args []string, i int) (string, bool) {
	if i+1 >= len(args) {
		return "", false
	}
	v := args[i+1]
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		return v, true
	}
	switch args[i] {
	case "--slurm", "--testing": // an environment's name may follow
		_, err := strconv.ParseBool(v)
		return v, err == nil
	}
	return v, !strings.HasPrefix(v, "-")
}

// scalar reads the value of a flag; None is nothing.
func scalar(text string) any {
	if text == "None" {
		return nil
	}
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return text
	}
	return v
}

// file reads a YAML file; ours is false for a run file of hermes.
func (r *reader) file(name string) (ours bool, err error) {
	raw, err := r.read(name)
	if err != nil {
		return false, nil // who reads run files says it better
	}
	var top map[string]yaml.Node
	if configs.CheckYAML(name, raw) != nil || yaml.Unmarshal(raw, &top) != nil {
		return false, nil
	}
	_, env := top["env"]
	_, openai := top["openai"]
	if !env && !openai {
		return false, nil
	}
	var doc struct {
		Env     map[string]any `yaml:"env"`
		OpenAI  any            `yaml:"openai"`
		Slurm   any            `yaml:"slurm"`
		Testing any            `yaml:"testing"`
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	put := func(into map[string]setting, key, at string, v any) {
		if _, given := into[key]; !given { // a flag wins, whichever comes first
			into[key] = setting{v, name + ": " + at}
		}
	}
	for key, v := range doc.Env {
		put(r.env, key, "env."+key, v)
	}
	for key, v := range map[string]any{"slurm": doc.Slurm, "testing": doc.Testing} {
		if v != nil {
			put(r.bare, key, key, v)
		}
	}
	var list []any
	switch v := doc.OpenAI.(type) {
	case nil:
	case []any:
		list = v
	default:
		list = []any{v}
	}
	for i, v := range list {
		m, ok := v.(map[string]any)
		if !ok {
			return true, fmt.Errorf("%s: openai: server %d is no mapping", name, i)
		}
		server := map[string]setting{}
		for key, v := range m {
			put(server, key, fmt.Sprintf("openai[%d].%s", i, key), v)
		}
		r.servers = append(r.servers, server)
	}
	return true, nil
}

// text is a value as a flag has it.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var parts []string
		for _, x := range v {
			parts = append(parts, text(x))
		}
		return strings.Join(parts, ",")
	case map[string]any:
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(raw)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// whole reads a value as an integer.
func (s setting) whole() (int64, error) {
	switch v := s.value.(type) {
	case int:
		return int64(v), nil
	case float64:
		if v == float64(int64(v)) {
			return int64(v), nil
		}
	}
	return 0, fmt.Errorf("%s: want a whole number, got %v", s.from, s.value)
}

// yes reads a value as a truth.
func (s setting) yes() (bool, error) {
	switch v := s.value.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case int:
		return v != 0, nil
	case string:
		if b, err := strconv.ParseBool(strings.ToLower(v)); err == nil {
			return b, nil
		}
	}
	return false, fmt.Errorf("%s: want true or false, got %v", s.from, s.value)
}

// seconds reads a value as a duration for a flag.
func (s setting) seconds() (string, error) {
	f, err := strconv.ParseFloat(text(s.value), 64)
	if err != nil {
		return "", fmt.Errorf("%s: want seconds, got %v", s.from, s.value)
	}
	return strconv.FormatFloat(max(f, 0), 'f', -1, 64) + "s", nil
}

// group is the size of a group, whoever gives it.
func (r *reader) group() int64 {
	for i, a := range r.rest {
		name, value, has := strings.Cut(a, "=")
		if canonical(strings.TrimLeft(name, "-")) != "rollouts" && name != "-n" {
			continue
		}
		if !has && i+1 < len(r.rest) {
			value = r.rest[i+1]
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n
		}
	}
	n, _ := r.env["group_size"].whole()
	return cmp.Or(n, 4)
}
