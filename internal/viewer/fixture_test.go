package viewer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hermes/internal/viewer"
	"hermes/rollout/artifact"
	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

// hostile is what a model may write to reach the reader's browser.
const hostile = `<script>window.hacked=1</script><img src=x onerror="window.hacked=1"> "'</pre>`

func openRun(t testing.TB, dir string, planned int64, o journal.Options) *rundir.Dir {
	t.Helper()
	m := rundir.Manifest{Version: "1", Identity: rundir.Fields{{Name: "model", Value: "m"}}, Extent: rundir.Extent{Planned: planned, Rollouts: 2},
		Books: rundir.Books{Mode: "batch"}, Tools: []string{"terminal"}}
	d, err := rundir.Open(t.Context(), dir, m, rundir.Options{Journal: o})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func commit(t testing.TB, tr *trajectory.Trace, turn trajectory.Turn) trajectory.NodeID {
	t.Helper()
	id, err := tr.Commit(turn)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// letters are tokens that stand for one letter each.
func letters(text string) (ids []trajectory.Token) {
	for _, r := range text {
		ids = append(ids, trajectory.Token(r))
	}
	return ids
}

func decoder(m rundir.Manifest) (viewer.Decoder, error) {
	if model, _ := m.Identity.Get("model"); model != "m" {
		return nil, fmt.Errorf("no tokenizer of %q", model)
	}
	return func(ids []trajectory.Token) ([]string, error) {
		out := make([]string, len(ids))
		for i, id := range ids {
			out[i] = string(rune(id))
		}
		return out, nil
	}, nil
}

func key(i, sample int) trajectory.Key { return trajectory.NewKey(fmt.Sprint("row", i), 0, 0, sample) }

// textRecord is sample s of row i: a call, its result, an answer.
func textRecord(t testing.TB, i, s int, answer string) *trajectory.Record {
	t.Helper()
	tr := trajectory.New(trajectory.ModeText, nil)
	call := trajectory.Message{
		Role:      trajectory.Assistant,
		Reasoning: fmt.Sprint("thinking about ", i),
		Calls:     []trajectory.Call{{ID: "c1", Name: "terminal", Arguments: `{"command":"ls"}`}},
	}
	commit(t, tr, trajectory.Turn{
		Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.System, "You work.")},
			{Message: trajectory.Text(trajectory.User, fmt.Sprint("Task number ", i, "."))}},
		Sampled: trajectory.Delta{Message: call},
		Finish:  trajectory.FinishCalls,
	})
	result := trajectory.Text(trajectory.Tool, "note.txt")
	result.CallID, result.Name = "c1", "terminal"
	commit(t, tr, trajectory.Turn{
		Given:   []trajectory.Delta{{Message: result}},
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, answer)},
		Finish:  trajectory.FinishStop,
		Usage:   trajectory.Usage{Prompt: int64(100 * i), Completion: 7, Cost: float64(i), CostKnown: true},
	})
	tr.Finish(nil)
	return &trajectory.Record{
		Key:       key(i, s),
		Group:     fmt.Sprint("row", i),
		Row:       fmt.Sprint("row", i),
		Sample:    s,
		Attempt:   1,
		Outcome:   trajectory.Answered,
		Stop:      trajectory.Stop{Reason: trajectory.StopAnswer},
		Score:     &trajectory.Score{Reward: float64(i) / 10},
		Started:   time.Unix(int64(i), 0).UTC(),
		Seconds:   float64(i),
		Model:     "m",
		Usage:     tr.Usage,
		Trace:     tr,
		ToolStats: map[string]trajectory.ToolCount{"terminal": {Count: 1, Success: 1}},
	}
}

// exactRecord is a sample with tokens, an abandoned branch and two versions of weights.
func exactRecord(t testing.TB, i int) *trajectory.Record {
	t.Helper()
	tr := trajectory.New(trajectory.ModeExact, nil)
	user := trajectory.Delta{Message: trajectory.Text(trajectory.User, "Say hello."), Tokens: letters("U:hello?"), Given: 8}
	sampled := func(text string) trajectory.Delta {
		d := trajectory.Delta{
			Message:  trajectory.Text(trajectory.Assistant, text),
			Tokens:   append(letters("A:"), letters(text)...),
			Given:    2,
			Versions: []trajectory.Span{{From: 0, Version: "v1"}},
		}
		for n := range text {
			d.LogProbs = append(d.LogProbs, -float32(n)/2)
		}
		return d
	}
	commit(t, tr, trajectory.Turn{Given: []trajectory.Delta{user}, Sampled: sampled("garbled"), Finish: trajectory.FinishStop})
	if err := tr.Rewind(0, trajectory.Abandoned); err != nil {
		t.Fatal(err)
	}
	commit(t, tr, trajectory.Turn{Sampled: sampled("hello there"), Finish: trajectory.FinishStop})
	// as the engine writes it: of an answer all tokens were sampled
	own := sampled("rm it")
	own.Tokens, own.Given = own.Tokens[own.Given:], 0
	own.Message.Calls = []trajectory.Call{{ID: "c9", Name: "terminal", Arguments: `{"command": "rm -rf /da"}`, State: trajectory.CallTruncated}}
	again := trajectory.Delta{Message: trajectory.Text(trajectory.User, "Go on."), Tokens: letters("U:on"), Given: 4}
	commit(t, tr, trajectory.Turn{Given: []trajectory.Delta{again}, Sampled: own, Finish: trajectory.FinishCalls,
		Faults: []trajectory.Fault{{Kind: "truncated", Message: "the answer ends inside a call", From: 3, To: 5}}})
	tr.Finish(nil)
	r := textRecord(t, i, 0, "")
	r.Trace, r.ToolStats = tr, nil
	return r
}

// makeRun makes a run of 12 records: ten rows of which one has failed and one is hostile,
// a second sample, and an exact one.
func makeRun(t testing.TB, dir string) {
	t.Helper()
	d := openRun(t, dir, 12, journal.Options{})
	for i := range 10 {
		r := textRecord(t, i, 0, fmt.Sprint("The answer is ", i, "."))
		switch i {
		case 3:
			r.Outcome = trajectory.Sandbox
			r.Score = nil
			r.Reason = "the box was lost"
			r.Cause = "box_lost"
		case 4:
			r = textRecord(t, i, 0, hostile)
		}
		if _, err := d.Journal.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*trajectory.Record{textRecord(t, 1, 1, "Another answer."), exactRecord(t, 10)} {
		if _, err := d.Journal.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	kept := artifact.Dir(filepath.Join(dir, "artifacts"), "row1", 0)
	if err := errors.Join(os.MkdirAll(kept, 0o755), os.WriteFile(filepath.Join(kept, "workspace.diff"), []byte("+two\n"), 0o644),
		os.Symlink("/etc/passwd", filepath.Join(kept, "leak"))); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// open serves runs until the test ends.
func open(t testing.TB, dirs ...string) *httptest.Server {
	t.Helper()
	v, err := viewer.Open(t.Context(), dirs, viewer.Options{Decoder: decoder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := v.Indexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(v.Handler())
	t.Cleanup(s.Close)
	return s
}

// bigRun makes a run of n records of about size bytes each that cannot be compressed much.
func bigRun(t testing.TB, dir string, n, size int, segment int64) {
	t.Helper()
	d := openRun(t, dir, int64(n), journal.Options{SegmentSize: segment})
	var work sync.WaitGroup // those that write at once share an fsync
	for w := range 32 {
		work.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			noise := make([]byte, size)
			for i := w; i < n; i += 32 {
				for at := 0; at < len(noise); at += 8 {
					for b, bits := at, r.Uint64(); b < min(at+8, len(noise)); b, bits = b+1, bits>>8 {
						noise[b] = ' ' + byte(bits)%95
					}
				}
				if _, err := d.Journal.Append(t.Context(), textRecord(t, i, 0, string(noise))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
