package policy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync/atomic"

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

// Counts tells what a sampler did, in bytes: Encoded as JSON by hermes, Sent as bodies.
// A turn encodes what it adds; the whole prompt is sent each time.
type Counts struct{ Encoded, Sent int64 }

// Counting is a sampler that counts.
type Counting interface{ Counts() Counts }

// extend makes the body hold exactly the messages of p and then pending. Messages that
// it holds already are known by their node, or by their digest when they were pending.
func (c *conversation) extend(p trajectory.Prefix, pending []trajectory.Message, e *encoder) error {
	n := p.Len()
	for i := range n + len(pending) {
		id, m := trajectory.None, (*trajectory.Message)(nil)
		if i < n {
			var node trajectory.Node
			if id, node = p.Node(i); i < len(c.at) && c.at[i].node == id {
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
			return &Error{Kind: Rejected, Err: fmt.Errorf("message %d: %w", i, err)}
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
		p := newParts(head, msgs, tail)
		c.sent.Add(p.Len())
		return p
	}
}

// parts reads slices, one after the other. It owns neither them nor, at first, the list.
type parts struct {
	list net.Buffers
	own  bool // the list is a copy
	left int64
}

func newParts(list ...[]byte) *parts {
	p := &parts{list: list}
	for _, s := range list {
		p.left += int64(len(s))
	}
	return p
}

// Len is the number of bytes that are left.
func (p *parts) Len() int64 { return p.left }

func (p *parts) Read(b []byte) (n int, err error) {
	p.take()
	for len(p.list) > 0 && n < len(b) {
		k := copy(b[n:], p.list[0])
		n += k
		if p.list[0] = p.list[0][k:]; len(p.list[0]) == 0 {
			p.list = p.list[1:]
		}
	}
	p.left -= int64(n)
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// take copies the list before it is used up. Most bodies are written by their pieces, and
// never need it.
func (p *parts) take() {
	if !p.own {
		p.list, p.own = slices.Clone(p.list), true
	}
}

// Close does nothing: the slices are the conversation's.
func (p *parts) Close() error { return nil }

// Pieces appends the slices that are left.
func (p *parts) Pieces(list net.Buffers) net.Buffers { return append(list, p.list...) }

// WriteTo writes what is left, at once where w can do that.
func (p *parts) WriteTo(w io.Writer) (int64, error) {
	p.take()
	n, err := p.list.WriteTo(w)
	p.left -= n
	return n, err
}

// turnSeed derives the seed of one turn; 31 bits, which every server takes. d is used anew.
func turnSeed(d *wire.Digest, seed uint64, turn int) uint64 {
	d.Reset("turn seed")
	d.Int(int64(seed))
	d.Int(int64(turn))
	sum := d.Sum()
	return binary.LittleEndian.Uint64(sum[:]) & (1<<31 - 1)
}

// object is a JSON object in the making: ordered, later values win, objects are merged.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

func (o *object) set(key string, value any) error {
	raw, ok := value.(json.RawMessage)
	if !ok {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		raw = bytes.TrimSpace(buf.Bytes())
	}
	if o.values == nil {
		o.values = map[string]json.RawMessage{}
	}
	if old, ok := o.values[key]; ok {
		raw = merged(old, raw)
	} else {
		o.keys = append(o.keys, key)
	}
	o.values[key] = raw
	return nil
}

// merge sets every member of a JSON object, in the order of their names.
func (o *object) merge(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("extra body %s: want a JSON object: %w", raw, err)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k == "messages" {
			return fmt.Errorf("extra body: %q is the conversation itself", k)
		}
		if err := o.set(k, m[k]); err != nil {
			return err
		}
	}
	return nil
}

func merged(old, raw json.RawMessage) json.RawMessage {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(old, &a) != nil || json.Unmarshal(raw, &b) != nil || a == nil || b == nil {
		return raw
	}
	for k, v := range b {
		if had, ok := a[k]; ok {
			v = merged(had, v)
		}
		a[k] = v
	}
	out, err := json.Marshal(a)
	if err != nil {
		return raw
	}
	return out
}

// head writes the object without its closing brace, ready for messages.
func (o *object) head() []byte { return o.open("messages") }

// open writes the object up to the beginning of a list under one more key.
func (o *object) open(key string) []byte {
	return append(trajectory.AppendQuoted(o.members([]byte{'{'}), key), ":["...)
}

// members writes the members, a comma after each.
func (o *object) members(b []byte) []byte {
	for _, k := range o.keys {
		b = append(append(trajectory.AppendQuoted(b, k), ':'), o.values[k]...)
		b = append(b, ',')
	}
	return b
}

// tail closes the messages and adds what differs from turn to turn.
func tail(seed *uint64) []byte {
	if seed == nil {
		return []byte("]}")
	}
	return append(strconv.AppendUint([]byte(`],"seed":`), *seed, 10), '}')
}
