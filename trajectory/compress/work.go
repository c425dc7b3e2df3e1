package compress

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
)

// The files beside an output. rows is the log of the work: it names each row that is done
// with its place and its sum in the other files. A start reads them along; everything
// behind the first line whose bytes are not there is cut off and done again, so that files
// need be synced at the end only.
const (
	partSuffix     = ".part"
	rowsSuffix     = ".rows.jsonl"
	OriginalSuffix = ".originals.jsonl" // the compressed rows as they were, one a line
	MetricsSuffix  = ".metrics.json"
)

// Identity is what two starts of the same work must agree in.
type Identity struct {
	Version    int    `json:"version"`
	Inputs     []File `json:"inputs"`
	Target     int    `json:"target"`
	Summary    int    `json:"summary"`
	Tail       int    `json:"tail"`
	Tokenizer  string `json:"tokenizer"`
	Template   string `json:"template,omitempty"`
	Summarizer string `json:"summarizer"`
	Sample     Sample `json:"sample,omitzero"`
}

// differs names the first field in which a and b differ.
func (a Identity) differs(b Identity) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return fmt.Sprintf("%s was %v, is %v", x.Type().Field(i).Name, x.Field(i).Interface(), y.Field(i).Interface())
		}
	}
	return ""
}

// logged is one line of the log.
type logged struct {
	Row       int64  `json:"row"`
	In        uint32 `json:"in"`  // CRC-32C of the input's line
	CRC       uint32 `json:"crc"` // of the output's line
	Out       int64  `json:"out"` // end of the row's line in the output
	Originals int64  `json:"originals"`
	End       bool   `json:"end,omitempty"` // all rows are done; Row is their number
	Result
}

// OtherError says that an output belongs to other work.
type OtherError struct{ Text string }

func (e *OtherError) Error() string { return e.Text }

// work is an output under way.
type work struct {
	path                 string
	part, originals, log *os.File
	outAt, origAt        int64
	logAt                int64
	done                 int64 // rows
	ended                bool
	metrics              Metrics
	before               *os.File // the log again, to compare the rows that are done with the input
	skip                 *bufio.Reader
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// open begins work or takes it up where it was left.
func open(path string, id Identity) (w *work, err error) {
	w = &work{path: path}
	_, outErr := os.Stat(path)
	_, logErr := os.Stat(path + rowsSuffix)
	if outErr == nil && errors.Is(logErr, fs.ErrNotExist) {
		return nil, &OtherError{fmt.Sprintf("output %s exists and was not begun here; name another, or remove it", path)}
	}
	w.log, err = os.OpenFile(path+rowsSuffix, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := lock(w.log); err != nil {
		return nil, &OtherError{fmt.Sprintf("output %s: another process is writing it (%v)", path, err)}
	}
	if outErr == nil { // it was finished, or died while it was put in its place
		w.ended, err = w.complete(id)
		if err != nil || w.ended {
			return w, err
		}
		return nil, &OtherError{fmt.Sprintf("output %s exists, but %s does not end; remove one of them", path, path+rowsSuffix)}
	}
	for _, f := range []struct {
		to     **os.File
		suffix string
	}{{&w.part, partSuffix}, {&w.originals, OriginalSuffix}} {
		*f.to, err = os.OpenFile(path+f.suffix, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
	}
	return w, w.resume(id)
}

// header reads the first line of the log; none: the work is new.
func (w *work) header(r *bufio.Reader, id Identity) (n int64, err error) {
	line, err := r.ReadBytes('\n')
	if err == io.EOF {
		return 0, nil // nothing, or a torn first line
	}
	if err != nil {
		return 0, err
	}
	var was Identity
	if err := json.Unmarshal(line, &was); err != nil {
		return 0, fmt.Errorf("%s: %w; remove it to begin again", w.log.Name(), err)
	}
	if d := was.differs(id); d != "" {
		return 0, &OtherError{fmt.Sprintf("output %s was begun otherwise: %s; name another output, or remove %s*", w.path, d, w.path)}
	}
	return int64(len(line)), nil
}

// resume cuts the files back to the last row that can be trusted.
func (w *work) resume(id Identity) error {
	r := bufio.NewReaderSize(w.log, 1<<16)
	at, err := w.header(r, id)
	if err != nil {
		return err
	}
	if at == 0 {
		raw, err := json.Marshal(id)
		if err != nil {
			return err
		}
		if err := errors.Join(w.log.Truncate(0), w.part.Truncate(0), w.originals.Truncate(0)); err != nil {
			return err
		}
		if _, err := w.log.WriteAt(append(raw, '\n'), 0); err != nil {
			return err
		}
		w.logAt = int64(len(raw)) + 1
		return w.seek()
	}
	// Nothing was synced on the way: each row is believed when its bytes are there.
	part, originals := bufio.NewReaderSize(w.part, 1<<18), bufio.NewReaderSize(w.originals, 1<<18)
	w.logAt = at
	for {
		text, err := r.ReadBytes('\n')
		if err != nil {
			break // the end, or a torn line
		}
		at += int64(len(text))
		var l logged
		if json.Unmarshal(text, &l) != nil || l.End || l.Row != w.done ||
			!holds(part, l.Out-w.outAt, l.CRC) || l.Originals != w.origAt && !holds(originals, l.Originals-w.origAt, l.In) {
			break
		}
		w.outAt = l.Out
		w.origAt = l.Originals
		w.logAt = at
		w.metrics.add(l.Result)
		w.done++
	}
	return w.seek()
}

// holds reads a line of n bytes, its break included, and compares its sum.
func holds(r *bufio.Reader, n int64, want uint32) bool {
	if n < 1 || n > maxLine+1 {
		return false
	}
	line := make([]byte, n)
	_, err := io.ReadFull(r, line)
	return err == nil && line[n-1] == '\n' && sum(line[:n-1]) == want
}

// seek cuts the files to what is done and puts their places there.
func (w *work) seek() error {
	for _, f := range []struct {
		f  *os.File
		at int64
	}{{w.part, w.outAt}, {w.originals, w.origAt}, {w.log, w.logAt}} {
		if err := f.f.Truncate(f.at); err != nil {
			return err
		}
		if _, err := f.f.Seek(f.at, io.SeekStart); err != nil {
			return err
		}
	}
	var err error
	w.before, err = os.Open(w.log.Name())
	if err != nil { // it says the place
		return err
	}
	w.skip = bufio.NewReader(io.LimitReader(w.before, w.logAt))
	_, err = w.skip.ReadBytes('\n')
	return err
}

// same checks a line of the input against what was read before.
func (w *work) same(row int64, line []byte) error {
	text, err := w.skip.ReadBytes('\n')
	var was logged
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil {
		return fmt.Errorf("%s: row %d: %w", w.log.Name(), row, err)
	}
	if was.In != sum(line) {
		return &OtherError{fmt.Sprintf("row %d of the input is not what it was when %s was begun; name another output, or remove %s*", row, w.path, w.path)}
	}
	return nil
}

// put appends a row to all files, the log last.
func (w *work) put(in []byte, r Result) error {
	out := in
	if r.row != nil {
		out = r.row
		n, err := w.originals.Write(append(bytes.Clone(in), '\n'))
		w.origAt += int64(n)
		if err != nil {
			return fmt.Errorf("keep the original: %w", err)
		}
	}
	n, err := w.part.Write(append(bytes.Clone(out), '\n'))
	w.outAt += int64(n)
	if err != nil {
		return fmt.Errorf("write a row: %w", err)
	}
	if err := w.note(logged{Row: w.done, In: sum(in), CRC: sum(out), Out: w.outAt, Originals: w.origAt, Result: r}); err != nil {
		return err
	}
	w.metrics.add(r)
	w.done++
	return nil
}

func (w *work) note(l logged) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := w.log.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("write the log of rows: %w", err)
	}
	return nil
}

func (w *work) sync() error {
	return errors.Join(w.originals.Sync(), w.part.Sync(), w.log.Sync())
}

// complete reads the log of finished work.
func (w *work) complete(id Identity) (bool, error) {
	r := bufio.NewReaderSize(w.log, 1<<16)
	if n, err := w.header(r, id); err != nil || n == 0 {
		return false, err
	}
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var l logged
		if err := json.Unmarshal(line, &l); err != nil {
			return false, fmt.Errorf("%s: %w", w.log.Name(), err)
		}
		if l.End {
			return true, nil
		}
		w.metrics.add(l.Result)
		w.done++
	}
}

func (w *work) close() error {
	var err error
	for _, f := range []*os.File{w.part, w.originals, w.before, w.log} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

type count struct {
	text string
	n    int64
}

// sorted lists counts, largest first.
func sorted(m map[string]int64) []count {
	var out []count
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, count{k, m[k]})
	}
	slices.SortStableFunc(out, func(a, b count) int { return cmp.Compare(b.n, a.n) })
	return out
}
