package exact

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// prompt is the growing sequence of one rollout: its tokens, which are those of the
// trace, and their spelling as JSON. A token is spelled once and never copied; what was
// spelled is never changed, because a broken request may still be read by the transport
// when the next one is built.
type prompt struct {
	at      []place
	rest    []place // what belongs to no message: an answer that the server aborted
	n       int     // tokens
	seed    [32]byte
	sum     *wire.Digest
	buf     []byte
	spelled int64        // bytes
	sent    atomic.Int64 // the transport may ask for a body again by itself
}

// place is one message: its node (None while it is not committed), its tokens and their
// spelling with the comma before it, and the number and the digest of all tokens up to
// its end.
type place struct {
	node   trajectory.NodeID
	tokens []trajectory.Token
	text   []byte
	end    int
	chain  [32]byte
}

func newPrompt(seed [32]byte) *prompt { return &prompt{seed: seed, sum: wire.NewDigest("")} }

// Len is the number of tokens.
func (p *prompt) Len() int { return p.n }

// IDs are the tokens, a copy.
func (p *prompt) IDs() []trajectory.Token {
	out := make([]trajectory.Token, 0, p.n)
	for _, list := range [][]place{p.at, p.rest} {
		for _, x := range list {
			out = append(out, x.tokens...)
		}
	}
	return out
}

// last is the last token.
func (p *prompt) last() (trajectory.Token, bool) {
	for i := len(p.at) - 1; i >= 0; i-- {
		if n := len(p.at[i].tokens); n > 0 {
			return p.at[i].tokens[n-1], true
		}
	}
	return 0, false
}

// committed is the number of tokens of the first n messages.
func (p *prompt) committed(n int) int {
	if n == 0 {
		return 0
	}
	return p.at[n-1].end
}

// chain is the digest of all tokens, by messages.
func (p *prompt) chain() [32]byte {
	if len(p.at) == 0 {
		return p.seed
	}
	return p.at[len(p.at)-1].chain
}

// hold makes the i-th message that of node id with these tokens, which must not change any
// more. It keeps what is there if that is the same, else it cuts there.
func (p *prompt) hold(i int, id trajectory.NodeID, tokens []trajectory.Token) {
	if i < len(p.at) {
		if p.at[i].node == id && id != trajectory.None {
			return
		}
		if p.at[i].node == trajectory.None && same(p.at[i].tokens, tokens) {
			p.at[i].node = id
			return
		}
	}
	p.cut(i)
	before := p.chain()
	x := p.spell(tokens)
	p.sum.Reset("tokens")
	p.sum.Digest(before)
	p.hash(x)
	x.node, x.chain = id, p.sum.Sum()
	p.at = append(p.at, x)
}

// same reports whether two lists hold the same tokens; most often they are one list.
func same(a, b []trajectory.Token) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

func (p *prompt) hash(list ...place) {
	n := 0
	for _, x := range list {
		n += 4 * len(x.tokens)
	}
	p.buf = slices.Grow(p.buf[:0], n)[:n]
	rest := p.buf
	for _, x := range list {
		for _, t := range x.tokens {
			binary.LittleEndian.PutUint32(rest, uint32(t))
			rest = rest[4:]
		}
	}
	p.sum.Bytes(p.buf)
}

// spell is the place of tokens behind all others.
func (p *prompt) spell(tokens []trajectory.Token) place {
	text := make([]byte, 0, 1+trajectory.DecimalLen(tokens))
	if p.n > 0 && len(tokens) > 0 {
		text = append(text, ',')
	}
	text = trajectory.AppendDecimal(text, tokens)
	p.spelled += int64(len(text))
	p.n += len(tokens)
	return place{node: trajectory.None, tokens: tokens, text: text, end: p.n}
}

// goOn appends tokens that belong to no message yet.
func (p *prompt) goOn(tokens []trajectory.Token) { p.rest = append(p.rest, p.spell(tokens)) }

// cut drops messages from the i-th on, and tokens that belong to none.
func (p *prompt) cut(i int) {
	i = min(i, len(p.at))
	clear(p.at[i:])
	p.at, p.rest, p.n = p.at[:i], nil, p.committed(i)
}

// Body is a fresh reader of a request: head, the spelling of all tokens, tail.
func (p *prompt) Body(head, tail []byte) func() wire.Body {
	list := append(make([][]byte, 0, len(p.at)+len(p.rest)+2), head)
	for _, places := range [][]place{p.at, p.rest} {
		for _, x := range places {
			list = append(list, x.text)
		}
	}
	list = append(list, tail)
	return func() wire.Body {
		b := encode.NewBody(list...)
		p.sent.Add(b.Len())
		return b
	}
}

// digest names the request for what follows the present tokens, part of the turn's
// answer being among them.
func (p *prompt) digest(turn, part int, seed *uint64) [32]byte {
	chain := p.chain()
	p.sum.Reset("request")
	p.sum.Digest(chain)
	p.sum.Int(int64(turn))
	p.sum.Int(int64(part))
	p.hash(p.rest...) // what an aborted answer left
	if seed != nil {
		p.sum.Int(int64(*seed))
	}
	return p.sum.Sum()
}
