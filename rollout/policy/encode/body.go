package encode

import (
	"io"
	"net"
)

// Body reads slices, one after the other. It does not change them.
type Body struct {
	list net.Buffers
	left int64
}

// NewBody returns a reader of the slices of list, which it takes over.
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
	for len(p.list) > 0 && n < len(b) {
		k := copy(b[n:], p.list[0])
		n += k
		p.list[0] = p.list[0][k:]
		if len(p.list[0]) == 0 {
			p.list = p.list[1:]
		}
	}
	p.left -= int64(n)
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close does nothing: the slices are the conversation's.
func (p *Body) Close() error { return nil }

// WriteTo writes what is left, at once where w can do that.
func (p *Body) WriteTo(w io.Writer) (int64, error) {
	n, err := p.list.WriteTo(w)
	p.left -= n
	return n, err
}
