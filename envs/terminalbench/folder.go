package terminalbench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hermes/configs"
	"hermes/envs"
)

// Limits of what a task folder may hold.
const (
	mostFile   = 16 << 20
	mostFolder = 64 << 20
)

// settings is task.yaml. Keys that are not named here are other people's.
type settings struct {
	Instruction  string             `yaml:"instruction"`
	Parser       string             `yaml:"parser_name"`
	AgentTimeout float64            `yaml:"max_agent_timeout_sec"`
	TestTimeout  float64            `yaml:"max_test_timeout_sec"`
	Weights      map[string]float64 `yaml:"test_weights"` // ours: of tests by name, for the share; 1 where none is named
	Difficulty   string             `yaml:"difficulty"`
	Category     string             `yaml:"category"`
	Verify       string             `yaml:"verify"`    // ours: same or fresh, the box that the tests run in
	Processes    string             `yaml:"processes"` // ours: keep, where what the model starts must run while it is tested
}

// file is one file of a task folder.
type file struct {
	name string // relative to the folder, with slashes
	data []byte
	perm fs.FileMode
}

// folder is a task as it lies on disk.
type folder struct {
	settings
	path     string
	docker   *recipe // nil: no Dockerfile
	context  []file  // what a Dockerfile may copy
	env      map[string]string
	tests    []file // names begin with tests/
	runTests []byte
	solution string // shell text; "": none
}

// readFolder reads and checks a task folder.
func readFolder(name string) (*folder, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	all, err := readAll(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &folder{path: name}
	if err := f.fill(all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// readAll reads every file; links are refused, for they lead anywhere.
func readAll(root *os.Root) (all []file, err error) {
	size := int64(0)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == "__pycache__" {
				return fs.SkipDir
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no plain file: links and devices are not taken", name)
		}
		size += info.Size()
		if info.Size() > mostFile || size > mostFolder {
			return fmt.Errorf("%s: files of a task hold at most %d MB, all of them %d MB", name, mostFile>>20, mostFolder>>20)
		}
		in, err := root.Open(name)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(io.LimitReader(in, mostFile))
		all = append(all, file{name, data, info.Mode().Perm()})
		return errors.Join(err, in.Close())
	})
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, err
}

// fill sorts the files by what they are for.
func (f *folder) fill(all []file) error {
	f.settings = settings{Parser: "pytest", AgentTimeout: 360, TestTimeout: 60}
	var missing []string
	by := map[string][]byte{}
	for _, x := range all {
		by[x.name] = x.data
		switch {
		case strings.HasPrefix(x.name, "tests/"):
			f.tests = append(f.tests, x)
		case slices.Contains([]string{"task.yaml", "run-tests.sh", "solution.sh", "solution.yaml", "Dockerfile", "docker-compose.yaml"}, x.name):
		default:
			f.context = append(f.context, x)
		}
	}
	for _, name := range []string{"task.yaml", "run-tests.sh"} {
		if by[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no %s", strings.Join(missing, ", no "))
	}
	if err := configs.CheckYAML("task.yaml", by["task.yaml"]); err != nil {
		return err
	}
	if err := yaml.Unmarshal(by["task.yaml"], &f.settings); err != nil {
		return fmt.Errorf("task.yaml: %w", err)
	}
	f.runTests = by["run-tests.sh"]
	if err := f.check(); err != nil {
		return fmt.Errorf("task.yaml: %w", err)
	}
	var err error
	if raw := by["Dockerfile"]; raw != nil {
		f.docker, err = readRecipe(string(raw))
		if err != nil {
			return fmt.Errorf("the Dockerfile: %w", err)
		}
	}
	f.env, err = composed(by["docker-compose.yaml"])
	if err != nil {
		return fmt.Errorf("docker-compose.yaml: %w", err)
	}
	f.solution, err = solved(by)
	return err
}

func (f *folder) check() error {
	f.Instruction = strings.TrimSpace(f.Instruction)
	switch {
	case f.Instruction == "":
		return errors.New("no instruction")
	case f.AgentTimeout <= 0 || f.TestTimeout <= 0:
		return fmt.Errorf("max_agent_timeout_sec %v, max_test_timeout_sec %v: want more than 0", f.AgentTimeout, f.TestTimeout)
	case parsers()[f.Parser] == nil:
		return fmt.Errorf("parser_name %q: have %s", f.Parser, strings.Join(parserNames(), ", "))
	case f.Verify != "" && f.Verify != envs.VerifySame && f.Verify != envs.VerifyFresh:
		return fmt.Errorf("verify %q: have %s, %s", f.Verify, envs.VerifySame, envs.VerifyFresh)
	case f.Processes != "" && f.Processes != "keep":
		return fmt.Errorf("processes %q: have keep", f.Processes)
	}
	for name, w := range f.Weights {
		if w < 0 {
			return fmt.Errorf("test_weights: %s: %v is negative", name, w)
		}
	}
	return nil
}

// solved is the reference solution as shell text.
func solved(by map[string][]byte) (string, error) {
	if raw := by["solution.sh"]; raw != nil {
		return string(raw), nil
	}
	raw := by["solution.yaml"]
	if raw == nil {
		return "", nil
	}
	var steps []struct {
		Command string `yaml:"command"`
	}
	if err := configs.CheckYAML("solution.yaml", raw); err != nil {
		return "", err
	}
	if err := yaml.Unmarshal(raw, &steps); err != nil {
		return "", fmt.Errorf("solution.yaml: want a list of {command}: %w", err)
	}
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.Command + "\n")
	}
	return b.String(), nil
}

// composed reads the variables of the one service that a task may have. Those that the
// benchmark's own runner sets (T_BENCH_…) are ours to set.
func composed(raw []byte) (map[string]string, error) {
	var file struct {
		Services map[string]struct {
			Environment yaml.Node `yaml:"environment"`
		} `yaml:"services"`
	}
	if err := configs.CheckYAML("docker-compose.yaml", raw); err != nil {
		return nil, err
	}
	if err := yaml.NewDecoder(bytes.NewReader(raw)).Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(file.Services) > 1 {
		return nil, fmt.Errorf("%d services: only tasks of one container can be played", len(file.Services))
	}
	env := map[string]string{}
	for _, s := range file.Services {
		switch s.Environment.Kind {
		case yaml.SequenceNode:
			var list []string
			if err := s.Environment.Decode(&list); err != nil {
				return nil, err
			}
			for _, kv := range list {
				k, v, _ := strings.Cut(kv, "=")
				env[k] = v
			}
		case yaml.MappingNode:
			if err := s.Environment.Decode(&env); err != nil {
				return nil, err
			}
		}
	}
	for k, v := range env {
		if strings.Contains(v, "${T_BENCH_") || k == "TEST_DIR" {
			delete(env, k)
		} else if strings.Contains(v, "${") {
			return nil, fmt.Errorf("environment: %s=%s: variables of the host are not passed on", k, v)
		}
	}
	return env, nil
}

// agentTime is how long the model may take.
func (f *folder) agentTime() time.Duration {
	return time.Duration(f.AgentTimeout * float64(time.Second))
}

// testTime is how long the tests may take.
func (f *folder) testTime() time.Duration { return time.Duration(f.TestTimeout * float64(time.Second)) }

// find lists the task folders below the named ones: a folder with task.yaml, or its
// children that have one. ids are the names of the folders.
func find(names []string) (paths, ids []string, err error) {
	seen := map[string]string{}
	add := func(p string) error {
		abs, err := filepath.Abs(p)
		if err != nil {
			return err
		}
		id := path.Base(filepath.ToSlash(abs))
		if at, twice := seen[id]; twice {
			return fmt.Errorf("two tasks are called %s: %s and %s", id, at, abs)
		}
		seen[id] = abs
		paths, ids = append(paths, abs), append(ids, id)
		return nil
	}
	for _, name := range names {
		if has(name) {
			if err := add(name); err != nil {
				return nil, nil, err
			}
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, nil, fmt.Errorf("tasks: %w", err)
		}
		n := len(paths)
		for _, e := range entries {
			if p := filepath.Join(name, e.Name()); e.IsDir() && has(p) {
				if err := add(p); err != nil {
					return nil, nil, err
				}
			}
		}
		if len(paths) == n {
			return nil, nil, fmt.Errorf("tasks: neither %s nor a folder in it has a task.yaml", name)
		}
	}
	return paths, ids, nil
}

func has(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "task.yaml"))
	return err == nil
}
