package batch

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/atropos/encode"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/printable"
	"hermes/internal/runs/rollouts"
	"hermes/internal/whole"
	"hermes/rollout/journal"
	"hermes/rollout/runs"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

//go:embed groups.html
var groupsPage string

// Groups counts what `hermes env process` wrote.
type Groups struct {
	File       string   `json:"-"` // where they are written
	Written    int      `json:"groups"`
	Incomplete int      `json:"incomplete"`     // groups that lack a scored sample; they are left out
	Forked     int      `json:"forked"`         // sequences left out because a sample has several
	Void       []string `json:"void,omitempty"` // groups that the environment could not score as a whole
}

// Process rolls out groups of an environment and writes groups.jsonl and groups.html into
// the run directory.
func Process(ctx context.Context, h build.Host, q rollouts.Request) (stats.Statistics, Groups, error) {
	books, err := Run(ctx, h, q)
	if q.Batch.DryRun || err != nil && books.Planned == 0 {
		return books, Groups{}, err
	}
	dir := filepath.Join(q.Batch.Out, cmp.Or(q.Batch.Run, q.Env.Name))
	g, werr := writeGroups(ctx, dir, q)
	g.File = filepath.Join(dir, groupsName)
	if werr != nil && err == nil {
		err = exit.Ours(werr)
	}
	return books, g, err
}

// groupsName is the file of groups in a run directory.
const groupsName = "groups.jsonl"

// writeGroups makes the two files from the log, each in one step.
func writeGroups(ctx context.Context, dir string, q rollouts.Request) (g Groups, err error) {
	r, err := runs.Open(dir)
	if err != nil {
		return g, err
	}
	defer r.Close()
	lines, err := whole.Create(filepath.Join(dir, groupsName))
	if err != nil {
		return g, err
	}
	page, err := whole.Create(filepath.Join(dir, "groups.html"))
	if err != nil {
		return g, errors.Join(err, lines.Drop())
	}
	view, err := template.New("page").Parse(groupsPage)
	show := func(part string, data any) error { // what models wrote steers no terminal either
		var b strings.Builder
		if err := view.ExecuteTemplate(&b, part, data); err != nil {
			return err
		}
		_, err := io.WriteString(page, printable.HTML(b.String()))
		return err
	}
	if err == nil {
		err = show("head", dir)
	}
	if err == nil {
		g, err = groups(ctx, q, r, func(recs []*trajectory.Record, scores []trajectory.Score, line encode.ScoredDataGroup) error {
			e := json.NewEncoder(lines)
			e.SetEscapeHTML(false)
			if err := e.Encode(line); err != nil {
				return err
			}
			return show("group", map[string]any{"Row": recs[0].Row, "Samples": shown(recs, scores)})
		})
	}
	if err == nil {
		err = show("foot", g)
	}
	if err != nil {
		return g, errors.Join(err, lines.Drop(), page.Drop())
	}
	return g, errors.Join(lines.Keep(), page.Keep())
}

type shownSample struct {
	Sample   int
	Outcome  trajectory.Outcome
	Score    trajectory.Score
	Messages []shownMessage
}

type shownMessage struct{ Role, Text string }

func shown(recs []*trajectory.Record, scores []trajectory.Score) (out []shownSample) {
	for i, r := range recs {
		s := shownSample{Sample: r.Sample, Outcome: r.Outcome, Score: scores[i]}
		for _, m := range r.Trace.Visible() {
			text := m.Content()
			for _, c := range m.Calls {
				text += fmt.Sprintf("\n→ %s %s", c.Name, c.Arguments)
			}
			s.Messages = append(s.Messages, shownMessage{string(m.Role), text})
		}
		out = append(out, s)
	}
	return out
}

// groups walks the groups of the run in the order of the rows. Of the records, only their
// places in the log are held: the memory is that of one group.
func groups(ctx context.Context, q rollouts.Request, r *runs.Run, each func([]*trajectory.Record, []trajectory.Score, encode.ScoredDataGroup) error) (g Groups, err error) {
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
	rows, err := rowsByID(ctx, q)
	if err != nil {
		return g, err
	}
	for _, name := range names {
		places := at[name]
		if len(places) < q.Batch.Rollouts {
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
		if err := q.Env.ScoreGroup(ctx, rows[name], recs, scores); err != nil {
			g.Void = append(g.Void, fmt.Sprintf("group %s: %v", name, err))
			continue
		}
		line, forked, err := encode.Group(recs, scores, q.Batch.Generation())
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
func rowsByID(ctx context.Context, q rollouts.Request) (_ map[string]datasets.Row, err error) {
	if _, ok := q.Env.Bundled.(envs.GroupScorer); !ok {
		return nil, nil
	}
	d, err := q.Env.Rows(ctx, q.Env.Split, datasets.Options{Shuffle: q.Batch.Shuffle, Seed: uint64(q.Batch.Seed), Limit: q.Batch.Limit})
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
