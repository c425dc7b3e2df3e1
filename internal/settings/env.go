package settings

import (
	"fmt"
	"slices"
)

// EnvFlags choose an environment.
type EnvFlags struct {
	Name  string   `arg:"" name:"environment" help:"Environment, as 'hermes env list' has it; or a program: ./env.py, 'cmd:python3 env.py', http://…"`
	Split string   `enum:"train,eval" default:"train" help:"Rows: train or eval."`
	Set   []string `sep:"none" help:"KEY=VALUE: a setting of the environment, over the run file's section envs; may repeat." placeholder:"KEY=VALUE"`

	Workers int `range:"0:256" default:"0" help:"Processes of an environment that is a program (default: one a CPU)."`
}

// Settings are those of --set, and --workers as one of them.
func (f EnvFlags) Settings() []string {
	if f.Workers == 0 {
		return f.Set
	}
	return append(slices.Clone(f.Set), fmt.Sprintf("workers=%d", f.Workers))
}

// EnvCheck is what `hermes env check` can be given.
type EnvCheck struct {
	EnvFlags
	Rows    int    `default:"3" range:"1:" help:"Rows to play."`
	Repeats int    `default:"10" range:"2:" help:"Rollouts of each."`
	AtOnce  int    `name:"concurrency" aliases:"in-flight" default:"4" range:"1:" help:"Rollouts at once."`
	Seed    int64  `default:"0" help:"Seed of everything random."`
	Backend string `default:"auto" help:"Where boxes live: auto, or one of 'hermes sandbox list'." placeholder:"NAME"`
	Image   string `help:"Image of boxes whose row names none." placeholder:"IMAGE"`
	JSON    bool   `name:"json" nokey:"" help:"One JSON object a check."`
}

// EnvDebug is what `hermes env debug` can be given.
type EnvDebug struct {
	EnvFlags
	Record  string `required:"" nokey:"" placeholder:"ID" help:"KEY, ROW or ROW/SAMPLE."`
	RunName string `name:"run" placeholder:"NAME" help:"Run: a name or a path (default: the environment's name)."`
	NoShell bool   `name:"no-shell" help:"Open no shell, on a terminal either."`
	Backend string `default:"auto" help:"Where boxes live: auto, or one of 'hermes sandbox list'." placeholder:"NAME"`
	Image   string `help:"Image of boxes whose row names none." placeholder:"IMAGE"`
	Out     string `default:"runs" placeholder:"DIR" help:"Parent of run directories."`
}

// Process is what `hermes env process` can be given.
type Process struct {
	EnvFlags
	Groups  int64 `range:"1:" default:"10" help:"Groups to roll out, one a row."`
	Shuffle bool  `help:"Seeded order of the rows."`
	PartsFlags
	RunFlags  `group:"The run:"`
	RoleFlags `group:"Other models:"`
}

// Batch is what the environment is rolled out with.
func (p Process) Batch() Batch {
	return Batch{PartsFlags: p.PartsFlags, RowFlags: RowFlags{Limit: p.Groups, Shuffle: p.Shuffle, BadRows: "fail"}, RunFlags: p.RunFlags, RoleFlags: p.RoleFlags}
}
