package app

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade/report"
	"hermes/internal/atropos/encode"
	"hermes/rollout/journal"
	"hermes/rollout/runs"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Groups counts what `hermes env process` wrote.
type Groups struct {
	File       string   `json:"-"` // where they are written
	Written    int      `json:"groups"`
	Incomplete int      `json:"incomplete"`     // groups that lack a scored sample; they are left out
	Forked     int      `json:"forked"`         // sequences left out because a sample has several
	Void       []string `json:"void,omitempty"` // groups that the environment could not score as a whole
}

// ProcessEnv rolls out groups of an environment with b and writes groups.jsonl, groups.html
// and report.html into the run directory.
func ProcessEnv(ctx context.Context, h Host, b Batch) (stats.Statistics, Groups, error) {
	books, err := b.Run(ctx, h)
	if b.DryRun || err != nil && books.Planned == 0 {
		return books, Groups{}, err
	}
	dir := filepath.Join(b.Out, cmp.Or(b.RunFlags.Run, b.Env.Name))
	g, werr := writeGroups(ctx, dir, b)
	g.File = filepath.Join(dir, groupsName)
	if werr == nil {
		werr = writeReportPage(ctx, dir)
	}
	if werr != nil && err == nil {
		err = &Error{Code: codeOurs, Err: room(werr)}
	}
	return books, g, err
}

// groupsName is the file of groups in a run directory.
const groupsName = "groups.jsonl"

// writeGroups makes the two files from the log, each in one step.
func writeGroups(ctx context.Context, dir string, b Batch) (g Groups, err error) {
	r, err := runs.Open(dir)
	if err != nil {
		return g, err
	}
	defer r.Close()
	lines, err := newReplaced(filepath.Join(dir, groupsName))
	if err != nil {
		return g, err
	}
	page, err := newReplaced(filepath.Join(dir, "groups.html"))
	if err != nil {
		return g, errors.Join(err, lines.drop())
	}
	view, err := report.NewGroups(page, filepath.Base(dir), []report.Link{{Name: "report", Href: "report.html"}})
	if err == nil {
		g, err = b.groups(ctx, r, func(recs []*trajectory.Record, scores []trajectory.Score, line encode.ScoredDataGroup) error {
			e := json.NewEncoder(lines)
			e.SetEscapeHTML(false)
			if err := e.Encode(line); err != nil {
				return err
			}
			return view.Add(recs, scores)
		})
	}
	if err == nil {
		err = view.End(g.Written, g.Incomplete)
	}
	if err != nil {
		return g, errors.Join(err, lines.drop(), page.drop())
	}
	return g, errors.Join(lines.keep(), page.keep())
}

// groups walks the groups of the run in the order of the rows. Of the records, only their
// places in the log are held: the memory is that of one group.
func (b Batch) groups(ctx context.Context, r *runs.Run, each func([]*trajectory.Record, []trajectory.Score, encode.ScoredDataGroup) error) (g Groups, err error) {
	type place struct {
		sample int
		at     journal.Offset
	}
	at, order := map[string][]place{}, map[string]int64{}
	for e, err := range r.Journal.Records(ctx, 0) {
		if err != nil {
			return g, err
		}
		if e.Kind != journal.KindFinal || !e.Current {
			continue
		}
		rec, err := e.Record()
		if err != nil {
			return g, err
		}
		if _, seen := order[rec.Group]; !seen {
			order[rec.Group] = rec.PromptIndex
		}
		if rec.Score != nil && rec.Trace != nil && !rec.Outcome.Failure() {
			at[rec.Group] = append(at[rec.Group], place{rec.Sample, e.At})
		}
	}
	names := make([]string, 0, len(order))
	for name := range order {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return int(order[x] - order[y]) })
	rows, err := b.rowsByID(ctx)
	if err != nil {
		return g, err
	}
	for _, name := range names {
		places := at[name]
		if len(places) < b.Rollouts {
			g.Incomplete++
			continue
		}
		slices.SortFunc(places, func(x, y place) int { return x.sample - y.sample })
		var recs []*trajectory.Record
		var scores []trajectory.Score
		for _, p := range places {
			e, err := r.Journal.At(p.at)
			if err != nil {
				return g, err
			}
			rec, err := e.Record()
			if err != nil {
				return g, err
			}
			recs, scores = append(recs, rec), append(scores, *rec.Score)
		}
		if err := b.scoreGroup(ctx, rows[name], recs, scores); err != nil {
			g.Void = append(g.Void, fmt.Sprintf("group %s: %v", name, err))
			continue
		}
		line, forked, err := encode.Group(recs, scores, b.generation())
		if err == nil {
			err = each(recs, scores, line)
		}
		if err != nil {
			return g, err
		}
		g.Written++
		g.Forked += forked
	}
	return g, nil
}

// rowsByID reads the rows again for an environment that scores whole groups.
func (b Batch) rowsByID(ctx context.Context) (_ map[string]datasets.Row, err error) {
	if _, ok := b.Env.Bundled.(envs.GroupScorer); !ok {
		return nil, nil
	}
	d, err := b.Env.Rows(ctx, b.Env.Split, datasets.Options{Shuffle: b.Shuffle, Seed: uint64(b.Seed), Limit: b.Limit})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	rows := map[string]datasets.Row{}
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		rows[row.ID] = row
	}
	return rows, nil
}

// scoreGroup lets the environment compare the samples of a group. An error leaves the
// group without scores.
func (b Batch) scoreGroup(ctx context.Context, row datasets.Row, recs []*trajectory.Record, scores []trajectory.Score) error {
	s, ok := b.Env.Bundled.(envs.GroupScorer)
	if !ok {
		return nil
	}
	t, err := b.Env.Task(row)
	if err != nil {
		return err
	}
	var eps []envs.Episode
	for _, rec := range recs {
		eps = append(eps, envs.Episode{Trace: rec.Trace, Stop: rec.Stop})
	}
	if err := s.ScoreGroup(ctx, t, eps, scores); err != nil {
		return err
	}
	for i, x := range scores {
		if math.IsNaN(x.Reward) || math.IsInf(x.Reward, 0) {
			return fmt.Errorf("sample %d has the reward %v", recs[i].Sample, x.Reward)
		}
	}
	return nil
}

// generation are the sampling parameters that were sent. Exact requests name all of them.
func (b Batch) generation() map[string]any {
	g := map[string]any{}
	if b.Exact {
		g["temperature"], g["top_p"], g["top_k"], g["min_p"] = 1.0, 1.0, -1, 0.0
	}
	if b.Temperature != nil {
		g["temperature"] = *b.Temperature
	}
	if b.TopP != nil {
		g["top_p"] = *b.TopP
	}
	if b.TopK != nil && (!b.Exact || *b.TopK > 0) {
		g["top_k"] = *b.TopK
	}
	if b.MinP != nil {
		g["min_p"] = *b.MinP
	}
	if b.MaxTokens > 0 {
		g["max_tokens"] = b.MaxTokens
	}
	return g
}

// replaced is a file that takes the place of an older one when it is complete. It is for its
// owner alone.
type replaced struct {
	*bufio.Writer
	f    *os.File
	name string
}

func newReplaced(name string) (*replaced, error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".hermes-*")
	if err != nil {
		return nil, err
	}
	return &replaced{Writer: bufio.NewWriter(f), f: f, name: name}, nil
}

func (r *replaced) keep() error {
	err := errors.Join(r.Flush(), r.f.Sync(), r.f.Close())
	if err == nil {
		err = os.Rename(r.f.Name(), r.name)
	}
	return err
}

func (r *replaced) drop() error { return errors.Join(r.f.Close(), os.Remove(r.f.Name())) }
