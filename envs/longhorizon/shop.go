package longhorizon

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// good is something that the shop sells. base, elastic, swing and phase decide the demand;
// the model does not see them.
type good struct {
	name      string
	usual     int     // price in cents at which customers ask for base pieces a day
	base      float64 // pieces a day
	elastic   float64 // demand falls with (price/usual)^elastic
	swing     float64 // share by which the season moves the demand
	phase     int     // day of the season's height
	shelf     int     // days until a piece spoils; 0: never
	suppliers []supplier
}

// supplier sells a good to the shop.
type supplier struct {
	name  string
	cost  int // cents a piece
	lead  int // days
	lot   int // smallest order
	delay int // per cent of orders that come late, by 1 to 3 days
}

// event changes the demand for a good over some days. It is announced some days before.
type event struct {
	good, known, from, to int
	factor                float64
	text                  string
}

// plan is all that a seed and a level decide before the first day.
type plan struct {
	goods  []good
	events []event
	days   int
	cash   int // cents at the start
	rent   int // cents a day
	fee    int // cents a piece and day for storage
	seed   uint64
	means  [][]float64 // customers a day at the usual price, by good and day
	news   [][]string  // what is known, by the days that are over
}

// batch is pieces of one age.
type batch struct{ pieces, spoils int } // spoils: day on which they are thrown away; 0: never

// delivery is pieces on their way.
type delivery struct{ good, pieces, arrives, paid int }

// sales is what a day brought for one good.
type sales struct {
	Day    int `json:"day"`
	Price  int `json:"-"`
	Sold   int `json:"sold"`
	Missed int `json:"left_empty_handed"` // customers who found nothing
}

// shop is the state of an episode. The same plan and the same actions lead to the same
// shop; nothing else enters.
type shop struct {
	p       *plan
	day     int // days that are over
	cash    int
	price   []int
	stock   [][]batch
	coming  []delivery
	history [][]sales // by good
	closed  bool      // out of money
	orders  int       // so far, which decides about delays
	served  int
	missed  int
	spoilt  int
}

func (p *plan) open() *shop {
	s := &shop{p: p, cash: p.cash, price: make([]int, len(p.goods)), stock: make([][]batch, len(p.goods)), history: make([][]sales, len(p.goods))}
	for i, g := range p.goods {
		s.price[i] = g.usual
	}
	return s
}

// expected is the mean demand for a good on a day (1 to days) at a price.
func (p *plan) expected(good, day, price int) float64 {
	return p.means[good][day] * p.factor(good, price)
}

// factor is what a price does to the demand, compared with the usual one.
func (p *plan) factor(good, price int) float64 {
	g := p.goods[good]
	return math.Pow(float64(price)/float64(g.usual), -g.elastic)
}

// tabulate fills means and news, so that a day costs the same in long episodes and short.
func (p *plan) tabulate() {
	p.news = make([][]string, p.days+1)
	for _, g := range p.goods {
		list := make([]float64, p.days+1)
		for day := range list {
			list[day] = g.base * (1 + g.swing*math.Cos(2*math.Pi*float64(day-g.phase)/season))
		}
		p.means = append(p.means, list)
	}
	for _, e := range p.events {
		for day := e.from; day <= min(e.to, p.days); day++ {
			p.means[e.good][day] *= e.factor
		}
		for day := e.known - 1; day < min(e.to, p.days+1); day++ {
			p.news[day] = append(p.news[day], e.text)
		}
	}
}

// season is the length of the year of the shop in days.
const season = 30

// demand draws how many customers come. The draw depends on the day and the good alone,
// so that what the shop does moves the demand and not the luck.
func (p *plan) demand(good, day, price int) int {
	r := rand.New(rand.NewPCG(p.seed, uint64(day)<<8|uint64(good)))
	u, mean := r.Float64(), p.expected(good, day, price)
	if mean > 500 { // a normal draw is close enough, and exp does not vanish
		return max(0, int(mean+math.Sqrt(mean)*math.Sqrt2*math.Erfinv(2*u-1)))
	}
	n, chance := 0, math.Exp(-mean)
	for sum := chance; sum < u && n < 2000; sum += chance {
		n++
		chance *= mean / float64(n)
	}
	return n
}

func (s *shop) over() bool { return s.closed || s.day >= s.p.days }

// order buys pieces; they are paid at once.
func (s *shop) order(good, from, pieces int) (arrives int, err error) {
	sup := s.p.goods[good].suppliers[from]
	switch cost := pieces * sup.cost; {
	case pieces < sup.lot:
		return 0, fmt.Errorf("%s sells %d pieces or more, not %d", sup.name, sup.lot, pieces)
	case pieces > 100_000:
		return 0, fmt.Errorf("%d pieces are more than anybody has", pieces)
	case cost > s.cash:
		return 0, fmt.Errorf("%d pieces cost %s, the shop has %s", pieces, money(cost), money(s.cash))
	default:
		s.cash -= cost
		late := 0
		if r := rand.New(rand.NewPCG(s.p.seed+1, uint64(s.orders))); r.IntN(100) < sup.delay {
			late = 1 + r.IntN(3)
		}
		s.orders++
		s.coming = append(s.coming, delivery{good, pieces, s.day + sup.lead + late, cost})
		return s.day + sup.lead, nil
	}
}

// stocked is how many pieces of a good lie in the shop.
func (s *shop) stocked(good int) (n int) {
	for _, b := range s.stock[good] {
		n += b.pieces
	}
	return n
}

// nextDay lets a day pass: deliveries come in the morning, customers buy, old pieces are
// thrown away in the evening, rent and storage are paid.
func (s *shop) nextDay() {
	if s.over() {
		return
	}
	s.day++
	s.coming = slices.DeleteFunc(s.coming, func(d delivery) bool {
		if d.arrives > s.day {
			return false
		}
		b := batch{pieces: d.pieces}
		if shelf := s.p.goods[d.good].shelf; shelf > 0 {
			b.spoils = s.day + shelf - 1
		}
		s.stock[d.good] = append(s.stock[d.good], b)
		return true
	})
	for i := range s.p.goods {
		asked := s.p.demand(i, s.day, s.price[i])
		sold := min(asked, s.stocked(i))
		s.take(i, sold)
		s.cash += sold * s.price[i]
		s.served, s.missed = s.served+sold, s.missed+asked-sold
		s.history[i] = append(s.history[i], sales{s.day, s.price[i], sold, asked - sold})
		s.stock[i] = slices.DeleteFunc(s.stock[i], func(b batch) bool {
			if old := b.spoils > 0 && b.spoils <= s.day; old {
				s.spoilt += b.pieces
				return true
			}
			return b.pieces == 0
		})
		s.cash -= s.stocked(i) * s.p.fee
	}
	s.cash -= s.p.rent
	s.closed = s.cash < 0
}

// take sells the oldest pieces first.
func (s *shop) take(good, pieces int) {
	for j := range s.stock[good] {
		n := min(pieces, s.stock[good][j].pieces)
		s.stock[good][j].pieces -= n
		pieces -= n
	}
}

// worth is the cash, and half of what the goods cost that lie in the shop or are on their
// way. A shop that was closed owes the rent of the days that are left: who runs into ruin
// gets away with nothing that who stays open pays.
func (s *shop) worth() int {
	sum := s.cash
	if s.closed {
		sum -= (s.p.days - s.day) * s.p.rent
	}
	for i, g := range s.p.goods {
		cheapest := g.suppliers[0].cost
		for _, sup := range g.suppliers {
			cheapest = min(cheapest, sup.cost)
		}
		sum += s.stocked(i) * cheapest / 2
	}
	for _, d := range s.coming {
		sum += d.paid / 2
	}
	return sum
}

// finish lets the rest of the days pass without anybody doing anything.
func (s *shop) finish() {
	for !s.over() {
		s.nextDay()
	}
}

// copied is a separate shop, over the same plan.
func (s *shop) copied() *shop {
	c := *s
	c.price, c.coming = slices.Clone(s.price), slices.Clone(s.coming)
	c.stock, c.history = slices.Clone(s.stock), slices.Clone(s.history)
	for i := range c.stock {
		c.stock[i], c.history[i] = slices.Clone(s.stock[i]), slices.Clone(s.history[i])
	}
	return &c
}

func money(cents int) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return fmt.Sprintf("%s%d.%02d", sign, cents/100, cents%100)
}
