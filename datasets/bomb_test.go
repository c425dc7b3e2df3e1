package datasets_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hermes/datasets"
	"hermes/trajectory/columns"
)

type bombRow struct {
	Prompt string   `parquet:"prompt,dict,snappy"`
	More   []string `parquet:"more,dict,list,snappy"`
}

// flatRow has no list, and so no other bound on its values than that of a page.
type flatRow struct {
	Prompt string `parquet:"prompt,dict,snappy"`
}

func bomb[T any](t *testing.T, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := parquet.Write(&b, rows, parquet.PageBufferSize(1000)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// lie changes the headers of all pages of the last column, and the footer with them.
func lie(t *testing.T, file []byte, change func(*format.PageHeader), footer func(*format.ColumnMetaData)) []byte {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	must(err)
	meta := *f.Metadata()
	m := &meta.RowGroups[0].Columns[len(meta.RowGroups[0].Columns)-1].MetaData
	from := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		from = m.DictionaryPageOffset
	}
	out, at := bytes.Clone(file[:from]), from
	for at < from+m.TotalCompressedSize {
		r, h := bytes.NewReader(file[at:]), new(format.PageHeader)
		must(thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(r)).Decode(h))
		body := file[int64(len(file))-int64(r.Len()):][:h.CompressedPageSize]
		at = int64(len(file)) - int64(r.Len()) + int64(len(body))
		if h.DictionaryPageHeader.Valid {
			m.DictionaryPageOffset = int64(len(out))
		} else {
			m.DataPageOffset = int64(len(out))
		}
		change(h)
		head, err := thrift.Marshal(new(thrift.CompactProtocol), h)
		must(err)
		out = append(append(out, head...), body...)
	}
	m.TotalCompressedSize = int64(len(out)) - from
	footer(m)
	for i := range meta.RowGroups[0].Columns { // no index: its pages are elsewhere now
		c := &meta.RowGroups[0].Columns[i]
		c.OffsetIndexOffset = 0
		c.OffsetIndexLength = 0
		c.ColumnIndexOffset = 0
		c.ColumnIndexLength = 0
	}
	foot, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	must(err)
	out = append(out, foot...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(foot)))
	return append(out, "PAR1"...)
}

// TestParquetBombs reads small files that become gigabytes. Memory is what their pages hold.
func TestParquetBombs(t *testing.T) {
	list := make([]string, 500)
	for i := range list {
		list[i] = strings.Repeat("x", 1<<20)
	}
	long := bomb(t, bombRow{"a", list}, bombRow{"b", list[:1]})
	small := bomb(t, bombRow{"a", list[:3]})
	pages := bomb(t, slices.Repeat([]bombRow{{"a", []string{"x"}}}, 2000)...)
	values := func(h *format.PageHeader, n int32) {
		if h.DataPageHeader.Valid {
			h.DataPageHeader.V.NumValues = n
		}
		if h.DataPageHeaderV2.Valid {
			h.DataPageHeaderV2.V.NumValues = n
		}
	}
	tests := map[string]struct {
		file []byte
		says string
		rows int // that are read nevertheless
		bomb bool
	}{
		"a list of one long text of the dictionary": {long, "longer than", 1, false},
		"a page that says that it is great": {
			lie(t, small, func(h *format.PageHeader) { h.UncompressedPageSize = 2_000_000_000 }, func(*format.ColumnMetaData) {}),
			"become 2000000000",
			0,
			true,
		},
		"a page that says that it has many values": {
			lie(t, small, func(h *format.PageHeader) { values(h, 2_000_000_000) }, func(m *format.ColumnMetaData) { m.NumValues = 2_000_000_000 }),
			"2000000000 values",
			0,
			true,
		},
		"a page of a column without lists that says so": {
			lie(t, bomb(t, flatRow{"a"}), func(h *format.PageHeader) { values(h, 20_000_000) }, func(m *format.ColumnMetaData) { m.NumValues = 20_000_000 }),
			"20000000 values", 0, true,
		},
		"pages of lists that say it together": {
			lie(t, pages, func(h *format.PageHeader) { values(h, 10_000_000) }, func(m *format.ColumnMetaData) { m.NumValues = 20_000_000 }),
			"20000000 values of lists", 0, true,
		},
		"pages outside of the file": {
			lie(t, small, func(*format.PageHeader) {}, func(m *format.ColumnMetaData) { m.TotalCompressedSize = 1 << 60 }),
			"damaged file",
			0,
			false,
		},
		"a negative page": {
			lie(t, small, func(h *format.PageHeader) { h.CompressedPageSize = -1 << 30 }, func(*format.ColumnMetaData) {}),
			"damaged file",
			0,
			false,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bomb.parquet")
			if err := os.WriteFile(file, tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := datasets.Open(t.Context(), datasets.Options{MaxLine: 8 << 20}, file)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			var errs []error
			rows := 0
			for _, err := range d.Rows(t.Context()) {
				if err != nil {
					errs = append(errs, err)
				} else {
					rows++
				}
			}
			runtime.ReadMemStats(&after)
			err = errors.Join(errs...)
			if err == nil || !strings.Contains(err.Error(), tt.says) || rows != tt.rows || errors.Is(err, columns.ErrBomb) != tt.bomb {
				t.Errorf("%d rows, %v; want %d and %q", rows, err, tt.rows, tt.says)
			}
			if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 100 {
				t.Errorf("%d MiB were taken in all", got)
			}
		})
	}
}

// TestCompressionsOfParquet: a file gives the values that were written, or it is refused.
func TestCompressionsOfParquet(t *testing.T) {
	type row struct {
		Prompt string `parquet:"prompt"`
		Hash   string `parquet:"hash"`
	}
	rows := make([]row, 1000)
	for i := range rows {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		rows[i] = row{"Say it.", hex.EncodeToString(sum[:])} // no page of hashes becomes much smaller
	}
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd, &parquet.Lz4Raw} {
		t.Run(codec.String(), func(t *testing.T) {
			var b bytes.Buffer
			if err := parquet.Write(&b, rows, parquet.Compression(codec)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "rows.parquet")
			if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := datasets.Open(t.Context(), datasets.Options{}, file)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			n := 0
			for r, err := range d.Rows(t.Context()) {
				if err != nil && codec == &parquet.Lz4Raw && strings.Contains(err.Error(), "zstd") {
					return
				}
				if err != nil || string(r.Extra["hash"]) != `"`+rows[n].Hash+`"` {
					t.Fatalf("row %d: %s, %v; want %s", n, r.Extra["hash"], err, rows[n].Hash)
				}
				n++
			}
			if n != len(rows) {
				t.Errorf("%d rows of %d", n, len(rows))
			}
		})
	}
}
