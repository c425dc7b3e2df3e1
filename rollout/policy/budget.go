package policy

import (
	"fmt"
	"sync"
	"time"

	"hermes/trajectory"
)

// Limits of a run; zero means none.
type Limits struct {
	USD    float64
	Tokens int64 // prompt and completion
	Time   time.Duration
}

// Spending is the budget that the policies of a run share. Once a limit is reached no
// new request is sent; those in flight end. A nil budget has no limits. It is safe for
// concurrent use.
type Spending struct {
	limits Limits
	start  time.Time

	mu   sync.Mutex
	used trajectory.Usage
}

// NewBudget begins a budget; its time runs from now. Call [Spending.Spend] with what an earlier
// start of the same run used.
func NewBudget(l Limits) (*Spending, error) {
	if l.USD < 0 || l.Tokens < 0 || l.Time < 0 {
		return nil, fmt.Errorf("budget %+v: a limit is negative", l)
	}
	return &Spending{limits: l, start: time.Now()}, nil
}

// Spend adds what an answer used, bought now or before.
func (b *Spending) Spend(u trajectory.Usage) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = b.used.Add(u)
}

// InDollars reports whether there is a limit in dollars.
func (b *Spending) InDollars() bool { return b != nil && b.limits.USD > 0 }

// Used is what was spent so far.
func (b *Spending) Used() trajectory.Usage {
	if b == nil {
		return trajectory.Usage{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Admit returns an *Error of kind Budget once a limit is reached.
func (b *Spending) Admit() error {
	if b == nil {
		return nil
	}
	u, l := b.Used(), b.limits
	over := ""
	switch {
	case l.USD > 0 && u.Cost >= l.USD:
		over = fmt.Sprintf("%.4f of %.4f dollars are spent", u.Cost, l.USD)
	case l.Tokens > 0 && u.Prompt+u.Completion >= l.Tokens:
		over = fmt.Sprintf("%d of %d tokens are used", u.Prompt+u.Completion, l.Tokens)
	case l.Time > 0 && time.Since(b.start) >= l.Time:
		over = fmt.Sprintf("%s of %s have passed", time.Since(b.start).Round(time.Second), l.Time)
	default:
		return nil
	}
	return &Error{Kind: Budget, Err: fmt.Errorf("the run's budget: %s", over)}
}

// Price is in US dollars for a million tokens. Cached tokens cost Prompt where Cached is nil.
type Price struct {
	Prompt     float64
	Completion float64
	Cached     *float64
}

// Charge fills in the cost where the server reported none.
func (p *Price) Charge(u trajectory.Usage) trajectory.Usage {
	if p == nil || u.CostKnown {
		return u
	}
	cached := p.Prompt
	if p.Cached != nil {
		cached = *p.Cached
	}
	u.Cost = (float64(u.Prompt-u.Cached)*p.Prompt + float64(u.Cached)*cached + float64(u.Completion)*p.Completion) / 1e6
	u.CostKnown = true
	return u
}
