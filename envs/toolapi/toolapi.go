// Package toolapi is customer service at a small shop, in the manner of tau-bench: the
// model speaks with a simulated user, who knows what they want, and changes a database
// that it sees through tools alone.
//
// The reward is 1 when three things hold, else 0. The database is as after the reference
// calls. The model said every price that the user asked for, and no price of other goods
// beside them. The customer was found by the e-mail address before anything was changed.
// Nothing else counts.
//
// The user follows a script that is made with the task: they say their wish, answer questions
// with what they know, and say ###STOP### when the work is done or leads nowhere. Everything
// follows from the seed; no model plays the user.
package toolapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.tool_api of a run file.
type Config struct {
	Size  int    `yaml:"size" help:"rows of a split (default: 200)"`
	Seed  uint64 `yaml:"seed" help:"of the rows (default: 0)"`
	Level int    `yaml:"level" help:"wishes of a user, 1 to 5 (default: 2)"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("tool_api", "customer service: a simulated user, tools over a hidden database", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Env is the environment.
type Env struct{ c Config }

// New checks the config.
func New(c Config) (*Env, error) {
	c.Size = cmp.Or(c.Size, 200)
	c.Level = cmp.Or(c.Level, 2)
	if c.Size < 0 || c.Size > 100_000 || c.Level < 1 || c.Level > 5 {
		return nil, fmt.Errorf("size %d, level %d: want 1 to 100000 rows and 1 to 5 wishes", c.Size, c.Level)
	}
	return &Env{c: c}, nil
}

// place names a row: it decides everything.
type place struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
	Seed   uint64 `json:"seed"`
	Level  int    `json:"level"`
}

// Rows makes the rows of a split, whose questions are asked in no other.
func (e *Env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return envs.Made("tool_api", split, e.c.Size, o, func(i int) any {
		p := place{Level: e.c.Level}
		p.Seed = envs.SeedFor(split, e.c.Seed, i, func(seed uint64) string { return newCase(seed, p.Level).opening })
		p.ID = fmt.Sprintf("shop/2/%d/%d", p.Level, p.Seed)
		p.Prompt = newCase(p.Seed, p.Level).opening
		return p
	})
}

const rules = `You serve the customers of a small shop. You see and change its database through the tools alone.
Find the customer by the e-mail address before you change anything. Change only what the customer asks for, and only their own orders.
Pending orders can be cancelled or changed, delivered ones returned; refuse what is not possible. A customer who asks for a fact gets it in your answer.
Make all the changes that the customer asked for, then say what you did.`

// Task is the rules and the customer's first words.
func (e *Env) Task(row datasets.Row) (envs.Task, error) {
	var p place
	for key, into := range map[string]any{"seed": &p.Seed, "level": &p.Level} {
		if err := json.Unmarshal(row.Extra[key], into); err != nil {
			return envs.Task{}, fmt.Errorf("row %s: key %s: %w", row.ID, key, err)
		}
	}
	if p.Level < 1 || p.Level > 5 {
		return envs.Task{}, fmt.Errorf("row %s: level %d: want 1 to 5", row.ID, p.Level)
	}
	c := newCase(p.Seed, p.Level)
	return envs.Task{Row: row, Hidden: c, Messages: []trajectory.Message{trajectory.Text(trajectory.System, rules), trajectory.Text(trajectory.User, c.opening)}}, nil
}

// Toolsets are none beside the shop's own tools.
func (e *Env) Toolsets() []string { return []string{} }

type stateKey struct{}

// episode is the hidden state of one rollout.
type episode struct {
	shop  *shop
	found bool // the customer, by the address
	early bool // something was changed before
}

func stateOf(t envs.Task, w envs.World) *episode {
	return w.State.Get(stateKey{}, func() any { return &episode{shop: t.Hidden.(*scene).start.copied()} }).(*episode)
}

// Tools are the API over this rollout's own database. Calls run one after the other.
func (e *Env) Tools(_ context.Context, t envs.Task, w envs.World) ([]tool.Def, error) {
	state, email := stateOf(t, w), t.Hidden.(*scene).email
	var defs []tool.Def
	for _, m := range methods() {
		defs = append(defs, tool.Def{Spec: m.spec, Toolset: "shop", Traits: tool.Traits{ReadOnly: m.reads}, Open: func(*tool.Scope) (tool.Handler, error) {
			return tool.Typed(func(_ context.Context, args map[string]string) (tool.Result, error) {
				out, err := m.do(state.shop, args)
				if err != nil {
					return tool.Errorf("%v", err), nil
				}
				if m.spec.Name == "find_user" && strings.EqualFold(args["email"], email) {
					state.found = true
				}
				state.early = state.early || !m.reads && !state.found
				return tool.Result{Text: tool.JSON(out)}, nil
			}), nil
		}})
	}
	return defs, nil
}

// Score compares the database with the one that the reference calls leave.
func (e *Env) Score(_ context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	c, state := t.Hidden.(*scene), stateOf(t, w)
	missing, guessed := c.prices(ep.Trace)
	s := trajectory.Score{Parts: map[string]float64{"db": 0, "communicate": 0, "rules": 0}}
	if state.shop.same(c.end) {
		s.Parts["db"] = 1
	}
	if missing == 0 && guessed == 0 {
		s.Parts["communicate"] = 1
	}
	if !state.early {
		s.Parts["rules"] = 1
	}
	s.Reward = s.Parts["db"] * s.Parts["communicate"] * s.Parts["rules"]
	if s.Reward == 0 {
		s.Detail = fmt.Sprintf("database as wanted: %v; not said: %d; prices of other goods said: %d; changed before the customer was found: %v", s.Parts["db"] == 1, missing, guessed, state.early)
	}
	return s, nil
}

// prices counts the prices that the user asked for and the model did not say. Where they asked
// for any, it also counts the prices said of goods that are not in the orders they spoke of:
// a model that says all prices knows none.
func (c *scene) prices(t *trajectory.Trace) (missing, guessed int) {
	if len(c.tell) == 0 {
		return 0, 0
	}
	said := amounts(spoken(t))
	for _, text := range c.tell {
		if !said[text] {
			missing++
		}
	}
	for _, p := range c.start.Products {
		if price := spelled(p.Price); said[price] && !c.meant[price] {
			guessed++
		}
	}
	return missing, guessed
}

// spelled is a price in dollars.
func spelled(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// spoken is all that the model said to the user.
func spoken(t *trajectory.Trace) string {
	var b strings.Builder
	p := t.Prefix()
	for i := range p.Len() {
		if _, n := p.Node(i); n.Sampled() {
			b.WriteString(n.Delta.Message.Content())
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Oracle asks for the address, makes the reference calls and says the prices asked for.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	c := t.Hidden.(*scene)
	turns := []trajectory.Message{trajectory.Text(trajectory.Assistant, "Gladly. What is your e-mail address?")}
	for _, g := range c.gold {
		turns = append(turns, trajectory.Message{Calls: []trajectory.Call{{Name: g.name, Arguments: tool.JSON(g.args)}}})
	}
	done := "It is done."
	if len(c.tell) > 0 {
		done += " You asked for: " + strings.Join(c.tell, ", ") + "."
	}
	return append(turns, trajectory.Text(trajectory.Assistant, done)), nil
}

// Hidden is what the model must find out by calls.
func (e *Env) Hidden(t envs.Task) []string { return t.Hidden.(*scene).tell }

// stop is the word that ends a conversation.
const stop = "###STOP###"

// patience is how often the user speaks before they give up.
const patience = 6

// Respond is the user: they answer what they are asked, and stop when their wishes are
// fulfilled or their patience ends.
func (e *Env) Respond(_ context.Context, t envs.Task, w envs.World, ep envs.Episode) ([]trajectory.Message, error) {
	c := t.Hidden.(*scene)
	said := ""
	spoke := 0
	for m := range ep.Trace.Prefix().Messages() {
		switch m.Role {
		case trajectory.Assistant:
			said = strings.ToLower(m.Content())
		case trajectory.User:
			spoke++
		}
	}
	missing, _ := c.prices(ep.Trace)
	fulfilled := stateOf(t, w).shop.same(c.end) && missing == 0
	if strings.Contains(said, strings.ToLower(stop)) || spoke >= patience || fulfilled && spoke > 1 {
		return nil, nil
	}
	return []trajectory.Message{trajectory.Text(trajectory.User, c.reply(said, spoke))}, nil
}

// reply is what the user says to an answer.
func (c *scene) reply(said string, spoke int) string {
	var known []string
	for _, k := range []struct{ ask, tell string }{{"mail", "My e-mail address is " + c.email + "."}, {"name", "My name is " + c.name + "."}, {"order", c.opening}, {"address", "My e-mail address is " + c.email + "."}} {
		if strings.Contains(said, k.ask) && !strings.Contains(strings.Join(known, " "), k.tell) {
			known = append(known, k.tell)
		}
	}
	switch {
	case len(known) > 0:
		return strings.Join(known, " ")
	case strings.Contains(said, "?"):
		return "Yes, please."
	case spoke == 1:
		return "My e-mail address is " + c.email + ". Please go on."
	}
	return "That is not all that I asked for. " + c.opening
}

// scene is one made case.
type scene struct {
	start, end  *shop
	opening     string
	name, email string
	gold        []action
	tell        []string        // prices
	meant       map[string]bool // prices of the goods that the wishes are about
}

type action struct {
	name string
	args map[string]string
}

// newCase makes a shop, a user with wishes, and the calls that fulfil them.
func newCase(seed uint64, level int) *scene {
	r := rand.New(rand.NewPCG(seed, uint64(level)))
	c := &scene{start: newShop(r), meant: map[string]bool{}}
	id := fmt.Sprintf("u%02d", r.IntN(len(c.start.Users)))
	me := c.start.Users[id]
	c.name, c.email = me.Name, me.Email
	c.gold = []action{{"find_user", map[string]string{"email": me.Email}}}
	c.end = c.start.copied()
	var wishes []string
	orders := append([]string{}, me.Orders...)
	r.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
	for i, o := range orders {
		if i < level {
			wishes = append(wishes, c.wish(r, o, id, i == 0))
		}
	}
	c.opening = fmt.Sprintf("Hello, I am %s. %s", me.Name, strings.Join(wishes, " Also, "))
	return c
}

// wish is about one order. The first one changes the database.
func (c *scene) wish(r *rand.Rand, id, userID string, first bool) string {
	o := c.end.Orders[id]
	p := c.end.Products[o.Product]
	c.meant[spelled(p.Price)] = true
	do := func(name string, args map[string]string) {
		c.gold = append(c.gold, action{name, args})
		for _, m := range methods() {
			if m.spec.Name == name {
				if _, err := m.do(c.end, args); err != nil {
					panic(fmt.Sprintf("reference call %s %v: %v", name, args, err))
				}
			}
		}
	}
	if !first && r.IntN(3) == 0 {
		do("get_product", map[string]string{"product_id": o.Product})
		c.tell = append(c.tell, spelled(p.Price))
		return fmt.Sprintf("please tell me the price of the product in my order %s.", id)
	}
	if o.Status == "delivered" {
		do("return_order", map[string]string{"order_id": id})
		return fmt.Sprintf("I want to return my order %s.", id)
	}
	switch kind := r.IntN(3); {
	case kind == 0 && first:
		address := fmt.Sprintf("%d New Street", 100+r.IntN(900))
		do("change_address", map[string]string{"order_id": id, "address": address})
		do("update_user_address", map[string]string{"user_id": userID, "address": address})
		return fmt.Sprintf("I have moved to %s; please change the address of my order %s and my own.", address, id)
	case kind == 1:
		for _, size := range []string{"L", "M", "S"} {
			if size != o.Size && p.Stock[size] > 0 {
				do("change_size", map[string]string{"order_id": id, "size": size})
				return fmt.Sprintf("I need my order %s in size %s.", id, size)
			}
		}
	}
	do("cancel_order", map[string]string{"order_id": id})
	return fmt.Sprintf("please cancel my order %s.", id)
}

// newShop makes a shop of 12 users with 5 orders each.
func newShop(r *rand.Rand) *shop {
	s := &shop{Users: map[string]*user{}, Orders: map[string]*order{}, Products: map[string]*product{}}
	for i, name := range strings.Fields("shirt coat jacket hat scarf sweater boots gloves") {
		s.Products[fmt.Sprintf("p%02d", i)] = &product{Name: name, Price: 2001 + r.IntN(38000), Stock: map[string]int{"S": r.IntN(3), "M": r.IntN(3), "L": r.IntN(3)}}
	}
	first, last := strings.Fields("Ana Ben Chi Dana Emil Farah Goro Hilde Ines Jon Kira Leo"), strings.Fields("Adler Brook Costa Diaz Engel Fuchs")
	for i, f := range first {
		id, l := fmt.Sprintf("u%02d", i), last[r.IntN(len(last))]
		u := &user{Name: f + " " + l, Email: fmt.Sprintf("%s.%s%d@example.com", strings.ToLower(f), strings.ToLower(l), r.IntN(1000)), Address: fmt.Sprintf("%d Old Road", 1+r.IntN(99))}
		for range 5 {
			oid := fmt.Sprintf("W%07d", r.IntN(10_000_000)) // tells nothing of its customer
			for s.Orders[oid] != nil {
				oid = fmt.Sprintf("W%07d", r.IntN(10_000_000))
			}
			s.Orders[oid] = &order{User: id, Product: fmt.Sprintf("p%02d", r.IntN(len(s.Products))), Size: "SML"[r.IntN(3):][:1], Address: u.Address,
				Status: []string{"pending", "delivered"}[r.IntN(2)]}
			u.Orders = append(u.Orders, oid)
		}
		s.Users[id] = u
	}
	return s
}
