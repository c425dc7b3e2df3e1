package build_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"hermes/backends"
	"hermes/configs"
	"hermes/internal/build"
)

// kind is a back-end that opens with err, or with boxes that are isolated or not.
func kind(name string, isolated bool, err error) backends.Kind {
	k := backends.NewKind(name, func(context.Context, struct {
		Slots int `yaml:"slots"`
	}) (backends.Backend, error) {
		if err != nil {
			return nil, err
		}
		return plain{name, isolated}, nil
	})
	k.Auto = map[string]int{"namespace": 1, "docker": 2}[name]
	return k
}

// TestSurround: what a kind takes from the environment is its own affair; one of a program
// of one's own is served as ours are, and auto tries it where it says so.
func TestSurround(t *testing.T) {
	var said []string
	own := kind("own", true, errors.New("no address"))
	own.Auto = 1
	own.Around = func(env func(string) string, tell func(string)) backends.Kind {
		tell("own: " + env("OWN_ADDRESS"))
		k := kind("own", true, nil)
		k.Auto = 1
		return k
	}
	env := func(name string) string { return "value of " + name }
	kinds := build.Surround([]backends.Kind{kind("docker", true, nil), own}, env, func(s string) { said = append(said, s) })
	b, err := build.OpenBackend(t.Context(), "auto", configs.Section{}, kinds)
	if err != nil || b.Name != "own" || b.Kind.Name != "own" || len(said) != 1 || said[0] != "own: value of OWN_ADDRESS" {
		t.Errorf("%+v %v, said %q", b, err, said)
	}
}

type plain struct {
	name     string
	isolated bool
}

func (p plain) Open(context.Context, backends.Spec) (backends.Sandbox, error) {
	return nil, backends.ErrUnavailable
}
func (p plain) Traits() backends.Traits     { return backends.Traits{Name: p.name, Isolated: p.isolated} }
func (p plain) Close(context.Context) error { return nil }

func TestOpenBackend(t *testing.T) {
	broken := errors.New("no user namespaces here")
	tests := []struct {
		name, ask, section string
		kinds              []backends.Kind
		chosen, want       string
	}{
		{name: "auto takes namespace", ask: "auto", kinds: []backends.Kind{kind("local", false, nil), kind("docker", true, nil), kind("namespace", true, nil)}, chosen: "namespace"},
		{name: "auto goes on to docker", ask: "", kinds: []backends.Kind{kind("namespace", true, broken), kind("docker", true, nil)}, chosen: "docker"},
		{name: "auto never falls back to local", ask: "auto", kinds: []backends.Kind{kind("namespace", true, broken), kind("local", false, nil)}, want: "namespace: no user namespaces here"},
		{name: "auto refuses what is not isolated", ask: "auto", kinds: []backends.Kind{kind("docker", false, nil)}, want: "docker: its boxes are not isolated"},
		{name: "by name", ask: "local", kinds: []backends.Kind{kind("namespace", true, nil), kind("local", false, nil)}, chosen: "local"},
		{name: "by name, broken", ask: "namespace", kinds: []backends.Kind{kind("namespace", true, broken), kind("local", false, nil)}, want: "back-end namespace: no user namespaces here"},
		{name: "unknown", ask: "namspace", kinds: []backends.Kind{kind("namespace", true, nil)}, want: "did you mean namespace?"},
		{name: "unknown kind in the section", ask: "local", section: "lokal: {}", kinds: []backends.Kind{kind("local", false, nil)}, want: "run.yaml:1: unknown key backends.lokal"},
		{name: "unknown key of a kind", ask: "local", section: "local: {slot: 1}", kinds: []backends.Kind{kind("local", false, nil)}, want: "run.yaml:1: unknown key slot in backends.local (did you mean slots?)"},
		{name: "good section", ask: "local", section: "local: {slots: 1}", kinds: []backends.Kind{kind("local", false, nil)}, chosen: "local"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := build.OpenBackend(t.Context(), tt.ask, section(t, tt.section), tt.kinds)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("%v, want %q", err, tt.want)
				}
				return
			}
			if err != nil || b.Name != tt.chosen || !strings.Contains(b.Why, tt.chosen) {
				t.Fatalf("%+v, %v; want %s", b, err, tt.chosen)
			}
		})
	}
}

func TestBackendsThatShip(t *testing.T) {
	names := build.BackendNames(build.Backends([]backends.Kind{kind("mine", true, nil)}))
	if strings.Join(names, " ") != "namespace docker singularity nomad modal ssh local mine" {
		t.Errorf("%v", names)
	}
}

// section is the section `backends` as a run file would hold it.
func section(t *testing.T, text string) configs.Section {
	t.Helper()
	s := configs.Section{Name: "backends", File: "run.yaml"}
	if text == "" {
		return s
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	s.Node = doc.Content[0]
	return s
}
