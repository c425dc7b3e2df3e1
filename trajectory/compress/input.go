package compress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"hermes/trajectory/columns"
)

// maxLine bounds one row, in bytes.
const maxLine = 256 << 20

// Inputs are the files of one piece of work, all JSON lines or all Parquet.
type Inputs struct {
	Files    []File
	Parquet  bool
	LogProbs string // Parquet: of which distribution the log-probs are
	Exact    bool   // Parquet: the first row holds tokens
}

// File is one input.
type File struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// Find lists the files behind paths: a folder means the .jsonl (also .gz, .zst) or .parquet
// files in it, sorted.
func Find(paths []string) (Inputs, error) {
	var in Inputs
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return in, fmt.Errorf("input: %w", err)
		}
		names := []string{p}
		if info.IsDir() {
			names, err = inFolder(p)
			if err != nil {
				return in, err
			}
		}
		for _, n := range names {
			info, err := os.Stat(n)
			if err != nil {
				return in, fmt.Errorf("input: %w", err)
			}
			if !info.Mode().IsRegular() {
				return in, fmt.Errorf("input %s: not a regular file; a stream cannot be taken up again", n)
			}
			in.Files = append(in.Files, File{n, info.Size()})
		}
	}
	for i, f := range in.Files {
		parquet := strings.HasSuffix(f.Path, ".parquet")
		if !parquet && !isLines(f.Path) {
			return in, fmt.Errorf("input %s: want .jsonl (also .gz, .zst) or .parquet", f.Path)
		}
		if i > 0 && parquet != in.Parquet {
			return in, fmt.Errorf("inputs %s and %s: JSON lines and Parquet do not go into one output", in.Files[0].Path, f.Path)
		}
		in.Parquet = parquet
	}
	if in.Parquet {
		return in, in.look()
	}
	return in, nil
}

func isLines(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst"), ".jsonl")
}

func inFolder(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); !e.IsDir() && !strings.HasPrefix(n, ".") && (isLines(n) || strings.HasSuffix(n, ".parquet")) {
			names = append(names, filepath.Join(dir, n))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("input %s: no .jsonl and no .parquet files in it", dir)
	}
	slices.Sort(names)
	return names, nil
}

// look reads the heads of the Parquet files.
func (in *Inputs) look() error {
	for i, f := range in.Files {
		err := withParquet(f.Path, func(r *columns.Reader) error {
			if i > 0 && r.LogProbs() != in.LogProbs {
				return fmt.Errorf("its log-probs are %q, those of %s %q", r.LogProbs(), in.Files[0].Path, in.LogProbs)
			}
			in.LogProbs = r.LogProbs()
			for row, err := range r.Rows() {
				if err != nil {
					return err
				}
				in.Exact = in.Exact || len(row.Sequences) > 0
				break
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func withParquet(path string, do func(*columns.Reader) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	defer f.Close()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("input %s: damaged file: %v", path, p)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	r, err := columns.NewReader(f, info.Size())
	if err == nil {
		err = do(r)
	}
	if err != nil {
		return fmt.Errorf("input %s: %w", path, err)
	}
	return nil
}

// rows yields the rows of all files in order, as JSON on one line each; the bytes are the
// caller's to keep.
func (in Inputs) rows() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stopped := errors.New("stopped")
		for _, f := range in.Files {
			each := func(text []byte) error {
				if !yield(text, nil) {
					return stopped
				}
				return nil
			}
			var err error
			if in.Parquet {
				err = withParquet(f.Path, func(r *columns.Reader) error { return columnRows(r, each) })
			} else {
				err = eachLine(f.Path, each)
			}
			if errors.Is(err, stopped) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

func columnRows(r *columns.Reader, each func([]byte) error) error {
	for row, err := range r.Rows() {
		if err != nil {
			return err
		}
		text, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("row %s: %w", row.Key, err)
		}
		if err := each(text); err != nil {
			return err
		}
	}
	return nil
}

// eachLine yields lines without their breaks; blank lines are no rows.
func eachLine(path string, each func([]byte) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return fmt.Errorf("input: %w", err)
	}
	defer f.Close()
	var from io.Reader = f
	switch {
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("input %s: %w", path, err)
		}
		defer z.Close()
		from = z
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			return fmt.Errorf("input %s: %w", path, err)
		}
		defer z.Close()
		from = z
	}
	return splitLines(from, each, path)
}

func splitLines(from io.Reader, each func(line []byte) error, path string) error {
	r := bufio.NewReaderSize(from, 1<<18)
	for n := int64(1); ; n++ {
		var line []byte
		for {
			part, err := r.ReadSlice('\n')
			if len(line)+len(part) > maxLine {
				return fmt.Errorf("%s:%d: a row of more than %d MiB", path, n, maxLine>>20)
			}
			line = append(line, part...)
			if err == nil || err == io.EOF && len(line) > 0 {
				break
			}
			if err == io.EOF {
				return nil
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return fmt.Errorf("%s:%d: %w", path, n, err)
			}
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := each(line); err != nil {
			return err
		}
	}
}
