// Package longhorizon is a shop that is kept for 30 to 300 days: orders with lead times,
// prices, seasons, goods that spoil, events that are announced, rent. What customers want
// at which price is hidden and has to be learnt; what is decided today shows weeks later.
//
// The reward is the net worth at the end, 0 where it is no more than doing nothing leads
// to, 1 where it is as much as a scripted policy reaches that knows the mean demand of
// every day; more than that is 1 as well, and the metric ratio tells how much. Days that a
// rollout does not use pass without anybody doing anything.
//
// The simulation lives in the process, behind tools: there is no file and no box. The seed
// and the calls alone decide what happens, and a day costs the same late as early.
package longhorizon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.long_horizon of a run file.
type Config struct {
	Size  int    `yaml:"size" help:"rows of a split (default: 200)"`
	Seed  uint64 `yaml:"seed" help:"of the rows (default: 0)"`
	Level int    `yaml:"level" help:"difficulty, 1 to 5 (default: 3)"`
	Days  int    `yaml:"days" help:"length of an episode, 30 to 300 (default: 60); the run needs --max-turns beyond it"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("long_horizon", "a shop over 30 to 300 days: orders, prices, seasons, events", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Env is the environment.
type Env struct{ c Config }

// New checks the config.
func New(c Config) (*Env, error) {
	c.Size = cmp.Or(c.Size, 200)
	c.Level = cmp.Or(c.Level, 3)
	c.Days = cmp.Or(c.Days, 60)
	if c.Size < 0 || c.Size > 100_000 {
		return nil, fmt.Errorf("size %d: want 1 to 100000", c.Size)
	}
	return &Env{c: c}, place{Level: c.Level, Days: c.Days}.check()
}

// place names a row: it decides everything.
type place struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
	Seed   uint64 `json:"seed"`
	Level  int    `json:"level"`
	Days   int    `json:"days"`
}

func (p place) check() error {
	if p.Level < 1 || p.Level > 5 || p.Days < 30 || p.Days > 300 {
		return fmt.Errorf("level %d, days %d: want a level of 1 to 5 and 30 to 300 days", p.Level, p.Days)
	}
	return nil
}

// Rows makes the rows of a split, whose questions are asked in no other.
func (e *Env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return envs.Made("long_horizon", split, e.c.Size, o, func(i int) any {
		p := place{Level: e.c.Level, Days: e.c.Days}
		p.Seed = envs.SeedFor(split, e.c.Seed, i, func(seed uint64) string { return task(newPlan(seed, p.Days, p.Level)) })
		p.ID = fmt.Sprintf("shop/2/%d/%d/%d", p.Level, p.Days, p.Seed)
		p.Prompt = task(newPlan(p.Seed, p.Days, p.Level))
		return p
	})
}

const rules = `You run a small shop with the tools that you have. Nothing happens but by your calls; the day passes when you call next_day, and several calls may stand in one message.
Customers decide by the price: how many come at which price is for you to find out. Customers who find nothing in stock are lost. Goods that spoil are thrown away. An order is paid at once and comes later.
What counts is the net worth after the last day: cash, and half of what goods in stock and on their way cost. A shop without cash is closed for good, and owes the rent of the days that are left. Go on until the last day is over, then say that you are done.`

func task(p *plan) string {
	return fmt.Sprintf("Run the shop for %d days. You begin with %s and no goods; the rent is %s a day, storage %s for each piece and day. Make the net worth at the end as great as you can.", p.days, money(p.cash), money(p.rent), money(p.fee))
}

// scene is the hidden part of a task.
type scene struct{ plan *plan }

// Task is the rules and the shop's beginnings.
func (e *Env) Task(row datasets.Row) (envs.Task, error) {
	var p place
	for key, into := range map[string]any{"seed": &p.Seed, "level": &p.Level, "days": &p.Days} {
		if err := json.Unmarshal(row.Extra[key], into); err != nil {
			return envs.Task{}, fmt.Errorf("row %s: key %s: %w", row.ID, key, err)
		}
	}
	if err := p.check(); err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", row.ID, err)
	}
	s := &scene{plan: newPlan(p.Seed, p.Days, p.Level)}
	return envs.Task{Row: row, Hidden: s, Messages: []trajectory.Message{trajectory.Text(trajectory.System, rules), trajectory.Text(trajectory.User, task(s.plan))}}, nil
}

// Toolsets are none beside the shop's own tools.
func (e *Env) Toolsets() []string { return []string{} }

// Step pays a turn for the net worth that it won.
func (e *Env) Step(_ context.Context, t envs.Task, w envs.World, done envs.Episode) error {
	ep := stateOf(t, w)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.pay(done.Trace.Turns(), ep.shop.worth())
	return nil
}

// Score lets the days that are left pass, for which the last turn is paid, and compares the
// net worth.
func (e *Env) Score(_ context.Context, t envs.Task, w envs.World, done envs.Episode) (trajectory.Score, error) {
	ep, p := stateOf(t, w), t.Hidden.(*scene).plan
	ep.mu.Lock()
	end := ep.shop.copied()
	actions := ep.actions
	refused := ep.refused
	used := end.day
	end.finish()
	ep.pay(done.Trace.Turns(), end.worth())
	turns := slices.Clone(ep.turns)
	ep.mu.Unlock()
	_, best := p.played()
	idle := p.idle()
	for i := range turns {
		turns[i] /= float64(best - idle)
	}
	ratio := float64(end.worth()-idle) / float64(best-idle)
	s := trajectory.Score{
		Reward:  max(0, min(1, ratio)),
		Turns:   turns,
		Parts:   map[string]float64{"worth": max(0, min(1, ratio)), "survived": float64(end.day) / float64(p.days), "served": share(end.served, end.served+end.missed), "valid": 1},
		Metrics: map[string]float64{"ratio": ratio, "net_worth": float64(end.worth()) / 100, "idle": float64(idle) / 100, "strong": float64(best) / 100, "days_used": float64(used), "spoilt": float64(end.spoilt), "stock_outs": float64(end.missed), "refused": float64(refused)},
		Detail:  fmt.Sprintf("net worth %s; doing nothing leads to %s, the scripted policy to %s; %d of %d days used", money(end.worth()), money(idle), money(best), used, p.days),
	}
	if actions > 0 {
		s.Parts["valid"] = 1 - share(refused, actions)
	}
	return s, nil
}

func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// Oracle plays the scripted policy, a day in each message.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	p := t.Hidden.(*scene).plan
	days, _ := p.played()
	var turns []trajectory.Message
	for _, now := range days {
		var m trajectory.Message
		for _, a := range now {
			g := p.goods[a.good]
			c := trajectory.Call{Name: "set_price", Arguments: fmt.Sprintf(`{"good":%q,"price":%s}`, g.name, money(a.price))}
			if a.price == 0 {
				c = trajectory.Call{Name: "order", Arguments: tool.JSON(map[string]any{"good": g.name, "supplier": g.suppliers[a.from].name, "pieces": a.pieces})}
			}
			m.Calls = append(m.Calls, c)
		}
		m.Calls = append(m.Calls, trajectory.Call{Name: "next_day", Arguments: "{}"})
		turns = append(turns, m)
	}
	return append(turns, trajectory.Text(trajectory.Assistant, "The last day is over.")), nil
}
