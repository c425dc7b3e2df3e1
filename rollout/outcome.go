package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout/policy"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// stageError says in which phase a rollout failed and whose fault it is unless the
// error itself knows better.
type stageError struct {
	outcome trajectory.Outcome
	stage   string
	err     error
}

func (e *stageError) Error() string { return e.stage + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// classify finds out whose fault an error is, and a short word for reports.
func classify(err error) (trajectory.Outcome, string) {
	var pe *policy.Error
	var se *stageError
	switch {
	case errors.Is(err, backends.ErrBroken):
		return trajectory.Faulty, string(trajectory.StopFaultyBox)
	case errors.As(err, &pe):
		return trajectory.Provider, string(pe.Kind)
	case errors.Is(err, backends.ErrImage):
		return trajectory.Sandbox, "image"
	case errors.Is(err, backends.ErrUnavailable):
		return trajectory.Sandbox, "unavailable"
	case errors.Is(err, backends.ErrLost):
		return trajectory.Sandbox, "box_lost"
	case errors.As(err, &se):
		return se.outcome, se.stage
	case errors.Is(err, envs.ErrFailed):
		return trajectory.Environment, "tool"
	case errors.Is(err, trajectory.ErrMisaligned):
		return trajectory.Provider, "misaligned"
	}
	return trajectory.Sandbox, "tool"
}

// outcomeOf maps why a loop stopped to what became of the sample.
func outcomeOf(s trajectory.Stop) trajectory.Outcome {
	switch s.Reason {
	case trajectory.StopAnswer:
		return trajectory.Answered
	case trajectory.StopRefused:
		return trajectory.Filtered
	case trajectory.StopMalformed, trajectory.StopRepetition:
		return trajectory.Malformed
	case trajectory.StopFaultyBox:
		return trajectory.Faulty
	}
	return trajectory.Truncated
}

// caller lets a scorer call the rollout's tools.
type caller struct{ set *tool.Set }

func (c caller) Call(ctx context.Context, name string, args json.RawMessage) (string, error) {
	if c.set == nil {
		return "", fmt.Errorf("tool %s: this rollout has no tools", name)
	}
	r, err := c.set.Call(ctx, trajectory.Call{Name: name, Arguments: string(args)})
	return r.Text, err
}

// metadata keeps a row's other keys as one JSON object, untouched.
func metadata(r datasets.Row) json.RawMessage {
	if len(r.Extra) == 0 {
		return nil
	}
	b, err := json.Marshal(r.Extra)
	if err != nil {
		return nil // Extra was read from JSON; what cannot be written back was never JSON
	}
	return b
}

// mostScoring bounds, in bytes, each key by which a row is judged that a record keeps.
const mostScoring = 16 << 10

// scoring keeps the keys by which a row is judged, so that a reader of the log sees the
// expected answer beside the given one. A longer value becomes a text that says its length.
func scoring(s datasets.Scoring) json.RawMessage {
	kept := s
	some := false
	for _, key := range []*json.RawMessage{&kept.Answer, &kept.Expected, &kept.ExpectedTools, &kept.Rubric, &kept.Checker, &kept.GroundTruth, &kept.Solution} {
		some = some || len(*key) > 0
		if len(*key) > mostScoring {
			*key = fmt.Appendf(nil, `"(%d bytes, not kept)"`, len(*key))
		}
	}
	if !some {
		return nil
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return nil // as in metadata
	}
	return b
}

// withScript adds the row's script and the name of the conversation to the extra body.
func withScript(extra json.RawMessage, j Job) (json.RawMessage, error) {
	body := map[string]json.RawMessage{}
	if len(extra) > 0 {
		if err := json.Unmarshal(extra, &body); err != nil {
			return nil, fmt.Errorf("extra body: %w", err)
		}
	}
	if len(j.Row.Hermes.Script) > 0 {
		body["hermes_script"] = j.Row.Hermes.Script
	}
	body["hermes_conversation"] = json.RawMessage(`"` + j.Key.String() + `"`)
	return json.Marshal(body)
}

func keys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }
