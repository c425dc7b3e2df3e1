package chat

import (
	"cmp"
	"slices"
	"strings"

	"hermes/rollout/policy/finish"
	"hermes/rollout/policy/loose"
)

// piece is a piece of a call's arguments.
type piece struct {
	text  string
	index loose.Place
	tail  bool // it came with neither id nor name
	nth   int  // among the pieces of the answer
}

// settle puts the calls of a stream right whose arguments are no JSON as they were put
// together, where the server's way of sending them explains it. What is JSON stays as it is,
// but for pieces that were sent to places without a call. What the server mixed up beyond
// telling is no fault of the model's: see failed.
func (a *answer) settle() {
	a.heads()
	for _, p := range a.calls {
		p.settle()
	}
	if !a.stray || len(a.calls) < 2 || a.dealt() {
		return
	}
	for i, p := range a.calls {
		if !p.usable() && !(a.broken() && i == len(a.calls)-1) {
			a.mixed = true
		}
	}
}

// heads takes out the head of a call that the server began again with its first piece, as one
// does that gives every piece a new id.
func (a *answer) heads() {
	for i := 0; i+1 < len(a.calls); i++ {
		p, next := a.calls[i], a.calls[i+1]
		if p.args.Len() == 0 && next.fresh && p.name == next.name && p.index == next.index {
			next.id = p.id
			a.calls = slices.Delete(a.calls, i, i+1)
		}
	}
}

// usable reports whether the arguments are an object, or none.
func (p *partial) usable() bool { return strings.TrimSpace(p.args.String()) == "" || p.whole() }

// broken reports whether the answer was cut, so that its last call need not be complete.
func (a *answer) broken() bool {
	kind := finish.Of(a.finish)
	return kind != finish.Stop && kind != finish.Calls
}

func (p *partial) set(args string) {
	p.args.Reset()
	p.args.WriteString(args)
}

// settle takes out of the arguments of one call what the server said twice, and the empty
// object that means "none yet" or "no more".
func (p *partial) settle() {
	n := len(p.said)
	if n < 2 || p.whole() {
		return
	}
	list := p.said
	for len(list) > 1 && strings.TrimSpace(list[len(list)-1].text) == "{}" {
		list = list[:len(list)-1]
	}
	for len(list) > 1 && strings.TrimSpace(list[0].text) == "{}" {
		list = list[1:]
	}
	for len(list) > 2 && list[len(list)-1].text == list[len(list)-2].text && isObject(list[len(list)-1].text) {
		list = list[:len(list)-1]
	}
	if len(list) < n && isObject(text(list)) {
		p.set(text(list))
		return
	}
	last := list[len(list)-1].text
	if !isObject(last) || len(list) < 2 {
		return
	}
	if before := text(list[:len(list)-1]); extends(last, before) || growing(list) {
		p.set(last)
	}
}

// growing reports whether each piece begins with the one before it.
func growing(list []piece) bool {
	for i := 1; i < len(list); i++ {
		if !extends(list[i].text, list[i-1].text) {
			return false
		}
	}
	return true
}

// extends reports whether s begins with head, which may end with half a character.
func extends(s, head string) bool {
	if n := len(head) - 3; n >= 0 {
		if r, ok := loose.Half(head[n:]); ok && r < 0xdc00 {
			head = head[:n]
		}
	}
	return strings.HasPrefix(loose.Mend(s), loose.Mend(head))
}

func text(list []piece) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.text)
	}
	return b.String()
}

// dealt gives the tails of calls to their heads in order, where places were named that
// have no call: as many places as calls that were not complete with their heads, in rising
// order, and each tail completes its head. It reports whether it could.
func (a *answer) dealt() bool {
	var open []*partial // the calls that wait for a tail
	var heads []string
	var all []piece
	for _, p := range a.calls {
		head := ""
		if len(p.said) == 0 {
			head = p.args.String()
		}
		for _, s := range p.said {
			if s.tail {
				all = append(all, s)
			} else {
				head += s.text
			}
		}
		if !isObject(head) {
			open, heads = append(open, p), append(heads, head)
		}
	}
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.nth, b.nth) })
	var places []int
	tails := map[int]string{}
	for _, s := range all {
		if !s.index.Known {
			return false
		}
		if !slices.Contains(places, s.index.N) {
			places = append(places, s.index.N)
		}
		tails[s.index.N] += s.text
	}
	if len(places) != len(open) || !slices.IsSorted(places) {
		return false
	}
	for i, p := range open {
		if !isObject(heads[i]+tails[places[i]]) && !(a.broken() && p == a.calls[len(a.calls)-1]) {
			return false
		}
	}
	for i, p := range open {
		p.set(heads[i] + tails[places[i]])
	}
	return true
}
