package envs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"hermes/backends"
	"hermes/configs"
	"hermes/envs"
)

type conf struct {
	Size  int    `yaml:"size" help:"how many"`
	Files string `yaml:"files"`
}

func TestKind(t *testing.T) {
	var got conf
	k := envs.NewKind("x", "an x", func(_ context.Context, c conf) (envs.Bundled, error) {
		got = c
		if c.Size < 0 {
			return nil, errors.New("size is negative")
		}
		return nil, nil
	})
	tests := []struct{ name, section, check, open string }{
		{name: "nothing"},
		{name: "a key", section: "size: 3"},
		{name: "unknown key", section: "sise: 3", check: "unknown", open: "run.yaml:1: unknown key sise in envs.x (did you mean size?)"},
		{name: "wrong type", section: "size: many", check: "envs.x: .*size|many", open: "envs.x"},
		{name: "refused", section: "size: -1", open: "envs.x: size is negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got = conf{}
			section := configs.Section{Name: "envs.x", File: "run.yaml"}
			if tt.section != "" {
				var doc yaml.Node
				if err := yaml.Unmarshal([]byte(tt.section), &doc); err != nil {
					t.Fatal(err)
				}
				section.Node = doc.Content[0]
			}
			if err := k.Check(section); (err != nil) != (tt.check != "") {
				t.Errorf("check: %v", err)
			}
			_, err := k.Open(t.Context(), section)
			if (err != nil) != (tt.open != "") || err != nil && !strings.Contains(err.Error(), tt.open) {
				t.Errorf("open: %v, want %q", err, tt.open)
			}
			if tt.section == "size: 3" && got.Size != 3 {
				t.Errorf("got %+v", got)
			}
		})
	}
	if s := k.Settings; len(s) != 2 || s[0] != (envs.Setting{Key: "size", Type: "int", Help: "how many"}) {
		t.Errorf("settings %+v", s)
	}
	if _, err := envs.Find([]envs.Kind{k}, "y"); !errors.Is(err, envs.ErrUnknown) || !strings.Contains(err.Error(), "have x") {
		t.Errorf("find: %v", err)
	}
}

func TestState(t *testing.T) {
	var s envs.State
	made := 0
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { s.Get("k", func() any { made++; return made }) })
	}
	wg.Wait()
	if got := s.Get("k", func() any { return 0 }); got != 1 || made != 1 {
		t.Errorf("made %d times, got %v", made, got)
	}
	if (*envs.State)(nil).Get("k", func() any { return 7 }) != 7 {
		t.Error("a nil state makes nothing")
	}
}

func TestWorldWithoutBox(t *testing.T) {
	if _, err := (envs.World{}).Exec(t.Context(), "checker", backends.Cmd{Shell: "true"}); !errors.Is(err, envs.ErrNoBox) {
		t.Error(err)
	}
}
