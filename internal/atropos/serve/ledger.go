package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hermes/internal/atropos/encode"
	"hermes/internal/atropos/shape"
)

// The files of the run directory beside the log.
const (
	servedName  = "served.jsonl"
	metricsName = "metrics.jsonl"
)

// ledger writes one line for each group, sent or not: raw rewards beside the shaped ones.
type ledger struct {
	mu      sync.Mutex
	served  *os.File
	metrics *os.File
	lines   int64    // of metrics, those of earlier starts too
	groups  *os.File // nil: not wanted
}

func openLedger(dir, groups string) (*ledger, error) {
	l := &ledger{}
	var err error
	open := func(name string) *os.File {
		f, ferr := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		err = errors.Join(err, ferr)
		return f
	}
	l.served, l.metrics = open(filepath.Join(dir, servedName)), open(filepath.Join(dir, metricsName))
	if groups != "" {
		l.groups = open(groups)
	}
	if err == nil {
		l.lines, err = countLines(filepath.Join(dir, metricsName))
	}
	return l, err
}

func countLines(name string) (n int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for {
		k, err := f.Read(buf)
		n += int64(bytes.Count(buf[:k], []byte{'\n'}))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (l *ledger) close() error {
	err := errors.Join(l.served.Close(), l.metrics.Close())
	if l.groups != nil {
		err = errors.Join(err, l.groups.Close())
	}
	return err
}

// served is a line of served.jsonl.
type served struct {
	Time   time.Time    `json:"time"`
	Step   int64        `json:"step"`
	Env    string       `json:"env"`
	Group  string       `json:"group"`
	Row    string       `json:"row"`
	At     Position     `json:"at"`
	Result string       `json:"result"` // sent, unknown, or why not
	Raw    []float64    `json:"raw,omitempty"`
	Scores []float64    `json:"scores,omitempty"`
	Masked []bool       `json:"masked,omitempty"`
	Adv    []float64    `json:"advantages,omitempty"`
	Sample []sampleLine `json:"samples,omitempty"`
}

type sampleLine struct {
	Sample  int      `json:"sample"`
	Outcome string   `json:"outcome"`
	Cause   string   `json:"cause,omitempty"`
	Reward  *float64 `json:"reward,omitempty"` // before any shaping; none: it has no finite one
}

func (l *ledger) write(f *os.File, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = f.Write(append(raw, '\n'))
	return err
}

// tell writes a line of metrics and returns its number, from 1.
func (l *ledger) tell(line metricsLine) (int64, error) {
	err := l.write(l.metrics, line)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	return l.lines, err
}

func (l *ledger) sent(g *group, w encode.ScoredDataGroup, raw []byte, out shape.Result, samples []shape.Sample, how string, step int64) error {
	line := g.line(how, step)
	line.Scores = w.Scores
	for _, x := range out.Samples {
		line.Raw = append(line.Raw, samples[x.Index].Reward)
		line.Masked = append(line.Masked, x.Masked)
		line.Adv = append(line.Adv, x.Advantage)
	}
	err := l.write(l.served, line)
	if l.groups != nil {
		err = errors.Join(err, l.write(l.groups, json.RawMessage(raw)))
	}
	return err
}

func (l *ledger) dropped(g *group, why string, step int64) error {
	return l.write(l.served, g.line(why, step))
}

func (g *group) line(result string, step int64) served {
	line := served{Time: time.Now().UTC(), Step: step, Env: g.env.Name, Group: g.name, Row: g.row.ID, At: g.at, Result: result}
	for _, r := range g.recs {
		one := sampleLine{Sample: r.Sample, Outcome: string(r.Outcome), Cause: r.Cause}
		if r.Score != nil && r.Score.Reward-r.Score.Reward == 0 {
			one.Reward = &r.Score.Reward
		}
		line.Sample = append(line.Sample, one)
	}
	return line
}
