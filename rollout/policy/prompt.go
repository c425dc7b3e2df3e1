package policy

import (
	"encoding/binary"
	"slices"
	"strconv"
	"sync/atomic"

	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// Prompt is the growing sequence of one rollout: its tokens and their spelling as JSON.
// A token is spelled once; what was spelled is never changed, because a broken request
// may still be read by the transport when the next one is built.
type Prompt struct {
	ids     []trajectory.Token
	text    []byte // the ids, separated by commas
	at      []place
	seed    [32]byte
	sum     *wire.Digest
	buf     []byte
	spelled int64        // bytes
	sent    atomic.Int64 // the transport may ask for a body again by itself
}

// place is the end of one message: its node (None while it is not committed) and the
// digest of every token up to it.
type place struct {
	node      trajectory.NodeID
	ids, text int
	chain     [32]byte
}

func newPrompt(seed [32]byte) *Prompt { return &Prompt{seed: seed, sum: wire.NewDigest("")} }

// Len is the number of tokens.
func (p *Prompt) Len() int { return len(p.ids) }

// IDs are the tokens, read-only.
func (p *Prompt) IDs() []trajectory.Token { return p.ids }

// last is the last token.
func (p *Prompt) last() (trajectory.Token, bool) {
	if len(p.ids) == 0 {
		return 0, false
	}
	return p.ids[len(p.ids)-1], true
}

// committed is the number of tokens of the first n messages.
func (p *Prompt) committed(n int) int {
	if n == 0 {
		return 0
	}
	return p.at[n-1].ids
}

// chain is the digest of all tokens, by messages.
func (p *Prompt) chain() [32]byte {
	if len(p.at) == 0 {
		return p.seed
	}
	return p.at[len(p.at)-1].chain
}

// hold makes the i-th message that of node id with these tokens. It keeps what is there
// if that is the same, else it cuts there.
func (p *Prompt) hold(i int, id trajectory.NodeID, tokens []trajectory.Token) {
	if i < len(p.at) {
		if p.at[i].node == id && id != trajectory.None {
			return
		}
		from := 0
		if i > 0 {
			from = p.at[i-1].ids
		}
		if p.at[i].node == trajectory.None && slices.Equal(p.ids[from:p.at[i].ids], tokens) {
			p.at[i].node = id
			return
		}
		p.cut(i)
	}
	before := p.chain()
	p.spell(tokens)
	p.sum.Reset("tokens")
	p.sum.Bytes(before[:])
	p.hash(tokens)
	p.at = append(p.at, place{id, len(p.ids), len(p.text), p.sum.Sum()})
}

func (p *Prompt) hash(tokens []trajectory.Token) {
	p.buf = p.buf[:0]
	for _, t := range tokens {
		p.buf = binary.LittleEndian.AppendUint32(p.buf, uint32(t))
	}
	p.sum.Bytes(p.buf)
}

// spell appends tokens that belong to no message yet.
func (p *Prompt) spell(tokens []trajectory.Token) {
	n := len(p.text)
	for _, t := range tokens {
		if len(p.text) > 0 {
			p.text = append(p.text, ',')
		}
		p.text = strconv.AppendInt(p.text, int64(t), 10)
	}
	p.spelled += int64(len(p.text) - n)
	p.ids = append(p.ids, tokens...)
}

// cut drops messages from the i-th on, and tokens that belong to none. The next tokens
// are written elsewhere.
func (p *Prompt) cut(i int) {
	i = min(i, len(p.at))
	p.at = p.at[:i]
	ids, text := 0, 0
	if i > 0 {
		ids, text = p.at[i-1].ids, p.at[i-1].text
	}
	if ids < len(p.ids) {
		p.ids, p.text = p.ids[:ids:ids], p.text[:text:text]
	}
}

// digest names the request for what follows the present tokens, part of the turn's
// answer being among them.
func (p *Prompt) digest(turn, part int, seed *uint64) [32]byte {
	chain := p.chain()
	p.sum.Reset("request")
	p.sum.Bytes(chain[:])
	p.sum.Int(int64(turn))
	p.sum.Int(int64(part))
	p.hash(p.ids[p.committed(len(p.at)):]) // what an aborted answer left
	if seed != nil {
		p.sum.Int(int64(*seed))
	}
	return p.sum.Sum()
}
