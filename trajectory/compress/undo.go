package compress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"hermes/trajectory/columns"
)

// Undone counts what [Undo] did.
type Undone struct {
	Rows     int64 `json:"rows"`
	Restored int64 `json:"restored"`
	Missing  int64 `json:"missing"` // compressed, without an original here
}

// Undo writes the compressed file from to the file to, every row as it was before: JSON
// lines byte for byte. originals is the file that [Run] left beside its output. Rows may
// have been reordered or left out since. One whose original is not there, because it was
// compressed before that, stays as it is and is counted as missing.
func Undo(from, originals, to, created string) (u Undone, err error) {
	if _, err := os.Stat(to); err == nil {
		return u, &OtherError{fmt.Sprintf("output %s exists", to)}
	}
	in, err := Find([]string{from})
	if err != nil {
		return u, err
	}
	if strings.HasSuffix(to, ".parquet") != in.Parquet || !in.Parquet && !strings.HasSuffix(to, ".jsonl") {
		return u, &OtherError{fmt.Sprintf("output %s: want the format of %s", to, from)}
	}
	s, err := openStore(originals)
	if err != nil {
		return u, err
	}
	defer s.f.Close()
	out, err := os.CreateTemp(dirOf(to), ".hermes-*")
	if err != nil {
		return u, fmt.Errorf("output: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	write, finish := lineWriter(out)
	if in.Parquet {
		write, finish = columnWriter(out, created, in.LogProbs)
	}
	for line, rerr := range in.rows() {
		if err = rerr; err != nil {
			break
		}
		u.Rows++
		if m, ok := marked(line); ok {
			var original []byte
			original, err = s.get(m.Original)
			if err != nil {
				err = fmt.Errorf("%s: row %d: %w", from, u.Rows-1, err)
				break
			}
			if original == nil {
				u.Missing++
			} else {
				line = original
				u.Restored++
			}
		}
		if err = write(line); err != nil {
			break
		}
	}
	if err = errors.Join(err, finish(), out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return u, err
	}
	return u, os.Rename(out.Name(), to)
}

func dirOf(path string) string {
	if i := strings.LastIndexByte(path, os.PathSeparator); i >= 0 {
		return path[:i+1]
	}
	return "."
}

func lineWriter(out io.Writer) (write func([]byte) error, finish func() error) {
	w := bufio.NewWriterSize(out, 1<<18)
	return func(line []byte) error {
		if _, err := w.Write(line); err != nil {
			return err
		}
		return w.WriteByte('\n')
	}, w.Flush
}

func columnWriter(out io.Writer, created, logProbs string) (write func([]byte) error, finish func() error) {
	w := columns.NewWriter(out, created, logProbs)
	return func(line []byte) error {
		var row columns.Row
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		_, err := w.WriteRow(row)
		return err
	}, w.Close
}

// store finds originals by hash: usually the next one, else by an index that is made at
// the first miss.
type store struct {
	f     *os.File
	r     *bufio.Reader
	index map[string][2]int64 // begin and length
}

func openStore(path string) (*store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("originals: %w", err)
	}
	return &store{f: f, r: bufio.NewReaderSize(f, 1<<18)}, nil
}

// get returns an original, or nil where there is none.
func (s *store) get(name string) ([]byte, error) {
	if s.index == nil {
		line, err := s.r.ReadBytes('\n')
		if err == nil && Sum(line[:len(line)-1]) == name {
			return line[:len(line)-1], nil
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err := s.list(); err != nil {
			return nil, err
		}
	}
	at, ok := s.index[name]
	if !ok {
		return nil, nil
	}
	line := make([]byte, at[1])
	_, err := s.f.ReadAt(line, at[0])
	return line, err
}

func (s *store) list() error {
	s.index = map[string][2]int64{}
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	s.r.Reset(s.f)
	for at := int64(0); ; {
		line, err := s.r.ReadBytes('\n')
		if err == io.EOF {
			return nil // what has no end was torn by a kill
		}
		if err != nil {
			return err
		}
		s.index[Sum(bytes.TrimSuffix(line, []byte{'\n'}))] = [2]int64{at, int64(len(line)) - 1}
		at += int64(len(line))
	}
}
