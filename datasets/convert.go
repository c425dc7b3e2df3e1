package datasets

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"hermes/datasets/scan"
)

// Layout is how a conversation is in a row.
type Layout string

// The layouts. Empty leaves rows as they are.
const (
	AsIs     Layout = ""
	Prompts  Layout = "prompt"   // {"prompt": text, or a list of messages}: the task alone
	Messages Layout = "messages" // {"messages": [{"role", "content", …}]}: the whole conversation
	ShareGPT Layout = "sharegpt" // {"conversations": [{"from", "value"}]}: the whole conversation
)

// Convert writes the rows of d to path, whose name gives format and packing (.jsonl,
// .json, .csv, .tsv, .parquet; .jsonl and .csv also with .gz or .zst), and returns how many
// there were. The first row that cannot be used ends it, unless bad is [Skip].
//
// Parquet columns are inferred in their own pass. A column of several kinds of values
// holds texts as they are and other values, integers beyond 64 bits too, as their JSON; a
// mark in the file tells its reader here which is which, so that rows come back as they
// were. blurred names the columns in which a text such as "5" is beside other values,
// so that they come back as texts. CSV cells of nested values hold their JSON text.
func (d *Dataset) Convert(ctx context.Context, path string, to Layout, bad BadRows) (rows int64, blurred []string, err error) {
	switch to {
	case AsIs, Prompts, Messages, ShareGPT:
	default:
		return 0, nil, fmt.Errorf("layout %q: want prompt, messages or sharegpt", to)
	}
	out, err := create(path, 1<<20)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, out.abort()) }()
	each := func(yield func([]scan.Field, []byte) error) error {
		rows = 0
		return d.converted(ctx, to, bad, func(f []scan.Field, text []byte) error {
			rows++
			return yield(f, text)
		})
	}
	switch format := byName(path); {
	case format == Parquet:
		blurred, err = writeParquet(out, each)
	case format == CSV:
		err = writeCSV(out, ',', each)
	case format == TSV:
		err = writeCSV(out, '\t', each)
	case format == JSON:
		err = writeArray(out, each)
	case format == JSONL:
		err = each(func(_ []scan.Field, text []byte) error { return out.line(text) })
	default:
		err = fmt.Errorf("%s: no format known by that name (want .jsonl, .json, .csv, .tsv, .parquet)", path)
	}
	if err == nil {
		err = out.commit()
	}
	return rows, blurred, err
}

type eachRow func(yield func(fields []scan.Field, text []byte) error) error

// converted yields each usable row as members and as text.
func (d *Dataset) converted(ctx context.Context, to Layout, bad BadRows, yield func([]scan.Field, []byte) error) error {
	dec := newDecoder(d.o)
	dec.lent = true
	var text []byte
	return d.each(ctx, func(r raw) error {
		row, err := dec.row(r)
		if err != nil {
			if bad == Skip {
				return nil
			}
			return err
		}
		if !d.o.Shard.holds(row.ID) {
			return nil
		}
		if to == AsIs && len(d.o.Map) == 0 {
			fields, err := dec.split(r.data)
			if err != nil {
				return r.fault(err)
			}
			return yield(fields, r.data)
		}
		fields, err := dec.relaid(r.data, to)
		if err != nil {
			return r.fault(err)
		}
		text = appendObject(text[:0], fields)
		return yield(fields, text)
	})
}

// relaid is the row with its task in another layout; the other members keep their
// order and bytes.
func (d *decoder) relaid(text []byte, to Layout) ([]scan.Field, error) {
	fields, err := d.split(text)
	if err != nil || to == AsIs {
		return fields, err
	}
	f, err := d.taskField(fields)
	if err != nil {
		return nil, err
	}
	var row Row
	if err := d.task(&row, fields); err != nil {
		return nil, err
	}
	all := row.Prompt
	if to != Prompts && scan.Kind(f.Value) != "text" {
		all, err = conversation(f.Value, true)
		if err != nil {
			return nil, err
		}
	}
	key, value := layOut(all, to)
	out := make([]scan.Field, 0, len(fields)+1)
	for _, g := range fields {
		switch {
		case g.Key == f.Key || strings.HasPrefix(f.Key, g.Key+"."):
			out = append(out, scan.Field{Key: key, Value: value})
		case g.Key == key, g.Key == "input" && f.Key == "instruction": // replaced, or part of the task
		default:
			out = append(out, g)
		}
	}
	return out, nil
}

func appendObject(to []byte, fields []scan.Field) []byte {
	to = append(to, '{')
	for i, f := range fields {
		if i > 0 {
			to = append(to, ", "...)
		}
		to = append(scan.Quote(to, f.Key), ": "...)
		to = append(to, f.Value...)
	}
	return append(to, '}')
}

func writeArray(out *output, each eachRow) error {
	sep := "[\n"
	err := each(func(_ []scan.Field, text []byte) error {
		if _, err := out.w.WriteString(sep); err != nil {
			return err
		}
		sep = ",\n"
		_, err := out.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	if sep == "[\n" {
		_, err = out.w.WriteString("[]\n")
	} else {
		_, err = out.w.WriteString("\n]\n")
	}
	return err
}

// writeCSV learns the columns first, so that every row has the same ones.
func writeCSV(out *output, comma rune, each eachRow) error {
	var header []string
	seen := map[string]int{}
	err := each(func(fields []scan.Field, _ []byte) error {
		for _, f := range fields {
			if _, known := seen[f.Key]; !known {
				seen[f.Key] = len(header)
				header = append(header, f.Key)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w := csv.NewWriter(out)
	w.Comma = comma
	if err := w.Write(header); err != nil {
		return err
	}
	cells := make([]string, len(header))
	err = each(func(fields []scan.Field, _ []byte) error {
		clear(cells)
		for _, f := range fields {
			cell := string(f.Value)
			if scan.Kind(f.Value) == "text" {
				cell, err = scan.Unquote(f.Value)
				if err != nil {
					return fmt.Errorf("%s: %w", f.Key, err)
				}
			} else if scan.Null(f.Value) {
				cell = ""
			}
			cells[seen[f.Key]] = cell
		}
		return w.Write(cells)
	})
	w.Flush()
	return errors.Join(err, w.Error())
}

// parquetGroupRows bounds the memory of the writer.
const parquetGroupRows = 10000

// writeParquet returns the columns whose values are no longer distinguished.
func writeParquet(out *output, each eachRow) (blurred []string, err error) {
	top := &shape{kind: object, kids: map[string]*shape{}}
	err = each(func(_ []scan.Field, text []byte) error {
		top.learn(text, 0)
		if top.kind != object || len(top.keys) > 4096 {
			return fmt.Errorf("more than 4096 different keys are no table")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(top.kids) == 0 {
		return nil, errors.New("no rows: nothing tells the columns")
	}
	columns := make([][]parquet.Value, top.number(0, 0))
	var m marks
	top.marks(nil, &m, &blurred)
	marked, err := json.Marshal(m)
	if err != nil {
		return blurred, err
	}
	w := parquet.NewWriter(out, parquet.NewSchema("rows", top.group()), parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(parquetGroupRows),
		parquet.KeyValueMetadata(marksKey, string(marked)))
	var row parquet.Row
	err = each(func(fields []scan.Field, _ []byte) error {
		for i := range columns {
			columns[i] = columns[i][:0]
		}
		row = row[:0]
		for key, kid := range top.kids {
			if err := kid.shred(columns, find(fields, key), 0, 0); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		for _, c := range columns {
			row = append(row, c...)
		}
		_, err := w.WriteRows([]parquet.Row{row})
		return err
	})
	return blurred, errors.Join(err, w.Close())
}
