package datasets

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"hermes/datasets/scan"
)

// ShardFiles splits d into n files in dir, each row by the hash of its id as --shard
// does, and returns their paths. Rows pass through as they are, as JSONL; packing is
// "", "gz" or "zst". Rows whose id cannot be found out are spread by their content and
// keep their fault. Files that stand there already are replaced at the end.
func (d *Dataset) ShardFiles(ctx context.Context, dir, stem string, n int, packing string) (paths []string, err error) {
	if n < 1 || n > 4096 {
		return nil, fmt.Errorf("%d shards: want 1 to 4096", n)
	}
	if packing != "" && packing != "gz" && packing != "zst" {
		return nil, fmt.Errorf("packing %q: want gz or zst", packing)
	}
	outs := make([]*output, n)
	defer func() {
		for _, o := range outs {
			if o != nil {
				err = errors.Join(err, o.abort())
			}
		}
	}()
	for i := range outs {
		name := fmt.Sprintf("%s-%05d-of-%05d.jsonl", stem, i, n)
		if packing != "" {
			name += "." + packing
		}
		outs[i], err = create(filepath.Join(dir, name), max(4<<10, (1<<20)/n))
		if err != nil {
			return nil, err
		}
		paths = append(paths, outs[i].path)
	}
	split := Shard{N: n}
	dec := newDecoder(d.o)
	err = d.each(ctx, func(r raw) error {
		if r.err != nil {
			return r.fault(r.err)
		}
		id := dec.quickID(r)
		if !d.o.Shard.holds(id) {
			return nil
		}
		return outs[split.of(id)].line(r.data)
	})
	for _, o := range outs {
		if err == nil {
			err = o.commit()
		}
	}
	return paths, err
}

// quickID finds a row's id without decoding the rest of it: the member id of the
// object, else index and hash. It gives what decoding gives for every good row.
func (d *decoder) quickID(r raw) string {
	if v := d.idValue(r.data); v != nil && !scan.Null(v) {
		if scan.Kind(v) == "text" {
			if id, err := scan.Unquote(v); err == nil {
				return id
			}
		}
		return string(v)
	}
	return d.implicitID(r.index, r.data)
}

func (d *decoder) idValue(text []byte) []byte {
	key := "id"
	for from, to := range d.renames {
		switch {
		case to == "id":
			key = from
		case from == "id" && key == "id":
			key = ""
		}
	}
	if key == "" {
		return nil
	}
	if len(d.renames) == 0 {
		v, _ := scan.Find(text, key)
		return v
	}
	fields, err := scan.Object(text, d.fields[:0], intern)
	d.fields = fields[:0]
	if err != nil {
		return nil
	}
	if v := find(fields, key); v != nil || !strings.Contains(key, ".") {
		return v
	}
	return reach(fields, key)
}

func find(fields []scan.Field, key string) []byte {
	for _, f := range fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}
