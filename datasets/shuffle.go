package datasets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
)

// place is where a row's text can be read again: 16 bytes a row.
type place struct {
	off  int64
	line uint32
	file uint32 // the spool is behind the last file
}

// shuffled yields the raw rows in the order of a permutation that the seed decides.
// Plain JSONL files are read at random, everything else is spooled first; memory holds
// 20 bytes a row.
func (d *Dataset) shuffled(ctx context.Context, yield func(raw) error) (err error) {
	spool, err := d.newSpool()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.close()) }()
	places, bad, err := d.places(ctx, spool)
	if err != nil {
		return err
	}
	order, err := permutation(len(places), d.o.Seed)
	if err != nil {
		return err
	}
	in, err := d.openAll(spool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	for n, i := range order {
		if n&1023 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p := places[i]
		r := raw{index: int64(i), line: int64(p.line), off: p.off}
		if cause, ok := bad[int64(i)]; ok {
			r.file, r.line, r.err = cause.file, cause.line, cause.err
		} else if r.file, r.data, err = in.line(p); err != nil {
			return err
		}
		if p.file == uint32(len(d.files)) {
			r.file = d.fileOf(int64(i), spool.starts)
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// places makes the index of all rows. Rows that cannot be cut out are kept aside.
func (d *Dataset) places(ctx context.Context, spool *spool) ([]place, map[int64]raw, error) {
	var places []place
	bad := map[int64]raw{}
	for i := range d.files {
		f := &d.files[i]
		spool.starts = append(spool.starts, int64(len(places)))
		direct := f.path != "" && f.format == JSONL && f.pack == plain
		err := f.scan(ctx, d.o.MaxLine, func(r raw) error {
			p := place{off: r.off, line: uint32(min(r.line, math.MaxUint32)), file: uint32(i)}
			if r.err != nil {
				if len(bad) < 1<<16 {
					bad[int64(len(places))] = raw{file: f.name, line: r.line, err: r.err}
				} else {
					return fmt.Errorf("more than %d rows that cannot be read", 1<<16)
				}
			} else if !direct {
				p.file = uint32(len(d.files))
				var err error
				p.off, err = spool.add(r.data)
				if err != nil {
					return err
				}
			}
			places = append(places, p)
			return nil
		})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return places, bad, spool.flush()
}

// fileOf names the file to which the row at index belongs.
func (d *Dataset) fileOf(index int64, starts []int64) string {
	name := ""
	for i, from := range starts {
		if index >= from {
			name = d.files[i].name
		}
	}
	return name
}

// permutation is Fisher and Yates' shuffle over a generator whose numbers are fixed by
// the seed, on every machine and release.
func permutation(n int, seed uint64) ([]uint32, error) {
	if uint64(n) > math.MaxUint32 {
		return nil, fmt.Errorf("%d rows cannot be shuffled, at most %d", n, uint64(math.MaxUint32))
	}
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	r := rand.NewPCG(seed, 0x6865726d6573)
	for i := n - 1; i > 0; i-- {
		j, _ := bits.Mul64(r.Uint64(), uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order, nil
}

// spool is a private temporary JSONL file; close removes it.
type spool struct {
	f      *os.File
	w      *bufio.Writer
	off    int64
	starts []int64 // index of each file's first row
}

func (d *Dataset) newSpool() (*spool, error) {
	f, err := os.CreateTemp(d.o.TempDir, "hermes-rows-*")
	if err != nil {
		return nil, err
	}
	return &spool{f: f, w: bufio.NewWriterSize(f, 1<<18)}, nil
}

// add appends a row as one line: line breaks between JSON tokens become blanks.
func (s *spool) add(row []byte) (int64, error) {
	at := s.off
	for _, c := range row {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		if err := s.w.WriteByte(c); err != nil {
			return 0, err
		}
	}
	s.off += int64(len(row)) + 1
	return at, s.w.WriteByte('\n')
}

func (s *spool) flush() error { return s.w.Flush() }

func (s *spool) close() error { return errors.Join(s.f.Close(), os.Remove(s.f.Name())) }

// randomLines reads single lines of several open files.
type randomLines struct {
	names []string
	files []*os.File
	skip  []int64 // length of the byte order mark
	r     *bufio.Reader
	buf   []byte
}

func (d *Dataset) openAll(s *spool) (*randomLines, error) {
	in := &randomLines{r: bufio.NewReaderSize(nil, 1<<13)}
	for i := range d.files {
		f := &d.files[i]
		in.names = append(in.names, f.name)
		if f.path == "" || f.format != JSONL || f.pack != plain {
			in.files, in.skip = append(in.files, nil), append(in.skip, 0)
			continue
		}
		h, err := os.Open(f.path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", f.name, bare(err)), in.close())
		}
		in.files = append(in.files, h)
		var head [3]byte
		n, _ := h.ReadAt(head[:], 0)
		mark := int64(0)
		if n == 3 && string(head[:]) == "\ufeff" {
			mark = 3
		}
		in.skip = append(in.skip, mark)
	}
	in.names, in.files, in.skip = append(in.names, "spool"), append(in.files, s.f), append(in.skip, 0)
	return in, nil
}

// line reads the line at p; the text is valid until the next call.
func (in *randomLines) line(p place) (string, []byte, error) {
	in.r.Reset(io.NewSectionReader(in.files[p.file], p.off+in.skip[p.file], math.MaxInt64-p.off-in.skip[p.file]))
	in.buf = in.buf[:0]
	for {
		part, err := in.r.ReadSlice('\n')
		in.buf = append(in.buf, part...)
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || len(in.buf) == 0):
			return "", nil, fmt.Errorf("%s changed while it was read: %w", in.names[p.file], err)
		}
		line := in.buf
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		return in.names[p.file], trimCR(line), nil
	}
}

func (in *randomLines) close() error {
	var errs []error
	for i, f := range in.files {
		if f != nil && i < len(in.files)-1 { // the last one is the spool's own
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
