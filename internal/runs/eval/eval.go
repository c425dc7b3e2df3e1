// Package eval evaluates: it runs a suite, an environment or a dataset, writes reports,
// scores stored samples again and compares runs.
package eval

import (
	"context"

	"hermes/configs"
	"hermes/envs/grade/report"
	"hermes/internal/build"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
	"hermes/trajectory/stats"
)

// Eval is what an evaluation is asked for.
type Eval struct {
	settings.Batch
	Layers []configs.Setting // where each setting came from, for run.yaml
	Target string            // what was named: a suite or a dataset
	Suite  *configs.Suite    // nil: Target is a dataset
	Env    string            // an environment, instead of both
	Split  string
	Set    []string
	Strict bool
	// Roll rolls out one run, as the command batch does.
	Roll func(context.Context, build.Host, rollouts.Request) (stats.Statistics, error)
	// Matrix is called with the common report of a suite's matrix. May be nil.
	Matrix func(dir string, m *report.Matrix) error

	env   *build.Env
	suite rollouts.Suite
}

// Evaluated is one run of an evaluation.
type Evaluated struct {
	Dir    string
	Books  stats.Statistics
	Report *report.Report // nil: the run did not begin
}
