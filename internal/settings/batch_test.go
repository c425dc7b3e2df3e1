package settings_test

import (
	"slices"
	"strings"
	"testing"

	"hermes/internal/settings"
	"hermes/rollout/rundir"
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

// TestFailOnError: a share of the planned samples, or a count of which as many may fail.
func TestFailOnError(t *testing.T) {
	tests := []struct {
		text     string
		most     int64 // of 200 planned samples that may fail
		mistaken bool
	}{
		{text: "0", most: 0},
		{text: "3", most: 3},
		{text: "0.01", most: 2},
		{text: "1.0", most: 200},
		{text: "-1", mistaken: true},
		{text: "1.5", mistaken: true},
		{text: "often", mistaken: true},
	}
	for _, tt := range tests {
		b := settings.Batch{Datasets: []string{"rows.jsonl"}}
		b.Out = t.TempDir()
		b.Rollouts, b.Concurrency, b.Accept = 1, 1, "all"
		b.FailOnError = tt.text
		j, err := b.Resolve(settings.Tasks{})
		if tt.mistaken {
			if err == nil || !strings.Contains(err.Error(), "--fail-on-error") {
				t.Errorf("%s: %v", tt.text, err)
			}
			continue
		}
		if err != nil || j.Allowed.Exceeded(tt.most, 200) || !j.Allowed.Exceeded(tt.most+1, 200) {
			t.Errorf("%s: want %d failures allowed and no more; %v", tt.text, tt.most, err)
		}
	}
}

// TestBoxesOfARun: what is judged or played again gets the boxes that the run had, unless flags
// name others.
func TestBoxesOfARun(t *testing.T) {
	run := rundir.Manifest{Identity: rundir.Fields{{Name: "image", Value: "debian:13"}, {Name: "verify", Value: "separate judge:1"}}}
	tests := []struct {
		name        string
		flags, want settings.ToolFlags
		run         rundir.Manifest
	}{
		{name: "the run's", run: run, want: settings.ToolFlags{Image: "debian:13", Verify: "separate", VerifyImage: "judge:1"}},
		{
			name:  "the flags'",
			run:   run,
			flags: settings.ToolFlags{Image: "other", Verify: "fresh"},
			want:  settings.ToolFlags{Image: "other", Verify: "fresh"},
		},
		{name: "none"},
	}
	for _, tt := range tests {
		got := tt.flags.Of(tt.run)
		if got.Image != tt.want.Image || got.Verify != tt.want.Verify || got.VerifyImage != tt.want.VerifyImage {
			t.Errorf("%s: %q, %q, %q", tt.name, got.Image, got.Verify, got.VerifyImage)
		}
	}
}

// TestNamedTwice: one model has one price, and one role one model; a budget is for a role with a
// model.
func TestNamedTwice(t *testing.T) {
	_, err := settings.NewParts(settings.PartsFlags{BudgetFlags: settings.BudgetFlags{Price: []string{"m=1,2", "m=3,4"}}}, false)
	if err == nil || !strings.Contains(err.Error(), "has a price already") {
		t.Errorf("two prices: %v", err)
	}
	for want, f := range map[string]settings.RoleFlags{
		"has a model already":         {ModelRole: []string{"judge=a", "judge=b"}},
		"gives judge_x a model":       {ModelRole: []string{"judge=a"}, RoleBudgetUSD: []string{"judge_x=1"}},
		"more than 0":                 {ModelRole: []string{"judge=a"}, RoleBudgetUSD: []string{"judge=0"}},
		"talks to a simulated user":   {ModelRole: []string{"user=a"}},
		"nothing summarises in a bat": {ModelRole: []string{"summary=a"}},
	} {
		if _, err := f.Roles(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", f, err, want)
		}
	}
}
