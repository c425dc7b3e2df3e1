package configs

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"hermes/internal/nearest"
)

// scope tells which keys exist: those of the chosen command, and those of any command.
// Both map flag names and aliases.
type scope struct {
	here, all map[string]*kong.Flag
	owners    map[string][]string // key → commands that have it
}

// IsKey reports whether a flag may stand in files and variables. Help, the run file
// itself and flags with the tag `nokey:""` belong to one command line only.
func IsKey(f *kong.Flag) bool {
	return f.Name != "help" && f.Name != "config" && !f.Tag.Has("nokey")
}

func newScope(app *kong.Application, command *kong.Node) scope {
	s := scope{here: map[string]*kong.Flag{}, all: map[string]*kong.Flag{}, owners: map[string][]string{}}
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		s.put(s.all, n, true)
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(app.Node)
	for n := command; n != nil; n = n.Parent {
		s.put(s.here, n, false)
	}
	if command == nil {
		s.here = s.all
	}
	maps.Copy(s.all, s.here) // the chosen command's flag wins where names meet
	return s
}

func (s *scope) put(into map[string]*kong.Flag, n *kong.Node, owners bool) {
	for _, f := range n.Flags {
		if !IsKey(f) {
			continue
		}
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			if into[name] == nil {
				into[name] = f
			}
			if owners {
				s.owners[name] = append(s.owners[name], n.FullPath())
			}
		}
	}
}

// keys lists what may stand in a run file of the chosen command.
func (s *scope) keys() []string {
	return slices.Sorted(maps.Keys(s.here))
}

// unknown words the message for a key of a run file that the command does not have.
func (s *scope) unknown(key string) string {
	if owners := s.owners[key]; len(owners) > 0 {
		return fmt.Sprintf("key %s belongs to %s, not to this command", key, strings.Join(owners, ", "))
	}
	if key == "config" || key == "help" {
		return "key " + key + " can only be given as a flag"
	}
	return "unknown key " + key + nearest.Hint(key, append(s.keys(), Sections()...))
}

// pairs yields the top-level keys of a document with their values, aliases followed.
func (d *Document) pairs() iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		if d == nil || d.Root == nil {
			return
		}
		for i := 0; i+1 < len(d.Root.Content); i += 2 {
			if !yield(d.Root.Content[i], follow(d.Root.Content[i+1])) {
				return
			}
		}
	}
}
