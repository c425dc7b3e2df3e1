package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermes/configs"
	"hermes/internal/hfhub"
	"hermes/internal/late"
)

var errNoData = errors.New("no data files that hermes reads (parquet, jsonl, json, csv)")

// maxCard bounds the README that is fetched for its header, in bytes.
const maxCard = 16 << 20

// config is one entry of `configs:` in the header of a repository's README.
type config struct {
	Name    string    `yaml:"config_name"`
	Default bool      `yaml:"default"`
	Dir     string    `yaml:"data_dir"`
	Files   yaml.Node `yaml:"data_files"`
}

// readCard reads the configurations that the repository's README declares.
func readCard(ctx context.Context, s *hfhub.Snapshot) ([]config, error) {
	if size, ok := s.Size("README.md"); !ok || size > maxCard {
		return nil, nil
	}
	local, err := s.File(ctx, "README.md")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(local)
	if err != nil {
		return nil, err
	}
	return parseCard(text), nil
}

// parseCard returns nothing for a README without a header that can be read: the files'
// names decide then.
func parseCard(text []byte) []config {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(text, []byte("---\n"))
	if !ok {
		return nil
	}
	head, _, ok := bytes.Cut(rest, []byte("\n---"))
	var card struct {
		Configs []config `yaml:"configs"`
	}
	if !ok || configs.CheckYAML("README.md", head) != nil || yaml.Unmarshal(head, &card) != nil {
		return nil
	}
	return card.Configs
}

// splits returns the patterns of each split of a configuration, in its order.
func (c config) splits() (names []string, patterns map[string][]string) {
	patterns = map[string][]string{}
	add := func(split string, n *yaml.Node) {
		if split == "" || n == nil {
			return
		}
		if _, known := patterns[split]; !known {
			names = append(names, split)
		}
		for _, p := range texts(n) {
			patterns[split] = append(patterns[split], path.Join(c.Dir, p))
		}
	}
	n := &c.Files
	switch {
	case n.Kind == yaml.ScalarNode, n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.ScalarNode:
		add("train", n)
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			var one struct {
				Split string    `yaml:"split"`
				Path  yaml.Node `yaml:"path"`
			}
			if item.Decode(&one) == nil {
				add(one.Split, &one.Path)
			}
		}
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			add(n.Content[i].Value, n.Content[i+1])
		}
	}
	return names, patterns
}

func texts(n *yaml.Node) []string {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	var out []string
	for _, c := range n.Content {
		if c.Kind == yaml.ScalarNode {
			out = append(out, c.Value)
		}
	}
	return out
}

// choose returns the paths of a configuration's split, in order.
func choose(paths []string, card []config, wantConfig, wantSplit string) ([]string, error) {
	var data []string
	for _, p := range paths {
		if isData(p) {
			data = append(data, p)
		}
	}
	if len(data) == 0 {
		return nil, errNoData
	}
	if len(card) > 0 {
		if names, byName, err := declared(data, card, wantConfig); err != nil || len(names) > 0 {
			return pick(names, byName, wantSplit, err)
		}
	}
	names, byName, err := guessed(data, wantConfig)
	return pick(names, byName, wantSplit, err)
}

// declared finds the splits of a configuration that the README names.
func declared(data []string, card []config, want string) ([]string, map[string][]string, error) {
	chosen := card[0]
	found := want == ""
	var have []string
	for _, c := range card {
		have = append(have, c.Name)
		if want == "" && (c.Default || c.Name == "default" && !chosen.Default) || want != "" && c.Name == want {
			chosen, found = c, true
		}
	}
	if !found {
		return nil, nil, fmt.Errorf("no configuration %q (have %s)", want, strings.Join(have, ", "))
	}
	if want == "" && len(card) > 1 && !chosen.Default && chosen.Name != "default" {
		return nil, nil, fmt.Errorf("several configurations, name one: %s", strings.Join(have, ", "))
	}
	names, patterns := chosen.splits()
	if len(names) == 0 && chosen.Dir != "" {
		inside := slices.DeleteFunc(slices.Clone(data), func(p string) bool { return !strings.HasPrefix(p, chosen.Dir+"/") })
		return guessed(inside, "")
	}
	files := map[string][]string{}
	for _, split := range names {
		for _, p := range data {
			if slices.ContainsFunc(patterns[split], func(pattern string) bool { return match(pattern, p) }) {
				files[split] = append(files[split], p)
			}
		}
	}
	return names, files, nil
}

// splitNames are the words in file and folder names that mean a split.
var splitNames = []struct{ word, split string }{
	{"train", "train"}, {"training", "train"}, {"test", "test"}, {"testing", "test"}, {"eval", "test"}, {"evaluation", "test"},
	{"validation", "validation"}, {"valid", "validation"}, {"val", "validation"}, {"dev", "validation"},
}

var (
	words   = late.Regexp(`[^A-Za-z0-9]+`)
	sharded = late.Regexp(`^([A-Za-z0-9_.]+)-\d{5}-of-\d{5}\.`)
)

// guessed reads configurations and splits out of paths, as "CONFIG/SPLIT-00000-of-00002.parquet",
// "data/train.jsonl" or "CONFIG/SPLIT/0000.parquet".
func guessed(data []string, want string) ([]string, map[string][]string, error) {
	byConfig := map[string][]string{}
	var configs []string
	for _, p := range data {
		c := configOf(p)
		if _, known := byConfig[c]; !known {
			configs = append(configs, c)
		}
		byConfig[c] = append(byConfig[c], p)
	}
	c := want
	switch {
	case want != "":
	case byConfig["default"] != nil:
		c = "default"
	case len(configs) == 1:
		c = configs[0]
	default:
		return nil, nil, fmt.Errorf("several configurations, name one: %s", strings.Join(configs, ", "))
	}
	if byConfig[c] == nil {
		return nil, nil, fmt.Errorf("no configuration %q (have %s)", want, strings.Join(configs, ", "))
	}
	files := map[string][]string{}
	var names []string
	for _, p := range byConfig[c] {
		s := splitOf(p)
		if files[s] == nil {
			names = append(names, s)
		}
		files[s] = append(files[s], p)
	}
	return names, files, nil
}

// configOf is the first folder, unless that is "data" or a split.
func configOf(p string) string {
	dir, _, nested := strings.Cut(p, "/")
	if !nested || dir == "data" || known(dir) != "" {
		return "default"
	}
	return dir
}

func splitOf(p string) string {
	base := path.Base(p)
	if m := sharded.FindStringSubmatch(base); m != nil {
		return m[1]
	}
	if s := known(base); s != "" {
		return s
	}
	if s := known(path.Base(path.Dir(p))); s != "" {
		return s
	}
	return "train"
}

func known(name string) string {
	for _, w := range words.Split(strings.ToLower(name), -1) {
		for _, s := range splitNames {
			if w == s.word {
				return s.split
			}
		}
	}
	return ""
}

func pick(names []string, files map[string][]string, want string, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	split := want
	if split == "" {
		split = "train"
		if !slices.Contains(names, split) {
			if len(names) != 1 {
				return nil, fmt.Errorf("no split train; name one of %s", strings.Join(names, ", "))
			}
			split = names[0]
		}
	}
	if !slices.Contains(names, split) {
		return nil, fmt.Errorf("no split %q (have %s)", split, strings.Join(names, ", "))
	}
	if len(files[split]) == 0 {
		return nil, fmt.Errorf("split %s: %w", split, errNoData)
	}
	return files[split], nil
}

func isData(p string) bool {
	if strings.HasPrefix(path.Base(p), ".") {
		return false
	}
	for _, packed := range []string{"", ".gz", ".zst"} {
		for _, ext := range []string{".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv"} {
			if strings.HasSuffix(p, ext+packed) {
				return !slices.Contains([]string{"dataset_infos.json", "dataset_info.json", "config.json", "state.json"}, path.Base(p))
			}
		}
	}
	return false
}

// match is a glob in which ** crosses folders; a pattern that names a folder matches
// what is in it.
func match(pattern, p string) bool {
	if pattern == p || strings.HasPrefix(p, pattern+"/") {
		return true
	}
	return glob(strings.Split(pattern, "/"), strings.Split(p, "/"), 0)
}

func glob(pattern, parts []string, depth int) bool {
	if len(pattern) == 0 {
		return len(parts) == 0
	}
	if pattern[0] == "**" && depth < 16 {
		for i := range len(parts) + 1 {
			if glob(pattern[1:], parts[i:], depth+1) {
				return true
			}
		}
		return false
	}
	if len(parts) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], parts[0])
	return err == nil && ok && glob(pattern[1:], parts[1:], depth)
}
