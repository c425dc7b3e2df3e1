package progress_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermes/rollout/event"
	"hermes/rollout/event/progress"
	"hermes/trajectory"
)

// screen keeps what was written; it can be closed like a terminal.
type screen struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	closed bool
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errors.New("input/output error")
	}
	return s.buf.Write(b)
}

func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.buf.Reset()
	return s.buf.String()
}

func key(i int) trajectory.Key { return trajectory.NewKey("r", 0, 0, i) }

func rollout(p *progress.Progress, i int, o trajectory.Outcome) {
	p.Observe(event.RolloutStarted{Key: key(i)})
	p.Observe(event.TurnEnded{Key: key(i), Usage: trajectory.Usage{Completion: 300, Cost: 0.25, CostKnown: true}})
	p.Observe(event.RolloutEnded{Key: key(i), Record: &trajectory.Record{Outcome: o}})
}

func TestPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &screen{}
		p, err := progress.New(progress.Options{Out: out, Total: 10, Every: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		rollout(p, 1, trajectory.Answered)
		rollout(p, 2, trajectory.Provider)
		rollout(p, 3, trajectory.Provider)
		rollout(p, 4, trajectory.Sandbox)
		p.Observe(event.RolloutStarted{Key: key(5)})
		time.Sleep(9 * time.Second)
		if got := out.take(); got != "" {
			t.Fatalf("a line before its time: %q", got)
		}
		time.Sleep(2 * time.Second)
		want := "4/10 done, 3 failed (provider 2, sandbox 1), $1.00, 1 in flight, 109 tok/s, 15s left\n"
		if got := out.take(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		p.Close()
		p.Close()
		if got := out.take(); !strings.HasPrefix(got, "4/10 done") || strings.Count(got, "\n") != 1 {
			t.Errorf("last line %q", got)
		}
	})
}

func TestRetriedAndReplayedCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &screen{}
		p, _ := progress.New(progress.Options{Out: out, Mode: progress.Plain})
		p.Observe(event.RolloutStarted{Key: key(1)})
		p.Observe(event.Retry{Key: key(1), Cause: "box_lost"})
		p.Observe(event.RolloutStarted{Key: key(1), Attempt: 2})
		p.Observe(event.TurnEnded{Key: key(1), Replay: true, Usage: trajectory.Usage{Completion: 300, Cost: 3, CostKnown: true}})
		p.Observe(event.RolloutEnded{Key: key(1), Record: &trajectory.Record{Outcome: trajectory.Answered}})
		p.Close()
		if got, want := out.take(), "1 done, 1 retried, 0 in flight, 0.0 tok/s\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestBarFollowsTheWidth resizes the terminal while a bar is shown: no line may wrap.
func TestBarFollowsTheWidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &screen{}
		var now atomic.Int64
		now.Store(120)
		p, err := progress.New(progress.Options{Out: out, Total: 4, Width: func() int { return int(now.Load()) }})
		if err != nil {
			t.Fatal(err)
		}
		rollout(p, 1, trajectory.Answered)
		rollout(p, 2, trajectory.Answered)
		for _, width := range []int{120, 70, 30, 5, 1, 0, 200} {
			synctest.Wait()
			out.take()
			now.Store(int64(width))
			time.Sleep(time.Second)
			synctest.Wait()
			text := out.take()
			if text == "" {
				t.Fatalf("width %d: nothing drawn", width)
			}
			cols := width
			if cols == 0 {
				cols = 80
			}
			for _, line := range strings.Split(text, "\r\x1b[2K") {
				if n := len([]rune(line)); n >= max(cols, 2) || strings.Contains(line, "\n") {
					t.Errorf("width %d: a line of %d columns: %q", width, n, line)
				}
			}
			if width >= 120 && (!strings.Contains(text, "50%") || !strings.Contains(text, "█") || !strings.Contains(text, "2/4 done")) {
				t.Errorf("width %d: %q", width, text)
			}
		}
		p.Close()
		if got := out.take(); !strings.HasSuffix(got, "left\n") {
			t.Errorf("the last state stays: %q", got)
		}
	})
}

// TestNarrowTerminals leaves out the least important counts first.
func TestNarrowTerminals(t *testing.T) {
	tests := []struct {
		width int
		want  string
	}{
		{200, "4/10 done, reward 0.25, 2 failed (provider 1, sandbox 1), $1.00, 1 retried, 1 in flight, 400 tok/s, 3s left"},
		{100, "4/10 done, reward 0.25, 2 failed (provider 1, sandbox 1), $1.00, 1 retried, 1 in flight, 3s left"},
		{90, "4/10 done, reward 0.25, 2 failed (provider 1, sandbox 1), $1.00, 1 retried, 3s left"},
		{80, "4/10 done, reward 0.25, 2 failed (provider 1, sandbox 1), $1.00, 3s left"},
		{70, "4/10 done, reward 0.25, 2 failed (provider 1, sandbox 1), $1.00"},
		{60, "4/10 done, reward 0.25, 2 failed (provider 1, sandbox 1)"},
		{50, "4/10 done, 2 failed (provider 1, sandbox 1)"},
		{30, "4/10 done, 2 failed"},
		{12, "4/10 done,…"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			out := &screen{}
			p, err := progress.New(progress.Options{Out: out, Total: 10, Width: func() int { return tt.width }})
			if err != nil {
				t.Fatal(err)
			}
			for i, reward := range []float64{0, 0.5} {
				p.Observe(event.RolloutStarted{Key: key(i)})
				p.Observe(event.TurnEnded{Key: key(i), Usage: trajectory.Usage{Completion: 300, Cost: 0.25, CostKnown: true}})
				p.Observe(event.RolloutEnded{Key: key(i), Record: &trajectory.Record{Outcome: trajectory.Answered, Score: &trajectory.Score{Reward: reward}}})
			}
			rollout(p, 2, trajectory.Provider)
			rollout(p, 3, trajectory.Sandbox)
			p.Observe(event.RolloutStarted{Key: key(4)})
			p.Observe(event.Retry{Key: key(4), Cause: "box_lost"})
			p.Observe(event.RolloutStarted{Key: key(4), Attempt: 2})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			lines := strings.Split(out.take(), "\r\x1b[2K")
			got := lines[len(lines)-1]
			if _, behind, ok := strings.Cut(got, "| "); ok {
				got = behind
			}
			if got != tt.want {
				t.Errorf("width %d:\n got %q\nwant %q", tt.width, got, tt.want)
			}
			p.Close()
		})
	}
}

// What is in them does not steer the terminal either.
func TestNotesAndLogsDoNotTearTheBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &screen{}
		p, _ := progress.New(progress.Options{Out: out, Total: 4, Width: func() int { return 100 }})
		time.Sleep(time.Second)
		synctest.Wait()
		out.take()
		p.Observe(event.Note{Text: "backend: namespace\x1b[2J"})
		if _, err := p.Writer().Write([]byte("level=\x1bWARN\n")); err != nil {
			t.Fatal(err)
		}
		if got, want := out.take(), "\r\x1b[2Kbackend: namespace␛[2J\nlevel=␛WARN\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		p.Close()
	})
}

func TestClosedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &screen{}
		p, _ := progress.New(progress.Options{Out: out, Total: 4, Width: func() int { return 100 }})
		time.Sleep(time.Second)
		synctest.Wait()
		out.mu.Lock()
		out.closed = true
		out.mu.Unlock()
		time.Sleep(time.Minute)
		rollout(p, 1, trajectory.Answered)
		if n, err := p.Writer().Write([]byte("a line\n")); n != 7 || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestModes(t *testing.T) {
	if _, err := progress.New(progress.Options{Mode: "loud", Out: &screen{}}); err == nil || !strings.Contains(err.Error(), "loud") {
		t.Errorf("an unknown mode: %v", err)
	}
	out := &screen{}
	p, err := progress.New(progress.Options{Mode: progress.None, Out: out, Width: func() int { return 80 }})
	if err != nil {
		t.Fatal(err)
	}
	p.Observe(event.Note{Text: "unseen"})
	rollout(p, 1, trajectory.Answered)
	p.Close()
	if got := out.take(); got != "" {
		t.Errorf("none wrote %q", got)
	}
}

func TestManyObserversAtOnce(t *testing.T) {
	out := &screen{}
	p, _ := progress.New(progress.Options{Out: out, Total: 400, Every: time.Millisecond})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				rollout(p, w*50+i, trajectory.Answered)
			}
		})
	}
	wg.Wait()
	p.Close()
	if got := out.take(); !strings.Contains(got, "400/400 done, $100.00, 0 in flight") {
		t.Errorf("last lines %q", got)
	}
}
