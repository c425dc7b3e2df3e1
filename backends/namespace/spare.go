//go:build linux

package namespace

import (
	"context"
	"encoding/json"
	"sync"
)

// One box is always made ahead. Where the last two boxes were asked for with the same
// plan, it is built to that plan, so that Open has nothing left to do; else it is a
// process with its own namespaces that waits for its plan. A box with an image is not
// built ahead: the image may change or go. Where most boxes came to need slotd, it is
// brought in ahead too.

// usual is the plan that is asked for again and again.
type usual struct {
	mu    sync.Mutex
	last  string // key of the last plan
	again bool   // it was also the last but one
	plan  plan
	needs int // how far the last boxes needed slotd: 0 to mostNeeds
}

// Of the last boxes a few more must have needed slotd than not for it to be brought in ahead.
const (
	manyNeeds = 2
	mostNeeds = 4
)

// ended notes whether a box had needed slotd.
func (u *usual) ended(needed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if needed {
		u.needs = min(u.needs+1, mostNeeds)
	} else {
		u.needs = max(u.needs-1, 0)
	}
}

// key names plans that make the same box; "" is never met again.
func (p plan) key() string {
	if p.Image {
		return ""
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	return string(raw)
}

// asked notes a plan.
func (u *usual) asked(p plan) (key string) {
	key = p.key()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last, u.again, u.plan = key, key != "" && key == u.last, p
	return key
}

// next is the plan to build ahead, if there is one, and whether slotd will be needed.
func (u *usual) next() (p plan, key string, needed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.again {
		return plan{}, "", false
	}
	return u.plan, u.last, u.needs >= manyNeeds
}

// blank returns a box that waits for its plan, or is built to the one with this key.
func (b *Backend) blank(ctx context.Context, key string) (*box, error) {
	if x := b.ahead(ctx); x != nil {
		select {
		case <-x.gone: // somebody killed it
			x.end(context.Background())
		default:
			if x.key == "" || x.key == key {
				return x, nil
			}
			x.end(context.Background()) // built to another plan
		}
	}
	return b.clone()
}

// ahead takes the spare, or waits for the one that is being made: it was begun earlier
// than one that would be begun now, and two at once take each other's time. Only one
// caller waits.
func (b *Backend) ahead(ctx context.Context) *box {
	select {
	case x := <-b.spare:
		return x
	default:
	}
	made := b.making.Load()
	if made == nil || !b.waiting.CompareAndSwap(false, true) {
		return nil
	}
	defer b.waiting.Store(false)
	select {
	case x := <-b.spare:
		return x
	case <-*made:
	case <-ctx.Done():
	}
	select {
	case x := <-b.spare:
		return x
	default: // it could not be made, or another caller has it
		return nil
	}
}

// makeAhead begins to make the next spare, unless one is being made.
func (b *Backend) makeAhead() {
	made := make(chan struct{})
	if !b.making.CompareAndSwap(nil, &made) {
		return
	}
	b.spares.Go(func() {
		defer close(made)
		x := b.prepare()
		b.making.Store(nil) // before x is had: whoever takes it has the next one made
		if x == nil {
			return
		}
		select {
		case b.spare <- x:
		default:
			x.end(context.Background())
		}
	})
}

// prepare makes the next spare, so that a single Open need not wait for the kernel; nil
// when there is one, or none can be made: the next Open will say why.
func (b *Backend) prepare() *box {
	if len(b.spare) > 0 {
		return nil
	}
	x, err := b.clone()
	if err != nil {
		return nil
	}
	if p, key, needed := b.usual.next(); key != "" {
		err := x.setUp(context.Background(), p, -1)
		if err == nil && needed {
			err = x.wake(context.Background())
		}
		if err != nil {
			x.end(context.Background())
			return nil
		}
		x.key = key
	}
	return x
}
