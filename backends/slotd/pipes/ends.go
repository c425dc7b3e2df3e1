//go:build linux

package pipes

import (
	"os"
)

// Ends are both ends of a command's streams.
type Ends struct {
	Child    Files
	In       *os.File // ours, for writing; nil without input
	Out, Err *os.File // ours, for reading; Err is nil when merged
}

func NewEnds(input, merge bool) (p *Ends, err error) {
	p = &Ends{}
	defer func() {
		if err != nil {
			p.CloseChild()
			p.CloseOurs()
		}
	}()
	if input {
		p.Child.In, p.In, err = os.Pipe()
	} else {
		p.Child.In, err = OpenNull(os.O_RDONLY)
	}
	if err != nil {
		return nil, err
	}
	p.Out, p.Child.Out, err = os.Pipe()
	if err != nil {
		return nil, err
	}
	p.Child.Err = p.Child.Out
	if !merge {
		p.Err, p.Child.Err, err = os.Pipe()
	}
	return p, err
}

func (p *Ends) CloseChild() {
	for _, f := range []*os.File{p.Child.In, p.Child.Out, p.Child.Err} {
		if f != nil {
			f.Close() // twice when merged: harmless
		}
	}
}

func (p *Ends) CloseOurs() {
	for _, f := range []*os.File{p.In, p.Out, p.Err} {
		if f != nil {
			f.Close()
		}
	}
}

// OpenNull opens what is always empty.
func OpenNull(flag int) (*os.File, error) { return os.OpenFile(os.DevNull, flag, 0) }
