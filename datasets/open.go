package datasets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hermes/datasets/hub"
)

// Options say how a dataset is read. The zero value is usable.
type Options struct {
	PromptKey string            // tried before the usual keys; dots reach into objects
	Map       map[string]string // from → to; see [ParseMap]
	Format    Format            // "": by name, then by content
	MaxLine   int               // bytes of one row; 0 means 64 MiB

	Shuffle bool // a permutation that Seed alone decides
	Seed    uint64
	Limit   int64 // rows, after shuffling; 0 means all
	Shard   Shard // of what Limit leaves, so that the shards together are the whole

	Stdin   io.Reader   // for "-"
	TempDir string      // for what must be spooled (stdin, shuffling); "": the system's
	Hub     hub.Options // for hf:
}

// Format is the layout of a file, compression aside.
type Format string

// The formats.
const (
	JSONL   Format = "jsonl"
	JSON    Format = "json" // one array, or objects over several lines
	Parquet Format = "parquet"
	CSV     Format = "csv"
	TSV     Format = "tsv"
)

// Shard is part I of N, I from 0. N 0 is the whole.
type Shard struct{ I, N int }

// ParseShard reads "i/n", i from 0 to n-1.
func ParseShard(text string) (Shard, error) {
	a, b, ok := strings.Cut(text, "/")
	i, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || n < 1 || i < 0 || i >= n {
		return Shard{}, fmt.Errorf("shard %q: want i/n with i from 0 to n-1", text)
	}
	return Shard{I: i, N: n}, nil
}

// Dataset is rows in files. Every call of Rows reads again.
// It is safe for concurrent use until Close.
type Dataset struct {
	files []file
	o     Options
	temp  []string // removed by Close
}

// file is one file of a dataset.
type file struct {
	name     string // as the user knows it
	path     string // "": content is inline
	inline   []byte
	format   Format
	pack     pack
	from, to int64 // rows [from, to) of it; to -1 means all
}

// Open finds the files that specs name: paths, "-" (stdin, spooled), or
// hf:owner/name[@revision][/config][:split[a:b]] (fetched into the hub's cache).
// Several specs are read one behind the other. Close what it returns.
func Open(ctx context.Context, o Options, specs ...string) (*Dataset, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, errors.New("no dataset given")
	}
	d := &Dataset{o: o}
	for _, spec := range specs {
		if err := d.add(ctx, spec); err != nil {
			return nil, errors.Join(fmt.Errorf("dataset %s: %w", spec, err), d.Close())
		}
	}
	return d, nil
}

// Inline makes a dataset of JSONL text; name is in messages.
func Inline(name, jsonl string, o Options) (*Dataset, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	f := file{name: name, inline: []byte(jsonl), format: o.Format, to: -1}
	f.format = cmp.Or(f.format, JSONL)
	return &Dataset{o: o, files: []file{f}}, nil
}

func (o Options) checked() (Options, error) {
	o.MaxLine = cmp.Or(o.MaxLine, 64<<20)
	if o.MaxLine < 0 || o.Limit < 0 {
		return o, fmt.Errorf("line length %d, limit %d: negative", o.MaxLine, o.Limit)
	}
	if s := o.Shard; s.N < 0 || s.I < 0 || s.N > 0 && s.I >= s.N {
		return o, fmt.Errorf("shard %d/%d: want i/n with i from 0 to n-1", s.I, s.N)
	}
	switch o.Format {
	case "", JSONL, JSON, Parquet, CSV, TSV:
	default:
		return o, fmt.Errorf("format %q: want jsonl, json, parquet, csv or tsv", o.Format)
	}
	return o, checkMap(o.Map)
}

// Close removes what was spooled.
func (d *Dataset) Close() error {
	var errs []error
	for _, path := range d.temp {
		errs = append(errs, os.Remove(path))
	}
	d.temp = nil
	return errors.Join(errs...)
}

func (d *Dataset) add(ctx context.Context, spec string) error {
	if spec == "-" {
		return d.addStdin()
	}
	if strings.HasPrefix(spec, "hf:") {
		return d.addHub(ctx, spec)
	}
	f := file{name: spec, path: spec, to: -1}
	if err := f.recognise(d.o.Format); err != nil {
		return err
	}
	d.files = append(d.files, f)
	return nil
}

func (d *Dataset) addStdin() error {
	if d.o.Stdin == nil {
		return errors.New("no standard input here")
	}
	tmp, err := os.CreateTemp(d.o.TempDir, "hermes-stdin-*")
	if err != nil {
		return err
	}
	d.temp = append(d.temp, tmp.Name())
	_, err = io.Copy(tmp, d.o.Stdin)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	f := file{name: "stdin", path: tmp.Name(), to: -1}
	if err := f.recognise(d.o.Format); err != nil {
		return err
	}
	d.files = append(d.files, f)
	return nil
}

func (d *Dataset) addHub(ctx context.Context, spec string) error {
	ref, err := hub.Parse(spec)
	if err != nil {
		return err
	}
	found, err := hub.Fetch(ctx, ref, d.o.Hub)
	if err != nil {
		return err
	}
	for _, g := range found {
		f := file{name: g.Name, path: g.Path, to: -1}
		if err := f.recognise(d.o.Format); err != nil {
			return fmt.Errorf("%s: %w", g.Name, err)
		}
		d.files = append(d.files, f)
	}
	return d.slice(ctx, len(d.files)-len(found), ref.From, ref.To)
}

// slice keeps rows [from, to) of the files behind the first ones; to -1 means the end.
func (d *Dataset) slice(ctx context.Context, first int, from, to int64) error {
	if from == 0 && to < 0 {
		return nil
	}
	at := int64(0)
	for i := first; i < len(d.files); i++ {
		f := &d.files[i]
		n := int64(0)
		if err := f.scan(ctx, d.o.MaxLine, func(raw) error { n++; return nil }); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		f.from = min(max(from-at, 0), n)
		f.to = n
		if to >= 0 {
			f.to = max(f.from, min(to-at, n))
		}
		at += n
	}
	return nil
}

// recognise finds the format by the given one, by name, then by the first bytes.
func (f *file) recognise(given Format) error {
	info, err := os.Stat(f.path)
	if err != nil {
		return bare(err)
	}
	if info.IsDir() {
		return errors.New("a directory, want a file (jsonl, json, parquet, csv, also .gz and .zst)")
	}
	head, p, err := peek(f.path)
	if err != nil {
		return err
	}
	f.pack, f.format = p, given
	if f.format == "" {
		f.format = byName(f.name)
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")):
		return errors.New("the text is UTF-16, want UTF-8")
	case bytes.HasPrefix(head, []byte("PAR1")):
		f.format = Parquet
	case f.format == Parquet:
		return errors.New("not a Parquet file: it does not begin with PAR1")
	case f.format == "" || f.format == JSON || f.format == JSONL && given == "":
		f.format = byContent(head, f.format)
	}
	if f.format == Parquet && f.pack != plain {
		return errors.New("a compressed Parquet file: unpack it first")
	}
	return nil
}

// bare drops the path from an error: the caller reports it with the path anyway.
func bare(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func byName(name string) Format {
	name = strings.ToLower(filepath.Base(name))
	for _, ext := range []string{".gz", ".gzip", ".zst", ".zstd"} {
		name = strings.TrimSuffix(name, ext)
	}
	switch filepath.Ext(name) {
	case ".jsonl", ".ndjson", ".jsonlines":
		return JSONL
	case ".json":
		return JSON
	case ".parquet", ".pq":
		return Parquet
	case ".csv":
		return CSV
	case ".tsv":
		return TSV
	}
	return ""
}

// byContent decides between lines and one value: an array is one value, and so is an
// object that its first line does not close.
func byContent(head []byte, named Format) Format {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	if len(head) == 0 {
		return JSONL
	}
	line, _, whole := bytes.Cut(head, []byte("\n"))
	switch {
	case head[0] == '[' && (named != JSONL || len(bytes.TrimSpace(line)) == 1):
		return JSON
	case named == JSON && head[0] == '{' && whole && bytes.IndexByte(line, '}') < 0:
		return JSON
	}
	return JSONL
}
