package longhorizon

import "math"

// action is one thing that a policy does before a day passes.
type action struct {
	good   int
	price  int // 0: an order
	from   int // supplier
	pieces int
}

// style is how the policy trades; which style is best depends on the money at the start and
// on the days that there are.
type style struct {
	far    bool    // orders from afar too
	markup float64 // on the price that earns most while goods never run out
}

func styles() []style {
	return []style{{true, 1}, {true, 1.15}, {true, 1.35}, {false, 1}, {false, 1.15}}
}

// strong is a policy that knows the mean demand of every day and when deliveries come,
// though not who will come. It sets the price that earns most; it orders from afar what
// will be wanted from the day on which that can be there, and from nearby what is missing
// until then.
func strong(s *shop, y style) (out []action) {
	cash, left := s.cash, s.p.days-s.day
	buy := func(good, from, pieces int) {
		sup := s.p.goods[good].suppliers[from]
		// The rent is due until what is ordered is sold.
		purse := cash - s.p.rent*min(left, sup.lead+4)
		pieces = min(pieces, purse/sup.cost)
		if pieces >= sup.lot {
			out = append(out, action{good: good, from: from, pieces: pieces})
			cash -= pieces * sup.cost
		}
	}
	for i, g := range s.p.goods {
		near, far := g.suppliers[0], g.suppliers[1]
		span := 1 + int(float64(far.lot)/g.base) // days that the smallest order lasts
		usable := y.far && s.day+far.lead < s.p.days && (g.shelf == 0 || 2*span <= g.shelf)
		cost := near.cost
		if usable {
			cost = far.cost
		}
		// (price-cost)·price^-e is greatest at cost·e/(e-1).
		price := max(near.cost+1, min(int(y.markup*float64(cost)*g.elastic/(g.elastic-1)), maxPrice(g)))
		if price != s.price[i] {
			out = append(out, action{good: i, price: price})
		}
		if missing := s.missing(i, near.lead, 1, price, 1); missing > 0 {
			buy(i, 0, missing)
		}
		if usable {
			buy(i, 1, s.missing(i, far.lead, span+far.delay/20, price, 0.7))
		}
	}
	return out
}

// missing is how many pieces of a good will be wanted on span days from the day on which an
// order with this lead time comes, beyond what will be there then; luck is how many
// standard deviations of the demand until then are wanted more.
func (s *shop) missing(good, lead, span, price int, luck float64) int {
	there, sure := float64(s.stocked(good)), 0.0
	from, factor := s.day+lead, s.p.factor(good, price)
	if from > s.p.days {
		return 0
	}
	for day := s.day + 1; day < from; day++ {
		want := s.p.means[good][day] * factor
		sure += want
		there = max(0, there+s.comes(good, day)-want)
	}
	want := 0.0
	for day := from; day < from+span; day++ {
		there += s.comes(good, day)
		if day <= s.p.days {
			want += s.p.means[good][day] * factor
		}
	}
	if from+span > s.p.days {
		luck /= 3 // what is left over at the end has lost half of its cost
	}
	return int(want + luck*math.Sqrt(want+sure) - there)
}

// comes is how many pieces of a good come on a day.
func (s *shop) comes(good, day int) float64 {
	n := 0
	for _, d := range s.coming {
		if d.good == good && d.arrives == day {
			n += d.pieces
		}
	}
	return float64(n)
}

func (s *shop) onTheWay(good int) (n int) {
	for _, d := range s.coming {
		if d.good == good {
			n += d.pieces
		}
	}
	return n
}

// maxPrice is the highest price that the shop may ask: ten times the usual one.
func maxPrice(g good) int { return 10 * g.usual }

// do takes an action.
func (s *shop) do(a action) error {
	if a.price > 0 {
		s.price[a.good] = a.price
		return nil
	}
	_, err := s.order(a.good, a.from, a.pieces)
	return err
}

// played is what the policy does in its best style, day by day, and the net worth that it
// ends with, which is a reward of 1.
func (p *plan) played() (days [][]action, worth int) {
	for i, y := range styles() {
		s := p.open()
		var all [][]action
		for !s.over() {
			now := strong(s, y)
			for _, a := range now {
				if err := s.do(a); err != nil {
					panic("the strong policy: " + err.Error()) // it asks for nothing that it cannot have
				}
			}
			all = append(all, now)
			s.nextDay()
		}
		if w := s.worth(); i == 0 || w > worth {
			days, worth = all, w
		}
	}
	return days, worth
}

// idle is the net worth that doing nothing ends with.
func (p *plan) idle() int {
	s := p.open()
	s.finish()
	return s.worth()
}
