package settings_test

import (
	"slices"
	"strings"
	"testing"

	"hermes/internal/settings"
)

// TestEmbeddedModels: which model answers is decided once, from the flags alone.
func TestEmbeddedModels(t *testing.T) {
	tests := []struct {
		name     string
		env      bool
		change   func(*settings.PartsFlags)
		embedded bool
		oracle   bool
		err      string
	}{
		{name: "a server", change: func(f *settings.PartsFlags) { f.Model = "m" }},
		{name: "scripted", change: func(f *settings.PartsFlags) { f.Model = "scripted" }, embedded: true},
		{name: "oracle of an environment", env: true, change: func(f *settings.PartsFlags) { f.Model = "oracle" }, embedded: true, oracle: true},
		{name: "rows have no oracle", change: func(f *settings.PartsFlags) { f.Model = "oracle" }},
		{
			name: "embedded, and somewhere else", env: true, err: "--model oracle is embedded",
			change: func(f *settings.PartsFlags) { f.Model, f.BaseURL = "oracle", []string{"http://127.0.0.1:1/v1"} },
		},
		{name: "no object", change: func(f *settings.PartsFlags) { f.ExtraBody = "[]" }, err: "--extra-body"},
		{name: "no price", change: func(f *settings.PartsFlags) { f.Price = []string{"x"} }, err: "--price"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f settings.PartsFlags
			tt.change(&f)
			p, err := settings.NewParts(f, tt.env)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || p.Embedded != tt.embedded || p.Oracle != tt.oracle {
				t.Errorf("embedded %v, oracle %v, %v", p.Embedded, p.Oracle, err)
			}
		})
	}
}

// TestResolveLeavesTheFlags: a job is made of a copy; the batch can be resolved again.
func TestResolveLeavesTheFlags(t *testing.T) {
	b := settings.Batch{Datasets: []string{"data/rows.jsonl.gz"}}
	b.Out = t.TempDir()
	b.Rollouts = 1
	b.Concurrency = 2
	b.Accept = "all"
	b.FailOnError = "0.5"
	b.Model = "oracle"
	for range 2 {
		j, err := b.Resolve(settings.Tasks{Env: "gsm8k", Toolsets: []string{"todo"}, Suite: true})
		if err != nil {
			t.Fatal(err)
		}
		if j.Run != "gsm8k" || j.Mode != "eval" || j.Model != settings.Scripted || j.Parts.Requests != 2 || !slices.Equal(j.Parts.Usual, []string{"todo"}) {
			t.Errorf("resolved: %+v", j)
		}
		if b.Run != "" || b.Model != "oracle" || b.Name() != "rows" {
			t.Errorf("the flags changed: run %q, model %q", b.Run, b.Model)
		}
		if !j.Allowed.Exceeded(6, 10) || j.Allowed.Exceeded(5, 10) {
			t.Errorf("--fail-on-error 0.5: %+v", j.Allowed)
		}
	}
}
