package chat

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"hermes/rollout/policy"
	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// conversation is the growing body of one rollout's requests. Messages are encoded
// once; what was encoded is never changed, because a broken request may still be read
// by the transport when the next one is built.
type conversation struct {
	msgs  []byte   // encoded messages, separated by commas
	at    []entry  // one for each message
	seed  [32]byte // digest of model, tools and options
	sum   *wire.Digest
	bytes int64        // encoded
	sent  atomic.Int64 // the transport may ask for a body again by itself
}

// entry is one encoded message: where it ends, which node it is (None while it is
// pending) and the digest of everything up to it.
type entry struct {
	end   int
	node  trajectory.NodeID
	own   [32]byte
	chain [32]byte
}

// extend makes the body hold exactly the messages of p and then pending. Messages that
// it holds already are known by their node, or by their digest when they were pending.
func (c *conversation) extend(p trajectory.Prefix, pending []trajectory.Message, e *encoder) error {
	n := p.Len()
	for i := range n + len(pending) {
		id, m := trajectory.None, (*trajectory.Message)(nil)
		if i < n {
			var node trajectory.Node
			id, node = p.Node(i)
			if i < len(c.at) && c.at[i].node == id {
				continue
			}
			m = &node.Delta.Message
		} else {
			m = &pending[i-n]
		}
		own := c.digest(m)
		if i < len(c.at) {
			if c.at[i].node == trajectory.None && c.at[i].own == own {
				c.at[i].node = id
				continue
			}
			c.cut(i)
		}
		if err := c.add(id, m, own, e); err != nil {
			return &policy.Error{Kind: policy.Rejected, Err: fmt.Errorf("message %d: %w", i, err)}
		}
	}
	c.cut(n + len(pending))
	return nil
}

// cut drops messages from the i-th on. The next one is written elsewhere.
func (c *conversation) cut(i int) {
	if i >= len(c.at) {
		return
	}
	c.at = c.at[:i]
	end := 0
	if i > 0 {
		end = c.at[i-1].end
	}
	c.msgs = c.msgs[:end:end]
}

func (c *conversation) add(id trajectory.NodeID, m *trajectory.Message, own [32]byte, e *encoder) error {
	b := c.msgs
	if len(c.at) > 0 {
		b = append(b, ',')
	}
	b, err := e.message(b, m)
	if err != nil {
		return err
	}
	c.bytes += int64(len(b) - len(c.msgs))
	c.msgs = b
	before := c.chain()
	c.sum.Reset("messages")
	c.sum.Digest(before)
	c.sum.Digest(own)
	c.at = append(c.at, entry{end: len(b), node: id, own: own, chain: c.sum.Sum()})
	return nil
}

func (c *conversation) chain() [32]byte {
	if len(c.at) == 0 {
		return c.seed
	}
	return c.at[len(c.at)-1].chain
}

// digest identifies a message whatever server it is sent to.
func (c *conversation) digest(m *trajectory.Message) [32]byte {
	d := c.sum
	d.Reset("message")
	d.String(string(m.Role))
	d.Int(int64(len(m.Parts)))
	for _, p := range m.Parts {
		d.String(string(p.Kind))
		d.String(p.Text)
		d.String(p.URL)
		d.String(p.Blob)
		d.String(p.MediaType)
	}
	d.String(m.Reasoning)
	d.Int(int64(len(m.Calls)))
	for _, k := range m.Calls {
		d.String(k.ID)
		d.String(k.Name)
		d.String(k.Arguments)
	}
	d.String(m.CallID)
	d.String(m.Name)
	d.Bytes(m.Opaque)
	return d.Sum()
}

// request is the digest of a request with the present messages.
func (c *conversation) request(turn int, seed *uint64) [32]byte {
	chain := c.chain()
	c.sum.Reset("request")
	c.sum.Digest(chain)
	c.sum.Int(int64(turn))
	if seed != nil {
		c.sum.Int(int64(*seed))
	}
	return c.sum.Sum()
}

// body is a fresh reader of head, messages and tail.
func (c *conversation) body(head, tail []byte) func() wire.Body {
	msgs := c.msgs
	return func() wire.Body {
		p := encode.NewBody(head, msgs, tail)
		c.sent.Add(p.Len())
		return p
	}
}

// tail closes the messages and adds what differs from turn to turn.
func tail(seed *uint64) []byte {
	if seed == nil {
		return []byte("]}")
	}
	return append(strconv.AppendUint([]byte(`],"seed":`), *seed, 10), '}')
}
