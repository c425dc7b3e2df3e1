package longhorizon

import (
	"fmt"
	"math/rand/v2"
)

// newPlan draws a shop. A higher level has more goods and, one after the other, seasons
// (2), events and goods that spoil (3), suppliers that are late (4), and little money (5).
func newPlan(seed uint64, days, level int) *plan {
	r := rand.New(rand.NewPCG(seed, uint64(level)))
	p := &plan{days: days, seed: seed, rent: 1500 + 500*level, fee: 1}
	names := []string{"tea", "candles", "bread", "lamps", "apples", "kites", "honey"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	trade := 0.0 // cents a day, for what the shop has to begin with
	for _, name := range names[:1+level] {
		g := good{name: name, usual: 200 + r.IntN(1800), base: 6 + 18*r.Float64(), elastic: 1.6 + 1.4*r.Float64()}
		near := supplier{name: "Nearby " + name, cost: g.usual * (45 + r.IntN(15)) / 100, lead: 1 + r.IntN(2), lot: 1}
		far := supplier{name: "Faraway " + name, cost: near.cost * (65 + r.IntN(15)) / 100, lead: 4 + r.IntN(4), lot: 10 + r.IntN(20)}
		if level >= 2 {
			g.swing, g.phase = 0.2+0.4*r.Float64(), r.IntN(season)
		}
		if level >= 3 && r.IntN(2) == 0 {
			g.shelf = 4 + r.IntN(8)
		}
		if level >= 4 {
			far.delay = 20 + r.IntN(30)
		}
		g.suppliers = []supplier{near, far}
		trade += g.base * float64(near.cost)
		p.goods = append(p.goods, g)
	}
	if level >= 3 {
		p.announce(r, level)
	}
	stock := 6 // days for which the first money buys goods
	if level >= 5 {
		stock = 3
	}
	p.cash = days*p.rent + stock*int(trade)
	p.tabulate()
	return p
}

// announce draws events, which do not overlap for one good.
func (p *plan) announce(r *rand.Rand, level int) {
	for i, g := range p.goods {
		for day := 5 + r.IntN(15); day < p.days; day += 12 + r.IntN(60/level) {
			e := event{good: i, from: day, to: day + 1 + r.IntN(5), known: max(1, day-1-r.IntN(7)), factor: 2 + 2*r.Float64(), text: "A fair comes: many more people than usual will want %s from day %d to day %d."}
			if r.IntN(3) == 0 {
				e.factor, e.text = 0.1+0.3*r.Float64(), "Roadworks: far fewer people than usual will want %s from day %d to day %d."
			}
			e.text = fmt.Sprintf(e.text, g.name, e.from, e.to)
			p.events = append(p.events, e)
			day = e.to
		}
	}
}
