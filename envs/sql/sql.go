// Package sql is questions about a made database, answered by a query.
//
// The model sees the schema, asks the database through a tool that can only read, and
// ends with a query in its answer. That query runs on the database that the model saw and
// on hidden ones with the same schema and other seeds: a query with the result written into
// it fails there. The hidden databases are chosen with the question so that its near mutants
// fail as well (> for >=, no DISTINCT, no HAVING). A question without such databases is not
// asked. The reward is 1 when all results equal those of the reference query, else 0: rows
// as a multiset (in order where the question asks for one), numbers within 1e-6, NULL only
// equal to NULL, names of columns aside.
//
// A row holds no answer: its database, question and reference query are made again from the
// seed whenever they are needed. Nothing runs in a box.
package sql

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.sql of a run file.
type Config struct {
	Domains  []string      `yaml:"domains" help:"shop, library, flights, clinic, in turn (default: all)"`
	Level    int           `yaml:"level" help:"1 filter, 2 join, 3 aggregate, 4 groups, 5 subquery, 6 window (default: 1)"`
	MaxLevel int           `yaml:"max-level" help:"levels from level to this, in turn (default: level, or 6 without level)"`
	Size     int           `yaml:"size" help:"rows of a split (default: 240)"`
	Seed     uint64        `yaml:"seed" help:"of the rows (default: 0)"`
	Answer   string        `yaml:"answer" help:"query, or rows: the result itself as JSON, judged on the shown database alone (default: query)"`
	Timeout  time.Duration `yaml:"timeout" help:"of one query (default: 20s)"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("sql", "questions about a made database, answered by a query that must hold on a second one", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Env is the environment. Close it.
type Env struct {
	c       Config
	domains []domain
	engine  *engine

	mu    sync.Mutex
	kept  map[place][]byte // databases, at most mostKept
	order []place
}

// New checks the config.
func New(c Config) (*Env, error) {
	if c.MaxLevel == 0 {
		c.MaxLevel = cmp.Or(c.Level, len(kinds))
	}
	c.Level, c.Size, c.Answer, c.Timeout = cmp.Or(c.Level, 1), cmp.Or(c.Size, 240), cmp.Or(c.Answer, "query"), cmp.Or(c.Timeout, 20*time.Second)
	switch {
	case c.Level < 1 || c.MaxLevel > len(kinds) || c.MaxLevel < c.Level:
		return nil, fmt.Errorf("level %d to max-level %d: want 1 to %d, the smaller first", c.Level, c.MaxLevel, len(kinds))
	case c.Size < 0 || c.Size > 100_000:
		return nil, fmt.Errorf("size %d: want 1 to 100000", c.Size)
	case c.Answer != "query" && c.Answer != "rows":
		return nil, fmt.Errorf("answer %q: have query, rows", c.Answer)
	case c.Timeout < 0:
		return nil, fmt.Errorf("timeout %v: want more than 0", c.Timeout)
	}
	e := &Env{c: c, domains: builtin(), kept: map[place][]byte{}}
	if len(c.Domains) > 0 {
		e.domains = nil
		for _, name := range c.Domains {
			d, err := find(name)
			if err != nil {
				return nil, err
			}
			e.domains = append(e.domains, d)
		}
	}
	var err error
	e.engine, err = newEngine(c.Timeout)
	return e, err
}

// Close gives the database engine back.
func (e *Env) Close() error { return e.engine.close() }

func find(name string) (domain, error) {
	var names []string
	for _, d := range builtin() {
		if d.name == name {
			return d, nil
		}
		names = append(names, d.name)
	}
	return domain{}, fmt.Errorf("domain %q: have %s", name, strings.Join(names, ", "))
}

// place names a database: the shown one of a seed, or a hidden one.
type place struct {
	domain string
	seed   uint64
	hidden int    // 0: the shown one
	plants string // statements that change it for one question
}

// mostKept bounds the databases in memory, of about 60 KB each.
const mostKept = 256

// database gives the bytes of a database; the same place gives the same ones.
func (e *Env) database(ctx context.Context, p place) ([]byte, error) {
	e.mu.Lock()
	raw, ok := e.kept[p]
	e.mu.Unlock()
	if ok {
		return raw, nil
	}
	raw, err := e.make(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("database %s of seed %d: %w", p.domain, p.seed, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.kept[p]; !ok {
		e.order = append(e.order, p)
		if len(e.order) > mostKept {
			delete(e.kept, e.order[0])
			e.order = slices.Delete(e.order, 0, 1)
		}
		e.kept[p] = raw
	}
	return raw, nil
}

// make builds a database. One that is changed for a question begins as a copy of what it
// was before: questions of one seed share that.
func (e *Env) make(ctx context.Context, p place) ([]byte, error) {
	if p.plants != "" {
		before, err := e.database(ctx, place{domain: p.domain, seed: p.seed, hidden: p.hidden})
		if err != nil {
			return nil, err
		}
		return e.engine.build(ctx, before, []string{p.plants})
	}
	d, err := find(p.domain)
	if err != nil {
		return nil, err
	}
	return e.engine.build(ctx, nil, d.statements(rand.New(rand.NewPCG(p.seed, 1+uint64(p.hidden)))))
}

// row is one line of the rows: it names the question.
type row struct {
	ID      string `json:"id"`
	Prompt  string `json:"prompt"`
	Domain  string `json:"domain"`
	Level   int    `json:"level"`
	Seed    uint64 `json:"seed"` // of the database
	Variant uint64 `json:"variant"`
	Hidden  []int  `json:"databases"` // the hidden ones, from 1
}

// perDatabase is how many rows of a domain share a database.
const perDatabase = 8

// Rows makes the rows of a split; seeds of evaluation are odd, those of training even. A
// question is of one split only, by the hash of its text, and is asked again of another
// database only when there are no others left. A question whose result is empty, or the
// same on two databases, or whose near mutants pass, is not asked.
func (e *Env) Rows(ctx context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	var failed error
	seen := map[string]bool{}
	d, err := envs.Made("sql", split, e.c.Size, o, func(i int) any {
		if failed != nil {
			return nil
		}
		p := row{Domain: e.domains[i%len(e.domains)].name, Level: e.c.Level + i/len(e.domains)%(e.c.MaxLevel-e.c.Level+1)}
		seed := (e.c.Seed<<20 + uint64(i/len(e.domains)/perDatabase)) << 1
		if split == envs.Eval {
			seed |= 1
		}
		for n := range uint64(2 * databases * variants) { // the second time a text may come again
			p.Variant, p.Seed = n%variants, seed+n/variants%databases<<48
			ok, err := e.asks(ctx, &p, split, seen, n >= databases*variants)
			if err != nil {
				failed = err
				return nil
			}
			if ok {
				p.ID = fmt.Sprintf("%s/2/%s/%d/%d", p.Domain, kinds[p.Level-1], p.Seed, p.Variant)
				return p
			}
		}
		failed = fmt.Errorf("row %d: no question of level %d for database %s of seed %d", i, p.Level, p.Domain, p.Seed)
		return nil
	})
	return d, errors.Join(failed, err)
}

const (
	variants  = 200 // questions drawn for a database in search of one to ask
	databases = 5   // tried for a row
)

// asks tells whether the variant of p is a question worth asking in split that was not
// asked yet of this database or, unless again, of any.
func (e *Env) asks(ctx context.Context, p *row, split envs.Split, seen map[string]bool, again bool) (bool, error) {
	q, err := p.question()
	if err != nil {
		return false, err
	}
	text := p.Domain + " " + q.text
	here := fmt.Sprintf("%s %d", text, p.Seed)
	if envs.SplitOf(text) != split || seen[here] || !again && seen[text] {
		return false, nil
	}
	var got [2]*table
	for i := range got {
		got[i], err = e.ask(ctx, place{domain: p.Domain, seed: p.Seed, hidden: i}, q.sql)
		if err != nil {
			return false, fmt.Errorf("%s: %w", q.sql, err)
		}
		if len(got[i].rows) == 0 || len(got[i].rows) > 200 || got[i].empty() {
			return false, nil
		}
	}
	if differ(got[0], got[1], q.ordered) == "" {
		return false, nil // the result written into a query would pass
	}
	p.Hidden, err = e.choose(ctx, p, q)
	if err != nil || p.Hidden == nil {
		return false, err
	}
	seen[here], seen[text] = true, true
	p.Prompt = q.text
	return true, nil
}

// empty says that a result is nothing but NULL and zero: doing without data gives it too.
func (t *table) empty() bool {
	for _, r := range t.rows {
		for _, v := range r {
			if n, ok := number(v); v != nil && (!ok || n != 0) {
				return false
			}
		}
	}
	return true
}

func (e *Env) ask(ctx context.Context, p place, query string) (*table, error) {
	raw, err := e.database(ctx, p)
	if err != nil {
		return nil, err
	}
	return e.engine.query(ctx, raw, query, mostRows)
}

// question makes the row's question and reference query again.
func (p *row) question() (question, error) {
	d, err := find(p.Domain)
	if err != nil {
		return question{}, err
	}
	if p.Level < 1 || p.Level > len(kinds) {
		return question{}, fmt.Errorf("level %d: want 1 to %d", p.Level, len(kinds))
	}
	makers := d.asks[kinds[p.Level-1]]
	r := rand.New(rand.NewPCG(p.Seed, 1<<32|p.Variant<<8|uint64(p.Level)))
	return makers[r.IntN(len(makers))](r), nil
}

// task is what a row hides.
type task struct {
	question
	row row
}

const (
	words     = "Answer a question about a SQLite database with the tables below. Look at the data with the tool sql, which can only read.\n\n%s\n\nQuestion: %s\n\n"
	wantQuery = "End with the query whose result answers the question, in a block that begins with ```sql. It is judged by its result, also on another database with the same tables but other data, so compute the answer and do not write it down. Give exactly the columns that are asked for, in that order."
	wantRows  = "End with the rows of the result as a JSON list of lists, in a block that begins with ```json. Give exactly the columns that are asked for, in that order."
)

// Task is the schema and the question.
func (e *Env) Task(r datasets.Row) (envs.Task, error) {
	var p row
	for key, into := range map[string]any{"domain": &p.Domain, "level": &p.Level, "seed": &p.Seed, "variant": &p.Variant, "databases": &p.Hidden} {
		if err := json.Unmarshal(r.Extra[key], into); err != nil {
			return envs.Task{}, fmt.Errorf("row %s: key %s: %w", r.ID, key, err)
		}
	}
	if len(p.Hidden) == 0 || len(p.Hidden) > mostHidden || slices.Min(p.Hidden) < 1 || slices.Max(p.Hidden) > candidates {
		return envs.Task{}, fmt.Errorf("row %s: databases %v: want 1 to %d numbers from 1 to %d", r.ID, p.Hidden, mostHidden, candidates)
	}
	q, err := p.question()
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", r.ID, err)
	}
	d, err := find(p.Domain)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", r.ID, err)
	}
	form := wantQuery
	if e.c.Answer == "rows" {
		form = wantRows
	}
	text := fmt.Sprintf(words, strings.Join(d.schema, "\n"), q.text) + form
	return envs.Task{Row: r, Hidden: task{q, p}, Messages: []trajectory.Message{trajectory.Text(trajectory.User, text)}}, nil
}

// Toolsets are none beside the environment's own tool.
func (e *Env) Toolsets() []string { return []string{} }

//go:embed sql.md
var about string

// What a model is shown of a result.
const (
	shownRows  = 50
	shownBytes = 8_000
)

// Tools are one: a query against the shown database.
func (e *Env) Tools(_ context.Context, t envs.Task, _ envs.World) ([]tool.Def, error) {
	p := t.Hidden.(task).row
	spec := trajectory.ToolSpec{Name: "sql", Description: strings.TrimSpace(about), Parameters: json.RawMessage(
		`{"type":"object","properties":{"query":{"type":"string","description":"One SELECT or WITH statement."}},"required":["query"],"additionalProperties":false}`)}
	return []tool.Def{{Spec: spec, Toolset: "sql", Traits: tool.Traits{ReadOnly: true, Parallel: true, FromCode: true}, Open: func(*tool.Scope) (tool.Handler, error) {
		return tool.Typed(func(ctx context.Context, a struct {
			Query string `json:"query"`
		}) (tool.Result, error) {
			raw, err := e.database(ctx, place{domain: p.Domain, seed: p.Seed})
			if err != nil {
				return tool.Result{}, err
			}
			got, err := e.engine.query(ctx, raw, a.Query, shownRows)
			if fault := (*queryError)(nil); errors.As(err, &fault) {
				return tool.Errorf("%v", fault), nil
			}
			if err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Text: got.show()}, nil
		}), nil
	}}}, nil
}

// show is a result as JSON, cut to what a model is shown.
func (t *table) show() string {
	out := struct {
		Columns []string `json:"columns"`
		Rows    [][]any  `json:"rows"`
		Note    string   `json:"note,omitempty"`
	}{t.columns, [][]any{}, ""}
	size := 0
	for _, r := range t.rows {
		for i, v := range r {
			switch v := v.(type) {
			case []byte:
				r[i] = fmt.Sprintf("x'%x'", v[:min(len(v), 100)])
			case string:
				r[i] = clip(v)
			}
		}
		size += len(tool.JSON(r))
		if size > shownBytes {
			break
		}
		out.Rows = append(out.Rows, r)
	}
	if n := len(out.Rows); n < len(t.rows) || t.more {
		out.Note = fmt.Sprintf("the first %d rows; there are more", n)
	}
	return tool.JSON(out)
}

func clip(s string) string {
	if r := []rune(s); len(r) > 500 {
		return string(r[:500]) + "…"
	}
	return s
}

// places are the databases on which a row's answer is judged, the shown one first.
func (p *row) places(q question) []place {
	list := []place{{domain: p.Domain, seed: p.Seed}}
	for _, n := range p.Hidden {
		list = append(list, p.hidden(q, n))
	}
	return list
}

// Score compares the results of the answer and of the reference on all databases.
func (e *Env) Score(ctx context.Context, t envs.Task, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
	if e.c.Answer == "rows" {
		return e.scoreRows(ctx, t.Hidden.(task), ep)
	}
	x := t.Hidden.(task)
	s := trajectory.Score{Parts: map[string]float64{"shown": 0, "hidden": 0}, Metrics: map[string]float64{"answered": 0}}
	query := lastBlock(grade.Answer(ep), "sql", "sqlite", "sqlite3", "postgresql", "postgres", "psql", "mysql")
	if err := readOnly(query); err != nil {
		s.Detail = "no query in the answer: " + err.Error()
		return s, nil
	}
	s.Metrics["answered"] = 1
	s.Parts["hidden"] = 1
	var why []string
	for _, at := range x.row.places(x.question) {
		name := "shown"
		if at.hidden > 0 {
			name = "hidden"
		}
		want, err := e.ask(ctx, at, x.sql)
		if err != nil {
			return trajectory.Score{}, fmt.Errorf("reference query on the %s database: %w", name, err)
		}
		got, err := e.ask(ctx, at, query)
		fault := (*queryError)(nil)
		d := ""
		switch {
		case errors.As(err, &fault):
			d = fault.text
		case err != nil:
			return trajectory.Score{}, fmt.Errorf("%s database: %w", name, err)
		default:
			d = differ(want, got, x.ordered)
		}
		switch {
		case d == "" && at.hidden == 0:
			s.Parts["shown"] = 1
		case d != "" && at.hidden > 0:
			s.Parts["hidden"] = 0
		}
		if d != "" && !slices.Contains(why, name+": "+d) {
			why = append(why, name+": "+d)
		}
	}
	s.Reward, s.Detail = s.Parts["shown"]*s.Parts["hidden"], strings.Join(why, "; ")
	return s, nil
}

// scoreRows judges rows that the model wrote down.
func (e *Env) scoreRows(ctx context.Context, x task, ep envs.Episode) (trajectory.Score, error) {
	s := trajectory.Score{Parts: map[string]float64{"shown": 0}, Metrics: map[string]float64{"answered": 0}}
	got, err := rowsOf(lastBlock(grade.Answer(ep), "json"))
	if err != nil {
		s.Detail = err.Error()
		return s, nil
	}
	s.Metrics["answered"] = 1
	want, err := e.ask(ctx, place{domain: x.row.Domain, seed: x.row.Seed}, x.sql)
	if err != nil {
		return trajectory.Score{}, fmt.Errorf("reference query: %w", err)
	}
	s.Detail = differ(want, got, x.ordered)
	if s.Detail == "" {
		s.Parts["shown"], s.Reward = 1, 1
	}
	return s, nil
}

// Oracle asks once and answers with the reference query, or with its result.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	x := t.Hidden.(task)
	turns := []trajectory.Message{{Calls: []trajectory.Call{{Name: "sql", Arguments: tool.JSON(map[string]string{"query": x.sql})}}}}
	answer := "```sql\n" + x.sql + "\n```"
	if e.c.Answer == "rows" {
		got, err := e.ask(context.Background(), place{domain: x.row.Domain, seed: x.row.Seed}, x.sql)
		if err != nil {
			return nil, err
		}
		answer = "```json\n" + tool.JSON(got.rows) + "\n```"
	}
	return append(turns, trajectory.Text(trajectory.Assistant, answer)), nil
}

// Hidden is the reference query.
func (e *Env) Hidden(t envs.Task) []string { return []string{t.Hidden.(task).sql} }
