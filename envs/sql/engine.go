package sql

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	"modernc.org/sqlite/vfs"
)

// engine runs queries that models wrote against databases that it made itself.
//
// A database is a few pages of bytes, shown to SQLite through a file system of Go that
// holds nothing else and cannot be written to: no query reaches a file of the machine,
// changes a table, or spills to a disk. What does not fit the page caches (2 MB a
// table or sorter) fails for want of a temporary file, which bounds memory. ATTACH and
// load_extension are off, values end at 20,000 bytes, texts of queries at 10,000, and a
// deadline interrupts what runs on. It is safe for concurrent use.
type engine struct {
	timeout time.Duration
	places  chan struct{} // queries at once
	vfsName string
	vfs     *vfs.FS
	files   *files
}

const (
	atOnce    = 4
	mostValue = 20_000 // bytes of a value or a row
	mostText  = 10_000 // bytes of a query
	mostRows  = 5_000  // of a result that is compared
)

func newEngine(timeout time.Duration) (*engine, error) {
	e := &engine{timeout: timeout, places: make(chan struct{}, atOnce), files: &files{open: map[string][]byte{}}}
	var err error
	e.vfsName, e.vfs, err = vfs.New(e.files)
	if err != nil {
		return nil, fmt.Errorf("file system for SQLite: %w", err)
	}
	return e, nil
}

func (e *engine) close() error { return e.vfs.Close() }

// build runs statements on a database, or on an empty one where it has no bytes, and returns
// the bytes of the result.
func (e *engine) build(ctx context.Context, before []byte, statements []string) (raw []byte, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if before != nil {
		err := c.Raw(func(x any) error {
			s, ok := x.(interface{ Deserialize([]byte) error })
			if !ok {
				return errors.New("this SQLite cannot deserialise")
			}
			return s.Deserialize(before)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, s := range statements {
		if _, err := c.ExecContext(ctx, s); err != nil {
			return nil, fmt.Errorf("%.80s: %w", s, err)
		}
	}
	return raw, c.Raw(func(x any) error {
		s, ok := x.(interface{ Serialize() ([]byte, error) })
		if !ok {
			return errors.New("this SQLite cannot serialise")
		}
		raw, err = s.Serialize()
		return err
	})
}

// table is what a query gave. Values are nil, int64, float64, string or []byte.
type table struct {
	columns []string
	rows    [][]any
	more    bool // rows beyond most
}

// queryError is the fault of who wrote the query.
type queryError struct{ text string }

func (e *queryError) Error() string { return e.text }

// query runs one query and keeps at most most rows. An error of type *queryError is the
// query's fault, any other one is ours or ctx's.
func (e *engine) query(ctx context.Context, raw []byte, text string, most int) (t *table, err error) {
	if err := readOnly(text); err != nil {
		return nil, &queryError{err.Error()}
	}
	select {
	case e.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-e.places }()
	name := e.files.add(raw)
	defer e.files.remove(name)
	db, err := sql.Open("sqlite", "file:"+name+"?vfs="+e.vfsName+"&mode=ro&immutable=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := confine(ctx, c); err != nil {
		return nil, err
	}
	qctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	t, err = read(qctx, c, text, most)
	switch {
	case err == nil || ctx.Err() != nil:
		return t, err
	case qctx.Err() != nil:
		return nil, &queryError{fmt.Sprintf("the query was stopped after %v", e.timeout)}
	}
	var se *sqlite.Error
	if errors.As(err, &se) {
		if se.Code()&0xff == ioError {
			return nil, &queryError{"the query needs more memory than it may have"}
		}
		return nil, &queryError{strings.TrimPrefix(se.Error(), "SQL logic error: ")}
	}
	return nil, err
}

// ioError is SQLITE_IOERR: the file system gave no temporary file.
const ioError = 10

// confine takes away what a query does not need. The numbers are SQLITE_LIMIT_….
func confine(ctx context.Context, c *sql.Conn) error {
	for _, p := range []string{"PRAGMA temp_store=FILE", "PRAGMA trusted_schema=OFF", "PRAGMA query_only=ON"} {
		if _, err := c.ExecContext(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	for _, l := range []struct{ id, most int }{{0, mostValue}, {1, mostText}, {2, 100}, {3, 200}, {4, 20}, {6, 50}, {7, 0}, {8, 200}, {10, 20}} {
		if _, err := sqlite.Limit(c, l.id, l.most); err != nil {
			return fmt.Errorf("limit %d: %w", l.id, err)
		}
	}
	return nil
}

func read(ctx context.Context, c *sql.Conn, text string, most int) (t *table, err error) {
	rows, err := c.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	t = &table{}
	t.columns, err = rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		if len(t.rows) == most {
			t.more = true
			return t, nil
		}
		row, at := make([]any, len(t.columns)), make([]any, len(t.columns))
		for i := range row {
			at[i] = &raw{&row[i]}
		}
		if err := rows.Scan(at...); err != nil {
			return nil, err
		}
		t.rows = append(t.rows, row)
	}
	return t, rows.Err()
}

// raw takes a value as SQLite has it. Not finite numbers become text, as JSON has none.
type raw struct{ into *any }

// Scan keeps the value.
func (r *raw) Scan(v any) error {
	switch v := v.(type) {
	case []byte:
		*r.into = bytes.Clone(v)
	case float64:
		*r.into = v
		if math.IsInf(v, 0) || math.IsNaN(v) {
			*r.into = fmt.Sprint(v)
		}
	case time.Time: // a column that was declared as a date
		*r.into = v.Format(time.DateOnly)
	default:
		*r.into = driver.Value(v)
	}
	return nil
}

// files are the databases that are being asked, by name.
type files struct {
	mu   sync.Mutex
	n    int
	open map[string][]byte
}

func (f *files) add(raw []byte) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	name := fmt.Sprintf("%d.db", f.n)
	f.open[name] = raw
	return name
}

func (f *files) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, name)
}

// Open opens a database for reading; there are no other files.
func (f *files) Open(name string) (fs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw, ok := f.open[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &file{Reader: bytes.NewReader(raw), name: name}, nil
}

type file struct {
	*bytes.Reader
	name string
}

func (f *file) Stat() (fs.FileInfo, error) { return f, nil }
func (f *file) Close() error               { return nil }
func (f *file) Name() string               { return f.name }
func (f *file) Mode() fs.FileMode          { return 0o444 }
func (f *file) ModTime() time.Time         { return time.Time{} }
func (f *file) IsDir() bool                { return false }
func (f *file) Sys() any                   { return nil }
