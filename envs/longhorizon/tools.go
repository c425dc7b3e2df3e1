package longhorizon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

type stateKey struct{}

// episode is the shop of one rollout and what the model did to it.
type episode struct {
	mu      sync.Mutex
	shop    *shop
	actions int // orders, prices and days
	refused int
	last    int       // net worth behind the turns that are paid
	turns   []float64 // cents that each turn won
}

func stateOf(t envs.Task, w envs.World) *episode {
	return w.State.Get(stateKey{}, func() any {
		s := t.Hidden.(*scene).plan.open()
		return &episode{shop: s, last: s.worth()}
	}).(*episode)
}

// pay notes the net worth behind a turn of the model, or behind the last one. The caller
// holds the lock.
func (ep *episode) pay(turn, worth int) {
	for len(ep.turns) < turn {
		ep.turns = append(ep.turns, 0)
	}
	if turn > 0 {
		ep.turns[turn-1] += float64(worth - ep.last)
		ep.last = worth
	}
}

// params are the properties of a tool's arguments; all are required.
func params(text string, required ...string) json.RawMessage {
	if required == nil {
		required = []string{}
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s,"additionalProperties":false}`, text, tool.JSON(required)))
}

// Tools act on this rollout's own shop, one call after the other.
func (e *Env) Tools(_ context.Context, t envs.Task, w envs.World) ([]tool.Def, error) {
	ep := stateOf(t, w)
	def := func(name, about string, parameters json.RawMessage, reads bool, h tool.Handler) tool.Def {
		return tool.Def{Spec: trajectory.ToolSpec{Name: name, Description: about, Parameters: parameters}, Toolset: "shop", Traits: tool.Traits{ReadOnly: reads},
			Open: func(*tool.Scope) (tool.Handler, error) { return h, nil }}
	}
	goodText := `"good":{"type":"string","description":"name of a good"}`
	return []tool.Def{
		def("suppliers", "Lists for every good who sells it to the shop: cost of a piece, days until it comes, smallest order; and how many days pieces keep.", params(""), true,
			tool.Typed(func(context.Context, struct{}) (tool.Result, error) { return ep.look((*shop).offers), nil })),
		def("status", "Shows day, cash, prices, stock, what is on its way, and news.", params(""), true,
			tool.Typed(func(context.Context, struct{}) (tool.Result, error) { return ep.look((*shop).status), nil })),
		def("history", "Shows prices and sales of a good, and customers who found none, of the last days, 30 at most.", params(goodText, "good"), true,
			tool.Typed(func(_ context.Context, a struct{ Good string }) (tool.Result, error) { return ep.past(a.Good), nil })),
		def("order", "Orders pieces of a good from a supplier. They are paid now and come later.",
			params(goodText+`,"supplier":{"type":"string"},"pieces":{"type":"integer","minimum":1}`, "good", "supplier", "pieces"), false,
			tool.Typed(func(_ context.Context, a purchase) (tool.Result, error) { return ep.order(a), nil })),
		def("set_price", "Sets the price of a good, such as 4.50, from now on.", params(goodText+`,"price":{"type":"number"}`, "good", "price"), false,
			tool.Typed(func(_ context.Context, a struct {
				Good  string
				Price float64
			}) (tool.Result, error) {
				return ep.setPrice(a.Good, a.Price), nil
			})),
		def("next_day", "Lets one day pass: deliveries come, customers buy, rent and storage are paid. Reports the day.", params(""), false,
			tool.Typed(func(context.Context, struct{}) (tool.Result, error) { return ep.nextDay(), nil })),
	}, nil
}

func (ep *episode) look(at func(*shop) any) tool.Result {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return tool.Result{Text: tool.JSON(at(ep.shop))}
}

// act does something that counts as an action; an error is returned to the model.
func (ep *episode) act(do func(s *shop) (any, error)) tool.Result {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.actions++
	var out any
	err := error(nil)
	switch s := ep.shop; {
	case s.closed:
		err = fmt.Errorf("the shop ran out of money on day %d and is closed", s.day)
	case s.over():
		err = fmt.Errorf("the %d days are over", s.p.days)
	default:
		out, err = do(s)
	}
	if err != nil {
		ep.refused++
		return tool.Errorf("%v", err)
	}
	return tool.Result{Text: tool.JSON(out)}
}

func (s *shop) find(name string) (int, error) {
	var names []string
	for i, g := range s.p.goods {
		if strings.EqualFold(g.name, strings.TrimSpace(name)) {
			return i, nil
		}
		names = append(names, g.name)
	}
	return 0, fmt.Errorf("no good %q: have %s", name, strings.Join(names, ", "))
}

type purchase struct {
	Good     string
	Supplier string
	Pieces   int
}

func (ep *episode) order(a purchase) tool.Result {
	return ep.act(func(s *shop) (any, error) {
		i, err := s.find(a.Good)
		if err != nil {
			return nil, err
		}
		for from, sup := range s.p.goods[i].suppliers {
			if strings.EqualFold(sup.name, strings.TrimSpace(a.Supplier)) {
				day, err := s.order(i, from, a.Pieces)
				return map[string]any{"paid": money(a.Pieces * sup.cost), "cash": money(s.cash), "comes_on_day": day}, err
			}
		}
		return nil, fmt.Errorf("no supplier %q sells %s", a.Supplier, a.Good)
	})
}

func (ep *episode) setPrice(name string, price float64) tool.Result {
	return ep.act(func(s *shop) (any, error) {
		i, err := s.find(name)
		if err != nil {
			return nil, err
		}
		if top := maxPrice(s.p.goods[i]); !(price >= 0.01) || price*100 > float64(top) {
			return nil, fmt.Errorf("price %v: want 0.01 to %s", price, money(top))
		}
		s.price[i] = int(price*100 + 0.5)
		return map[string]any{"good": s.p.goods[i].name, "price": money(s.price[i])}, nil
	})
}

func (ep *episode) nextDay() tool.Result {
	return ep.act(func(s *shop) (any, error) {
		s.nextDay()
		report := s.status().(map[string]any)
		switch {
		case s.closed:
			report["end"] = "The shop is out of money and closed."
		case s.over():
			report["end"] = "That was the last day."
		}
		return report, nil
	})
}

func (ep *episode) past(name string) tool.Result {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	i, err := ep.shop.find(name)
	if err != nil {
		return tool.Errorf("%v", err)
	}
	type line struct {
		sales
		Price string `json:"price"`
	}
	list := []line{}
	all := ep.shop.history[i]
	for _, x := range all[max(0, len(all)-30):] {
		list = append(list, line{x, money(x.Price)})
	}
	return tool.Result{Text: tool.JSON(list)}
}

// offers is what suppliers ask, for the model.
func (s *shop) offers() any {
	type offer struct {
		Supplier string `json:"supplier"`
		Cost     string `json:"cost"`
		Days     int    `json:"days_until_it_comes"`
		Least    int    `json:"smallest_order"`
		Often    string `json:"reliability,omitempty"`
	}
	out := map[string]any{}
	for _, g := range s.p.goods {
		var list []offer
		for _, sup := range g.suppliers {
			o := offer{Supplier: sup.name, Cost: money(sup.cost), Days: sup.lead, Least: sup.lot}
			if sup.delay > 0 {
				o.Often = "sometimes late"
			}
			list = append(list, o)
		}
		about := map[string]any{"offers": list, "usual_price": money(g.usual)}
		if g.shelf > 0 {
			about["keeps_days"] = g.shelf
		}
		out[g.name] = about
	}
	return out
}

// status is what the model sees of a day. Its size does not grow with the days.
func (s *shop) status() any {
	type shelf struct {
		Price  string `json:"price"`
		Stock  int    `json:"stock"`
		Coming int    `json:"on_its_way"`
		Sold   int    `json:"sold_today"`
		Missed int    `json:"left_empty_handed_today"`
	}
	goods := map[string]shelf{}
	for i, g := range s.p.goods {
		x := shelf{Price: money(s.price[i]), Stock: s.stocked(i), Coming: s.onTheWay(i)}
		if n := len(s.history[i]); n > 0 {
			x.Sold, x.Missed = s.history[i][n-1].Sold, s.history[i][n-1].Missed
		}
		goods[g.name] = x
	}
	news := append([]string{}, s.p.news[s.day]...)
	return map[string]any{"days_over": s.day, "days_left": s.p.days - s.day, "cash": money(s.cash), "net_worth": money(s.worth()), "goods": goods, "news": news}
}
