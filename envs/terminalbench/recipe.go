package terminalbench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// recipe is a Dockerfile. It is simple when a box without an image can be made the same:
// it names a base and beyond that sets the folder, variables and files.
type recipe struct {
	text   string // with the benchmark's own bases replaced by public ones
	base   string
	why    string // the line that needs an image; "": none
	dir    string // WORKDIR; "": none
	env    map[string]string
	copies []copied
}

// copied is COPY: sources of the context, and where they go.
type copied struct {
	from []string
	to   string
}

// bases are images of the benchmark that stand for public ones.
func bases() map[string]string {
	const at = "ghcr.io/laude-institute/t-bench/"
	return map[string]string{at + "python-3-13": "python:3.13-slim-bookworm", at + "ubuntu-24-04": "ubuntu:24.04\nWORKDIR /app"}
}

// readRecipe reads the lines of a Dockerfile; what it does not know needs an image.
func readRecipe(text string) (*recipe, error) {
	r := &recipe{env: map[string]string{}}
	var out []string
	for _, line := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch strings.ToUpper(word) {
		case "", "CMD", "LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "SHELL":
		case "FROM":
			if r.base != "" {
				r.need(line)
			}
			image, _, _ := strings.Cut(rest, " ")
			name := image
			if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
				name = name[:i]
			}
			if other, ok := bases()[name]; ok {
				line = "FROM " + other
				if strings.Contains(other, "WORKDIR") {
					r.dir = "/app"
				}
			}
			r.base = image
		case "WORKDIR":
			r.dir = path.Join("/", r.dir, strings.Trim(rest, `"'`))
			if path.IsAbs(rest) {
				r.dir = path.Clean(rest)
			}
		case "ENV":
			r.setEnv(line, rest)
		case "COPY", "ADD":
			r.copy(line, rest)
		default:
			if !strings.HasPrefix(word, "#") {
				r.need(line)
			}
		}
		out = append(out, line)
	}
	r.text = strings.Join(out, "\n")
	if r.base == "" {
		return nil, errors.New("no FROM")
	}
	return r, nil
}

func (r *recipe) need(line string) {
	if r.why == "" {
		r.why = strings.TrimSpace(line)
	}
}

func (r *recipe) setEnv(line, rest string) {
	if !strings.Contains(rest, "=") {
		k, v, _ := strings.Cut(rest, " ")
		r.env[k] = strings.TrimSpace(v)
		return
	}
	for _, kv := range strings.Fields(rest) {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || strings.ContainsAny(v, `"'$\`) {
			r.need(line)
			return
		}
		r.env[k] = v
	}
}

func (r *recipe) copy(line, rest string) {
	words := strings.Fields(rest)
	if len(words) < 2 || strings.ContainsAny(rest, `$*?["`) || strings.HasPrefix(rest, "--") || strings.Contains(rest, "://") || strings.HasSuffix(words[0], ".tar.gz") {
		r.need(line)
		return
	}
	to := words[len(words)-1]
	dir := strings.HasSuffix(to, "/") || to == "." || len(words) > 2
	if !path.IsAbs(to) {
		to = path.Join("/", r.dir, to)
	}
	if dir {
		to = strings.TrimSuffix(to, "/") + "/"
	}
	r.copies = append(r.copies, copied{words[:len(words)-1], to})
}

// wants tells whether a COPY names something of a folder.
func (r *recipe) wants(folder string) bool {
	for _, line := range strings.Split(r.text, "\n") {
		words := strings.Fields(line)
		if len(words) < 3 || !strings.EqualFold(words[0], "COPY") && !strings.EqualFold(words[0], "ADD") {
			continue
		}
		for _, w := range words[1 : len(words)-1] {
			w = path.Clean(strings.Trim(w, `[",`))
			if w == folder || strings.HasPrefix(w, folder+"/") {
				return true
			}
		}
	}
	return false
}

// placed are the files that the copies put into a box, by absolute path.
func (r *recipe) placed(context []file) (map[string]file, error) {
	out := map[string]file{}
	for _, c := range r.copies {
		for _, from := range c.from {
			n := len(out)
			from = path.Clean(strings.TrimPrefix(from, "/"))
			for _, f := range context {
				switch rest, below := strings.CutPrefix(f.name, from+"/"); {
				case from == ".":
					out[path.Join(c.to, f.name)] = f
				case below:
					out[path.Join(c.to, rest)] = f
				case f.name != from:
				case strings.HasSuffix(c.to, "/"):
					out[path.Join(c.to, path.Base(from))] = f
				default:
					out[c.to] = f
				}
			}
			if len(out) == n && from != "." {
				return nil, fmt.Errorf("COPY %s: not in the task's folder, or nothing that a box may hold before the tests", from)
			}
		}
	}
	return out, nil
}

// stage writes what an image is built of: all but the tests, the solution and the task
// itself, so that no COPY takes the answers along.
func stage(f *folder, into string) error {
	write := func(name string, data []byte, perm fs.FileMode) error {
		to := filepath.Join(into, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, data, perm)
	}
	list := f.context
	if f.docker.wants("tests") { // the task means them to be seen
		list = append(append([]file{}, list...), f.tests...)
	}
	for _, x := range list {
		if err := write(x.name, x.data, x.perm); err != nil {
			return err
		}
	}
	return write("Dockerfile", []byte(f.docker.text), 0o644)
}
