// Package artifact keeps what the scorer saw of a sample, for people who want to know why
// it was judged as it was. The folder of a sample holds
//
//	score.json        outcome, why it stopped, score, the scorer's error; commands with exit codes
//	answer.txt        the last answer of the model
//	NAME.stdout, …    what each command of the scorer wrote
//	NAME/FILE         files that the scorer read, such as reward files
//	workspace.diff    the working directory against the files that the task put there
//	files/PATH        what the task declared as worth keeping
//
// A file that is too large, or that could not be read, is named with the reason instead of
// being left out silently.
package artifact

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"hermes/backends"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/trajectory"
)

// Which samples are worth their artifacts.
const (
	All    = "all"
	Failed = "failed" // every sample that did not pass: a reward below 1, or no answer
	Zero   = "zero"   // a reward of exactly 0
	None   = "none"
)

// Options tune a [Keeper]. The zero value is usable.
type Options struct {
	MaxFile  int64 // bytes of one file; 0: 4 MiB
	MaxTotal int64 // bytes of one sample's diff and of its declared files; 0: 16 MiB
	MaxFiles int   // files of the working directory that are looked at; 0: 2,000
}

// Scene is what lies before the scorer: a sample that was judged, or that could not be.
type Scene struct {
	Record *trajectory.Record
	Task   envs.Task
	Box    backends.Sandbox // nil: there is none, or it is gone
	Since  time.Time        // when the box was made
	// Images says that the box came with files that the task did not put there.
	Images   bool
	Exhibits []envs.Exhibit
	Err      error // why the scorer failed; nil: Record.Score is its judgement
}

// Keeper writes the artifacts of a run. It is safe for concurrent use by different samples.
type Keeper struct {
	dir   string
	which string
	o     Options
}

// New makes the keeper of the folder dir.
func New(dir, which string, o Options) (*Keeper, error) {
	switch which {
	case All, Failed, Zero, None:
	default:
		return nil, fmt.Errorf("keep %q: want all, failed, zero or none", which)
	}
	o.MaxFile, o.MaxTotal, o.MaxFiles = cmp.Or(o.MaxFile, 4<<20), cmp.Or(o.MaxTotal, 16<<20), cmp.Or(o.MaxFiles, 2000)
	return &Keeper{dir: dir, which: which, o: o}, nil
}

// Dir is the folder of a sample.
func (k *Keeper) Dir(row string, sample int) string { return Dir(k.dir, row, sample) }

// Dir is the folder of a sample among the artifacts in dir.
func Dir(dir, row string, sample int) string {
	return filepath.Join(dir, folder(row), strconv.Itoa(sample))
}

func (k *Keeper) wants(s Scene) bool {
	score := s.Record.Score
	switch k.which {
	case All:
		return true
	case Zero:
		return score != nil && score.Reward == 0
	case Failed:
		return s.Err != nil || s.Record.Outcome != trajectory.Answered || score != nil && score.Reward < 1
	}
	return false
}

// Keep writes the artifacts of one sample, in place of those of an earlier attempt. The error
// names what could not be kept; the rest is there.
func (k *Keeper) Keep(ctx context.Context, s Scene) error {
	dir := k.Dir(s.Record.Row, s.Record.Sample)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if !k.wants(s) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var errs []error
	write := func(name string, data []byte) {
		errs = append(errs, put(filepath.Join(dir, name), data))
	}
	v := verdict{Outcome: s.Record.Outcome, Attempt: s.Record.Attempt, Stop: s.Record.Stop, Score: s.Record.Score}
	if s.Err != nil {
		v.Error = s.Err.Error()
	}
	for _, x := range s.Exhibits {
		v.Scorer = append(v.Scorer, command{Name: x.Name, Shell: x.Cmd.Shell, Argv: x.Cmd.Argv, Code: x.Result.Code,
			TimedOut: x.Result.TimedOut, Truncated: x.Result.Truncated, Seconds: x.Result.Took.Seconds()})
		write(folder(x.Name)+".stdout", x.Result.Stdout)
		write(folder(x.Name)+".stderr", x.Result.Stderr)
		for name, data := range x.Files {
			write(filepath.Join(folder(x.Name), folder(name)), data)
		}
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	write("score.json", append(b, '\n'))
	write("answer.txt", []byte(grade.Answer(envs.Episode{Trace: s.Record.Trace})+"\n"))
	if s.Box != nil {
		w := workspace{Scene: s, o: k.o}
		d, err := w.diff(ctx)
		errs = append(errs, err)
		if len(d) > 0 {
			write("workspace.diff", d)
		}
		errs = append(errs, w.declared(ctx, func(name string, data []byte) { write(filepath.Join("files", folder(name)), data) }))
	}
	return errors.Join(errs...)
}

// verdict is score.json.
type verdict struct {
	Outcome trajectory.Outcome `json:"outcome"`
	Attempt int                `json:"attempt"`
	Stop    trajectory.Stop    `json:"stop"`
	Score   *trajectory.Score  `json:"score"`
	Error   string             `json:"error,omitempty"`
	Scorer  []command          `json:"scorer,omitempty"`
}

type command struct {
	Name      string   `json:"name"`
	Shell     string   `json:"shell,omitempty"`
	Argv      []string `json:"argv,omitempty"`
	Code      int      `json:"exit_code"`
	TimedOut  bool     `json:"timed_out"`
	Truncated bool     `json:"truncated"` // the output was longer than what is kept
	Seconds   float64  `json:"seconds"`
}

func put(name string, data []byte) error {
	err := os.WriteFile(name, data, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			err = os.WriteFile(name, data, 0o600)
		}
	}
	return err
}
