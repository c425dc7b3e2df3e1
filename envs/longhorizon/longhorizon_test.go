package longhorizon

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/rollout/play"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func open(t *testing.T, c Config) *Env {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The environment has no answer that could lie around: "hidden" cannot be asked.
func TestContract(t *testing.T) {
	for level := 1; level <= 5; level++ {
		envtest.Run(t, open(t, Config{Level: level, Days: 20 + 10*level}), play.Player{}, envtest.Options{Rows: 3, Repeats: 3}, "hidden")
	}
	envtest.Run(t, open(t, Config{Days: 300}), play.Player{}, envtest.Options{Rows: 1, Repeats: 2, Split: envs.Eval}, "hidden")
}

// simple is a policy that knows only what a model can see: it keeps a week's sales in stock
// from the nearby supplier, at its own price.
func simple(s *shop, price float64, pieces int) {
	for i, g := range s.p.goods {
		s.price[i] = max(1, int(float64(g.usual)*price))
		n := pieces
		if h := s.history[i]; len(h) >= 3 {
			n = 0
			for _, x := range h[max(0, len(h)-5):] {
				n += x.Sold + x.Missed
			}
			n = n*(g.suppliers[0].lead+2)/min(5, len(h)) + 1
		}
		n = min(n-s.stocked(i)-s.onTheWay(i), s.cash/2/g.suppliers[0].cost)
		if n > 0 && s.day < s.p.days-3 {
			if _, err := s.order(i, 0, n); err != nil {
				panic(err)
			}
		}
	}
}

// TestStrong: the policy behind a reward of 1 survives, earns much, and is better than
// what a careful player without its knowledge does, which is better than nothing.
func TestStrong(t *testing.T) {
	const seeds = uint64(12)
	for level := 1; level <= 5; level++ {
		for _, days := range []int{30, 60, 300} {
			sum, better := 0.0, 0
			for seed := range seeds {
				p := newPlan(seed, days, level)
				_, best := p.played()
				idle := p.idle()
				if idle <= 0 || best-idle < p.rent*days/10 {
					t.Errorf("level %d days %d seed %d: idle %d, strong %d, rent %d", level, days, seed, idle, best, p.rent*days)
				}
				top := 0.0
				for _, price := range []float64{0.8, 1, 1.2} {
					s := p.open()
					for !s.over() {
						simple(s, price, 20)
						s.nextDay()
					}
					top = max(top, float64(s.worth()-idle)/float64(best-idle))
				}
				sum += top / float64(seeds)
				if top > 1 {
					better++
				}
			}
			t.Logf("level %d, %d days: the best of three simple policies earns %.2f on average, more than 1 in %d of %d", level, days, sum, better, seeds)
			if sum > 0.85 || sum < 0.1 || better > int(seeds)/10 {
				t.Errorf("level %d, %d days: simple policies earn %.2f on average, and more than the strong one in %d of %d", level, days, sum, better, seeds)
			}
		}
	}
}

// TestBooks: cash and pieces add up, whatever is done.
func TestBooks(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPlan(seed, 40, 1+int(seed%5))
		s := p.open()
		cash := p.cash
		bought := make([]int, len(p.goods))
		late := 0
		for !s.over() {
			for range r.IntN(4) {
				i := r.IntN(len(p.goods))
				from := r.IntN(2)
				n := 1 + r.IntN(60)
				before := len(s.coming)
				day, err := s.order(i, from, n)
				if err != nil {
					continue
				}
				cash -= n * p.goods[i].suppliers[from].cost
				bought[i] += n
				if d := s.coming[before]; d.arrives > day {
					late++
					if p.goods[i].suppliers[from].delay == 0 {
						t.Fatalf("seed %d: a supplier who is never late is", seed)
					}
				}
			}
			if r.IntN(3) == 0 {
				s.price[r.IntN(len(s.price))] = 1 + r.IntN(3000)
			}
			s.nextDay()
			cash -= p.rent
			spoilt := s.spoilt
			for i := range p.goods {
				h := s.history[i][len(s.history[i])-1]
				if h.Day != s.day || h.Sold < 0 || h.Missed < 0 || h.Missed > 0 && s.stocked(i) > 0 {
					t.Fatalf("seed %d day %d: %+v with %d in stock", seed, s.day, h, s.stocked(i))
				}
				cash += h.Sold*h.Price - s.stocked(i)*p.fee
				sold := 0
				for _, x := range s.history[i] {
					sold += x.Sold
				}
				spoilt -= bought[i] - sold - s.stocked(i) - s.onTheWay(i)
			}
			if cash != s.cash || spoilt != 0 {
				t.Fatalf("seed %d day %d: cash %d, want %d; %d pieces too many spoilt", seed, s.day, s.cash, cash, spoilt)
			}
		}
		if s.closed != (s.cash < 0) {
			t.Fatalf("seed %d: closed %v with %d", seed, s.closed, s.cash)
		}
	}
}

// TestDemand: the draws have the mean that is expected, and fall as the price grows.
func TestDemand(t *testing.T) {
	for seed := range uint64(5) {
		p := newPlan(seed, 300, 4)
		for i, g := range p.goods {
			for _, price := range []int{g.usual / 2, g.usual, g.usual * 2} {
				want, got := 0.0, 0.0
				for day := 1; day <= 300; day++ {
					want += p.expected(i, day, price)
					got += float64(p.demand(i, day, price))
				}
				if math.Abs(got-want) > 5*math.Sqrt(want)+1 {
					t.Errorf("seed %d, %s at %d: %v customers, want about %v", seed, g.name, price, got, want)
				}
			}
			for day := 1; day <= 50; day++ {
				if p.demand(i, day, g.usual) < p.demand(i, day, g.usual*2) {
					t.Errorf("more customers at a higher price")
				}
			}
		}
	}
}

func rows(t *testing.T, e *Env, n int64) (out []datasets.Row) {
	t.Helper()
	return envtest.Rows(t, e, envs.Train, n)
}

func call(name, args string) trajectory.Call {
	return trajectory.Call{Name: name, Arguments: args}
}

// TestTools plays mistakes: they are reported to the model, counted, and change nothing.
func TestTools(t *testing.T) {
	e := open(t, Config{Level: 2, Days: 30})
	row := rows(t, e, 1)[0]
	task, err := e.Task(row)
	if err != nil {
		t.Fatal(err)
	}
	g := task.Hidden.(*scene).plan.goods[0]
	sup := g.suppliers[1]
	bad := []struct{ name, args, says string }{
		{"order", `{"good":"gold","supplier":"x","pieces":1}`, "no good"},
		{"order", fmt.Sprintf(`{"good":%q,"supplier":"x","pieces":1}`, g.name), "no supplier"},
		{"order", fmt.Sprintf(`{"good":%q,"supplier":%q,"pieces":%d}`, g.name, sup.name, sup.lot-1), "or more"},
		{"order", fmt.Sprintf(`{"good":%q,"supplier":%q,"pieces":99999}`, g.name, sup.name), "the shop has"},
		{"order", fmt.Sprintf(`{"good":%q,"supplier":%q,"pieces":4611686018427387904}`, g.name, sup.name), "nobody|anybody"},
		{"set_price", fmt.Sprintf(`{"good":%q,"price":0}`, g.name), "want 0.01"},
		{"set_price", fmt.Sprintf(`{"good":%q,"price":1e300}`, g.name), "want 0.01"},
		{"history", `{"good":"gold"}`, "no good"},
	}
	var turns []trajectory.Message
	for _, b := range bad {
		turns = append(turns, trajectory.Message{Calls: []trajectory.Call{call(b.name, b.args)}})
	}
	turns = append(turns,
		trajectory.Message{Calls: []trajectory.Call{call("status", "{}"), call("suppliers", "{}"), call("history", fmt.Sprintf(`{"good":%q}`, g.name))}})
	rec, err := play.Player{}.Play(t.Context(), e, row, 0, turns)
	if err != nil || rec.Score == nil {
		t.Fatal(err, rec.Reason)
	}
	var answers []string
	for _, m := range rec.Trace.Visible() {
		if m.Role == trajectory.Tool {
			answers = append(answers, m.Content())
		}
	}
	for i, b := range bad {
		ok := false
		for _, s := range strings.Split(b.says, "|") {
			ok = ok || strings.Contains(answers[i], s)
		}
		if !ok {
			t.Errorf("%s %s: %s, want %q", b.name, b.args, answers[i], b.says)
		}
	}
	if rec.Score.Reward != 0 || rec.Score.Parts["valid"] != 0 || rec.Score.Metrics["refused"] != 7 || rec.Score.Metrics["days_used"] != 0 {
		t.Errorf("%+v", rec.Score)
	}
	for _, secret := range []string{"elastic", "swing", "phase", "delay"} {
		if strings.Contains(strings.Join(answers, "\n"), secret) {
			t.Errorf("the tools tell %s", secret)
		}
	}
}

// TestHalfWay: the oracle's first days earn something, all of them 1, and after the end
// nothing can be done.
func TestHalfWay(t *testing.T) {
	e := open(t, Config{Level: 3, Days: 40})
	for _, row := range rows(t, e, 3) {
		task, err := e.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		gold, err := e.Oracle(task)
		if err != nil {
			t.Fatal(err)
		}
		reward := func(turns []trajectory.Message) *trajectory.Score {
			rec, err := play.Player{}.Play(t.Context(), e, row, 0, turns)
			if err != nil || rec.Score == nil {
				t.Fatal(err, rec.Reason)
			}
			return rec.Score
		}
		half := reward(gold[:20])
		if half.Reward <= 0.05 || half.Reward >= 0.95 || half.Metrics["days_used"] != 20 {
			t.Errorf("row %s, half of the days: %+v", row.ID, half)
		}
		sum, most := 0.0, 0.0
		for _, v := range half.Turns {
			sum, most = sum+v, max(most, math.Abs(v))
		}
		start := float64(task.Hidden.(*scene).plan.open().worth()) / 100
		if m := half.Metrics; len(half.Turns) != 21 || most == 0 || math.Abs(sum-(m["net_worth"]-start)/(m["strong"]-m["idle"])) > 1e-9 {
			t.Errorf("row %s: turns are paid %v in all, of a net worth from %v to %v: %v", row.ID, sum, start, m["net_worth"], half.Turns)
		}
		more := append(append([]trajectory.Message{}, gold[:len(gold)-1]...), trajectory.Message{Calls: []trajectory.Call{call("next_day", "{}")}},
			gold[len(gold)-1])
		if s := reward(more); s.Reward != 1 || s.Metrics["refused"] != 1 || s.Parts["survived"] != 1 {
			t.Errorf("row %s, a day too many: %+v", row.ID, s)
		}
	}
}

// TestBankrupt: the shop closes when all money is spent on goods that are too dear to sell.
func TestBankrupt(t *testing.T) {
	p := newPlan(3, 60, 2)
	s := p.open()
	g := p.goods[0]
	if _, err := s.order(0, 0, s.cash/g.suppliers[0].cost); err != nil {
		t.Fatal(err)
	}
	s.price[0] = maxPrice(g)
	s.finish()
	if !s.closed || s.day >= 60 {
		t.Errorf("closed %v on day %d with %d", s.closed, s.day, s.cash)
	}
	day := s.day
	if s.nextDay(); s.day != day {
		t.Error("a closed shop goes on")
	}
}

// TestLinear: a late day costs what an early one costs.
func TestLinear(t *testing.T) {
	cost := func(day int) (allocs float64, size int) {
		p := newPlan(5, 300, 5)
		ep := &episode{shop: p.open()}
		for ep.shop.day < day {
			for _, a := range strong(ep.shop, style{true, 1}) {
				if err := ep.shop.do(a); err != nil {
					t.Fatal(err)
				}
			}
			ep.shop.nextDay()
		}
		return testing.AllocsPerRun(20, func() { size = len(ep.nextDay().Text) }), size
	}
	early, small := cost(30)
	late, large := cost(270)
	if late > 1.5*early || large > small*3/2 {
		t.Errorf("day 30: %v allocations, %d bytes; day 270: %v and %d", early, small, late, large)
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{{Size: -1}, {Level: 6}, {Level: -1}, {Days: 29}, {Days: 301}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	e := open(t, Config{})
	if _, err := e.Task(datasets.Row{
		ID:    "x",
		Extra: map[string]json.RawMessage{"seed": []byte("1"), "level": []byte("1"), "days": []byte("9999")},
	}); err == nil {
		t.Error("9999 days are accepted")
	}
}

// BenchmarkPlayed is what a score costs beside the rollout.
func BenchmarkPlayed(b *testing.B) {
	p := newPlan(1, 300, 5)
	for b.Loop() {
		p.played()
	}
}

// BenchmarkTurn is a day of a rollout, as the tools play it.
func BenchmarkTurn(b *testing.B) {
	e, err := New(Config{Days: 300})
	if err != nil {
		b.Fatal(err)
	}
	task := envs.Task{Hidden: &scene{plan: newPlan(1, 300, 3)}}
	var next tool.Handler
	day := 300
	for b.Loop() {
		if day == 300 {
			defs, err := e.Tools(context.Background(), task, envs.World{State: &envs.State{}})
			if err != nil {
				b.Fatal(err)
			}
			next, err = defs[5].Open(nil)
			if err != nil {
				b.Fatal(err)
			}
			day = 0
		}
		if _, err := next(context.Background(), json.RawMessage("{}")); err != nil {
			b.Fatal(err)
		}
		day++
	}
}

// TestRuinPaysNothing: who spends all on the first day, so that the shop is closed before
// the rent is due, has less than who does nothing.
func TestRuinPaysNothing(t *testing.T) {
	ruined := 0
	for _, days := range []int{30, 120, 300} {
		for level := 1; level <= 5; level++ {
			p := newPlan(uint64(2*days), days, level)
			s := p.open()
			for i, g := range p.goods {
				if _, err := s.order(i, 0, s.cash/g.suppliers[0].cost/(len(p.goods)-i)); err != nil {
					t.Fatal(err)
				}
				s.price[i] = maxPrice(g)
			}
			if s.finish(); s.closed {
				ruined++
			}
			if s.closed && s.worth() > p.idle() {
				t.Errorf("%d days, level %d: ruin is worth %s, doing nothing %s", days, level, money(s.worth()), money(p.idle()))
			}
		}
	}
	if ruined < 10 {
		t.Errorf("%d shops were closed", ruined)
	}
}

// TestSplitsApart: no task of the evaluation occurs in training.
func TestSplitsApart(t *testing.T) { envtest.Apart(t, open(t, Config{}), 200) }
