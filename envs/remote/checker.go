package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/envs/rows"
	"hermes/trajectory"
)

// maxVerdict is how much a checker may print.
const maxVerdict = 1 << 20

// checker is a dataset with a program that gives the reward: one process an episode.
type checker struct {
	*rows.Env
	c      Config
	places chan struct{}
	log    *console
	over   context.Context // ends when the environment is closed
	close  context.CancelFunc
	live   sync.WaitGroup
}

func newChecker(c Config) (*checker, error) {
	if _, err := exec.LookPath(c.Checker[0]); err != nil {
		return nil, fmt.Errorf("checker %q: %w", c.Checker[0], err)
	}
	if _, err := c.variables(exec.Command(c.Checker[0]).Environ()); err != nil {
		return nil, err
	}
	plain, err := plainRows()
	if err != nil {
		return nil, err
	}
	k := &checker{Env: plain, c: c, places: make(chan struct{}, c.Workers), log: &console{}}
	k.over, k.close = context.WithCancel(context.Background())
	return k, nil
}

// plainRows make tasks out of rows and judge none.
func plainRows() (*rows.Env, error) {
	none, err := grade.Parse("none")
	return rows.New(rows.Options{Grader: none}), err
}

// Rows are the dataset's.
func (k *checker) Rows(ctx context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return k.c.stored().Open(ctx, Name, split, o)
}

// NeedsBox is false: the checker runs beside hermes and sees the episode alone.
func (k *checker) NeedsBox(envs.Task) bool { return false }

// Identity names the checker for run.yaml.
func (k *checker) Identity() string { return identity("checker", "", k.c) }

// Close kills what still runs.
func (k *checker) Close() error {
	k.close()
	k.live.Wait()
	return nil
}

// Score hands the episode to the checker on its stdin: row, answer, messages, stop. The
// last line that it prints is the reward: a number, or a JSON object.
func (k *checker) Score(ctx context.Context, t envs.Task, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
	row, err := rowJSON(t.Row)
	if err != nil {
		return trajectory.Score{}, fmt.Errorf("row %s: %w", t.Row.ID, err)
	}
	in, err := compact(struct {
		ID  string          `json:"id"`
		Row json.RawMessage `json:"row"`
		episodeParam
	}{t.Row.ID, row, episode(ep)})
	if err != nil {
		return trajectory.Score{}, fmt.Errorf("row %s: %w", t.Row.ID, err)
	}
	select {
	case k.places <- struct{}{}:
		defer func() { <-k.places }()
	case <-ctx.Done():
		return trajectory.Score{}, context.Cause(ctx)
	}
	out, err := k.run(ctx, in)
	if err != nil {
		return trajectory.Score{}, err
	}
	return verdict(out)
}

// run runs the checker once.
func (k *checker) run(ctx context.Context, in []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.c.Timeout, broken("the checker did not end within %v and was killed", k.c.Timeout))
	defer cancel()
	p, err := startProcess(k.c, k.c.Checker, func(line string) { k.log.line(1, line) })
	if err != nil {
		return nil, broken("%w", err)
	}
	k.live.Add(1)
	defer k.live.Done()
	for _, over := range []context.Context{ctx, k.over} {
		stop := context.AfterFunc(over, p.kill)
		defer stop()
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = p.in.Write(in) // a checker need not read
		p.in.Close()
	}()
	var out bytes.Buffer
	n, rerr := io.Copy(&out, io.LimitReader(p.out, maxVerdict+1))
	if n > maxVerdict {
		p.kill()
	}
	state := p.finish(false)
	<-fed
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case k.over.Err() != nil:
		return nil, broken("the checker was killed: the environment is closed")
	case n > maxVerdict:
		return nil, broken("the checker printed more than %d bytes", maxVerdict)
	case rerr != nil && !strings.Contains(rerr.Error(), "closed"):
		return nil, broken("the checker's output: %w", rerr)
	case !p.cmd.ProcessState.Success():
		return nil, broken("the checker ended with %s: %s%s", state, clip(out.String(), 300), p.lastWords())
	}
	return out.Bytes(), nil
}

// verdict reads the last line that is not empty.
func verdict(out []byte) (trajectory.Score, error) {
	text := strings.TrimSpace(string(out))
	last := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(last, "reward:")), 64); err == nil {
		return trajectory.Score{Reward: f}, nil // the loop refuses what is not finite
	}
	var r scoreResult
	if err := json.Unmarshal([]byte(last), &r); err != nil {
		return trajectory.Score{}, broken("the checker's last line is no reward: %q; want a number, or {\"reward\": 0.5}", clip(last, 200))
	}
	return r.Score, nil
}
