package batch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermes/configs"
	"hermes/envs"
	"hermes/envs/procedural"
	"hermes/internal/build"
	"hermes/internal/runs/batch"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
	"hermes/rollout/tool/box"
	"hermes/trajectory"
)

// ranked pays the samples of a group by their place; one group cannot be ranked.
type ranked struct{ *procedural.Env }

func (ranked) ScoreGroup(_ context.Context, t envs.Task, eps []envs.Episode, scores []trajectory.Score) error {
	if strings.HasPrefix(t.Row.ID, "base_conversion") {
		return errors.New("no order here")
	}
	for i := range scores {
		scores[i].Reward += float64(i) + float64(len(eps))/10
	}
	return nil
}

func TestGroupsAreScoredTogether(t *testing.T) {
	kind := envs.NewKind("ranked", "a test", func(_ context.Context, c procedural.Config) (envs.Bundled, error) {
		e, err := procedural.New(c)
		return ranked{e}, err
	})
	h := build.Host{Env: func(string) string { return "" }, Section: func(name string) configs.Section { return configs.Section{Name: name} },
		Out: io.Discard, Err: io.Discard, Drain: make(chan struct{}), Handler: func(io.Writer) slog.Handler { return slog.DiscardHandler },
		Backends: build.Backends(nil), Tools: box.Builtin(), Envs: []envs.Kind{kind}}
	env, err := build.Environment(t.Context(), h, settings.EnvFlags{
		Name:  "ranked",
		Split: "train",
		Set:   []string{"generators=[chain_sum, base_conversion, countdown]"},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var b settings.Batch
	b.Model = "oracle"
	b.PromptCache = "auto"
	b.Server = "auto"
	b.Affinity = "rollout"
	b.RequestRetries = 1
	b.Backend, b.MissingTools = "local", "fail"
	b.Limit, b.BadRows = 3, "fail"
	b.Out = dir
	b.Rollouts = 2
	b.Concurrency = 4
	b.MaxTurns = 10
	b.Accept = "all"
	b.Faults = "resample"
	b.Keep = "failed"
	b.Progress = "none"
	b.FailOnError = "0"
	books, groups, err := batch.Process(t.Context(), h, rollouts.Request{Batch: b, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if books.Planned != 6 || books.Reward == nil || books.Reward.Mean != 1 {
		t.Errorf("the records keep their own scores: %+v", books.Reward)
	}
	if groups.Written != 2 || len(groups.Void) != 1 || !strings.Contains(groups.Void[0], "no order here") {
		t.Errorf("groups %+v", groups)
	}
	f, err := os.Open(filepath.Join(dir, "ranked", "groups.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var g struct{ Scores []float64 }
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil || !slices.Equal(g.Scores, []float64{1.2, 2.2}) {
			t.Errorf("scores %v (%v)", g.Scores, err)
		}
	}
}
