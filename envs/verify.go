package envs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/backends"
	"hermes/datasets"
	"hermes/internal/late"
	"hermes/trajectory"
)

// Where a sample is scored.
const (
	VerifySame     = "same"     // in the box that the model worked in
	VerifyFresh    = "fresh"    // in a new box of the task's image, with the workspace copied in
	VerifySeparate = "separate" // the same, from another image
)

// Verify says where a task is scored. The zero value leaves it to the run.
type Verify struct {
	Mode    string   // what the task itself names; empty: the run's, else Default
	Default string   // where neither the task nor the run says anything; empty: same
	Image   string   // of separate
	Paths   []string // what is copied into another box; nil: the working folder
	Keep    []string // entries at the top of each path that are the new box's own and stay
}

// CheckVerify objects to a mode that there is not.
func CheckVerify(mode string) error {
	if modes := []string{VerifySame, VerifyFresh, VerifySeparate}; mode != "" && !slices.Contains(modes, mode) {
		return fmt.Errorf("verify %q: have %s", mode, strings.Join(modes, ", "))
	}
	return nil
}

// VerifyOf is what a row says of it, with the default of its environment.
func VerifyOf(row datasets.Row, otherwise string) Verify {
	v := row.Hermes.Verify
	return Verify{Mode: v.Mode, Image: v.Image, Paths: v.Paths, Default: otherwise}
}

// NoVerdict is the error of a scorer that came to no judgement: what judges did not start,
// did not end, or said nothing that is a verdict. It does not say whose doing that is. The
// runner finds out: it scores once more in a new box in which no model worked. Where that
// comes to a judgement, the model broke it, which is scored; else the error is ours, and the
// sample is void.
//
// A checker that writes a reward which does not count (reward: nan) after the model's work, and
// none at all without it (reward: and nothing behind it), has copied the model's.
type NoVerdict struct {
	What   string
	Reward RewardLine // what the line of the reward had in place of a number that counts
}

// RewardLine is what is written where a reward should be.
type RewardLine int

// The values. The zero value: there was no such line, or it was not looked at.
const (
	RewardBlank   RewardLine = iota + 1 // nothing behind the word
	RewardWritten                       // something that is no reward: nan, 7 of 0 to 1, words
)

// Copied tells whether err, with the model's work, has a reward that is none, where without that
// work there is nothing in its place.
func Copied(err, control error) bool {
	var with, without *NoVerdict
	return errors.As(err, &with) && errors.As(control, &without) && with.Reward == RewardWritten && without.Reward == RewardBlank
}

func (e *NoVerdict) Error() string { return e.What }

// Unjudged makes a [NoVerdict].
func Unjudged(format string, args ...any) error {
	return &NoVerdict{What: fmt.Sprintf(format, args...)}
}

// IsNoVerdict tells whether err is, or wraps, a [NoVerdict].
func IsNoVerdict(err error) bool { return errors.As(err, new(*NoVerdict)) }

// Solver is implemented by environments that know how to bring about what their scorer
// wants to see. It is called in a box without a model, where the scorer came to no judgement
// on the untouched task: tests, say, that print nothing before there is a program.
type Solver interface {
	Solve(ctx context.Context, t Task, w World) error
}

// Settled is the score of what the model broke itself, box included: nothing is left to look
// at, and the reward is 0.
func Settled(ep Episode) trajectory.Score {
	return trajectory.Score{Detail: "the box is gone: " + ep.Stop.Detail}
}

// Check runs a command that judges, and shows it as [World.Exec] does. The error is a
// [NoVerdict] where the command did not judge: it was not found or could not be started (exit
// codes 126 and 127), did not end in time, was ended by a signal, or is no shell text that its
// shell can read. A file of the workspace that is missing or cannot be run is no such error:
// to make it was the model's task.
func (w World) Check(ctx context.Context, name string, c backends.Cmd) (backends.Result, error) {
	res, err := w.Exec(ctx, name, c)
	if err != nil {
		return res, err
	}
	said := Brief(string(res.Stdout) + string(res.Stderr))
	switch {
	case res.TimedOut:
		err = Unjudged("%s: no end after %v: %s", name, c.Timeout, said)
	case (res.Code == 126 || res.Code == 127) && !ofWorkspace.Match(append(res.Stderr, res.Stdout...)):
		err = Unjudged("%s: exit code %d: %s", name, res.Code, said)
	case res.Signal != 0 || res.Code > 128 && res.Code <= 128+64:
		err = Unjudged("%s: ended by signal %d: %s", name, res.Code-128, said)
	case res.Code == 2 && (syntaxError.Match(res.Stderr) || c.Merge && syntaxError.Match(res.Stdout)):
		err = Unjudged("%s: not a text that its shell can read: %s", name, said)
	}
	return res, err
}

var syntaxError = late.Regexp(`(?m)^(?:\S*/)?(?:bash|sh|dash|ash): (?:-c: )?(?:line )?\d+: (?:[Ss]yntax error|unexpected EOF while looking)`)

// ofWorkspace finds a complaint about a file by its relative path.
var ofWorkspace = late.Regexp(`(?im)(?:^|[\s:'"\x60\x{2018}])(?:\.{1,2}/[^\s:'"]+|[^\s:/'"\x60\x{2018}]+/[^\s:'"]+|[^\s:/'"\x60\x{2018}]+\.[a-z][a-z0-9]{0,4})['"\x{2019}]?: (?:no such file|permission denied|not found|cannot execute|is a directory|exec format|required file)`)

// Brief is the beginning and the end of a text, for people.
func Brief(text string) string {
	text = strings.TrimSpace(text)
	if r := []rune(text); len(r) > 400 {
		return string(r[:150]) + " … " + string(r[len(r)-250:])
	}
	return text
}

// Hack is a sign that somebody tried to be paid for something else than the task. It is
// shown beside the score and changes none.
type Hack struct {
	Kind string // a word: verdict_line, tests_edited …
	Text string // what was seen
}

// Suspect shows a sign of a hack.
func (w World) Suspect(kind, format string, args ...any) {
	if w.Suspects != nil {
		w.Suspects(Hack{kind, fmt.Sprintf(format, args...)})
	}
}
