package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade/report"
	"hermes/envs/rows"
	"hermes/internal/build"
	"hermes/internal/settings"
	"hermes/rollout/runs"
	"hermes/trajectory/stats"
)

// rescoring is a Rescore under way.
type rescoring struct {
	settings.Rescore
	host   build.Host
	run    *runs.Run
	env    envs.Env
	chosen *build.Env // nil: rows
	data   *datasets.Dataset
	seed   int64
	grader string
	judges *judges

	once   sync.Once
	player *build.Player // nil: none was needed, or noBox
	noBox  error

	errs, replayed atomic.Int64

	pages  *report.Builder
	totals *stats.Totals
}

// open finds the rows that were asked and by what to judge, and sees to it that every
// row can be judged.
func (s *rescoring) open(ctx context.Context) error {
	m := s.run.Manifest
	config, err := m.Settings()
	if err != nil {
		return err
	}
	id := func(name string) string { v, _ := m.Identity.Get(name); return v }
	s.seed, err = strconv.ParseInt(id("seed"), 10, 64)
	if err != nil {
		return fmt.Errorf("run.yaml: seed %q: %w", id("seed"), err)
	}
	f := settings.RowFlags{PromptKey: config["prompt-key"], Shuffle: config["shuffle"] == "true", Limit: m.Extent.Limit, Map: settings.List(config["map"]), Shard: m.Extent.Shard}
	d, err := f.RowOptions(s.seed)
	if err != nil {
		return err
	}
	d.Hub = build.Hub(s.host.Env, false)
	if env, is := strings.CutPrefix(config["dataset"], "env:"); is {
		err = s.openEnv(ctx, env, config, d)
	} else {
		err = s.openRows(ctx, config, d)
	}
	if err != nil {
		return err
	}
	print, err := s.data.Fingerprint(ctx)
	if err == nil && print != m.Extent.Dataset {
		err = fmt.Errorf("the dataset is not the one that the run was made with (%.12s… then, %.12s… now): --dataset names where it is now", m.Extent.Dataset, print)
	}
	if err == nil && s.chosen == nil {
		err = s.openGrader(ctx, id("grader"), config["bad-rows"] == string(datasets.Skip))
	}
	if err != nil {
		err = errors.Join(err, s.data.Close())
	}
	return err
}

func (s *rescoring) openEnv(ctx context.Context, name string, config map[string]string, d datasets.Options) error {
	if s.Grader != "" || len(s.Datasets) > 0 {
		return fmt.Errorf("the environment %s has its own rows and scores by itself: leave --grader and --dataset out", name)
	}
	var set []string
	if config["env-set"] != "" {
		if err := json.Unmarshal([]byte(config["env-set"]), &set); err != nil {
			return fmt.Errorf("run.yaml: env-set: %w", err)
		}
	} else if config["set"] != "" {
		set = strings.Split(config["set"], ",")
	}
	split := config["env-split"]
	if split == "" {
		split = config["split"]
	}
	var err error
	s.chosen, err = build.OpenEnv(ctx, name, envs.Split(split), append(set, s.Set...), s.host.Section("envs"), s.host.Envs)
	if err != nil {
		return err
	}
	if id, _ := s.run.Manifest.Identity.Get("env"); id != s.chosen.Identity() {
		return fmt.Errorf("%w: it says %q, these settings are %q; give the same --set and run file", build.ErrOtherEnv, id, s.chosen.Identity())
	}
	s.env, s.grader = s.chosen.Bundled, "environment "+name
	s.data, err = s.chosen.Rows(ctx, s.chosen.Split, d)
	return err
}

func (s *rescoring) openRows(ctx context.Context, config map[string]string, d datasets.Options) (err error) {
	if len(s.Datasets) == 0 {
		s.Datasets = strings.Fields(config["dataset"])
	}
	if len(s.Datasets) == 0 || s.Datasets[0] == "-" {
		return errors.New("the run's rows came from stdin: --dataset names a file with them")
	}
	s.data, err = build.OpenRows(ctx, d, s.Datasets...)
	return err
}

// openGrader is --grader, else that of the run.
func (s *rescoring) openGrader(ctx context.Context, was string, skip bool) error {
	text := s.Grader
	text = cmp.Or(text, was)
	all := func(yield func(datasets.Row, error) bool) {
		for row, err := range s.data.Rows(ctx) {
			var bad *datasets.RowError
			if errors.As(err, &bad) && skip {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}
	spec, err := build.Grader(text, all, func(line string) { fmt.Fprintln(s.host.Err, line) })
	if err != nil {
		return err
	}
	if !spec.IsZero() {
		if err := build.CheckGrader(spec, all, s.judges.names()); err != nil {
			return err
		}
	}
	s.env, s.grader = rows.New(rows.Options{Grader: spec, Judge: s.judges.all[""] != nil}), spec.String()
	return nil
}
