package encode

import (
	"io"
	"net"
	"slices"
)

// Body reads slices, one after the other. It owns neither them nor, at first, the list.
type Body struct {
	list net.Buffers
	own  bool // the list is a copy
	left int64
}

// NewBody returns a reader of the slices of list, which must not change.
func NewBody(list ...[]byte) *Body {
	p := &Body{list: list}
	for _, s := range list {
		p.left += int64(len(s))
	}
	return p
}

// Len is the number of bytes that are left.
func (p *Body) Len() int64 { return p.left }

// Read copies what is left, up to the length of b.
func (p *Body) Read(b []byte) (n int, err error) {
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
func (p *Body) take() {
	if !p.own {
		p.list, p.own = slices.Clone(p.list), true
	}
}

// Close does nothing: the slices are the conversation's.
func (p *Body) Close() error { return nil }

// Pieces appends the slices that are left.
func (p *Body) Pieces(list net.Buffers) net.Buffers { return append(list, p.list...) }

// WriteTo writes what is left, at once where w can do that.
func (p *Body) WriteTo(w io.Writer) (int64, error) {
	p.take()
	n, err := p.list.WriteTo(w)
	p.left -= n
	return n, err
}
