package cmd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/internal/build"
)

type dataStats struct {
	Datasets  []string `arg:"" name:"dataset" help:"File, hf:owner/name, samples:tasks, or - for stdin."`
	Tokenizer string   `nokey:"" help:"Also count tokens: a tokenizer file or folder, or builtin:words." placeholder:"FILE|DIR"`
	dataFlags
}

// Run describes rows; bad ones are counted.
func (c *dataStats) Run(h *host) error {
	var count func(string) (int, error)
	if c.Tokenizer != "" {
		var err error
		count, err = build.CountTokens(c.Tokenizer)
		if err != nil {
			return Usage("--tokenizer: %w", err)
		}
	}
	d, err := c.open(h, c.Datasets)
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.Stats(h.Ctx, count)
	if err != nil {
		return inputError(err)
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, s)
	}
	fmt.Fprintf(h.Stdio.Out, "rows %d, bad %d, bytes %d, doubled tasks %d\n", s.Rows, s.Bad, s.Bytes, s.Doubled)
	lines := []struct {
		name string
		s    *datasets.Spread
	}{{"turns", &s.Turns}, {"characters", &s.Characters}, {"tokens", s.Tokens}}
	for _, l := range lines {
		if l.s != nil {
			fmt.Fprintf(h.Stdio.Out, "%-10s  min %d, mean %.1f, p50 %d, p95 %d, max %d, sum %d\n", l.name, l.s.Min, l.s.Mean, l.s.P50, l.s.P95, l.s.Max, l.s.Sum)
		}
	}
	for _, m := range []struct {
		name   string
		counts map[string]int64
	}{{"role", s.Roles}, {"key", s.Keys}} {
		for _, k := range slices.Sorted(maps.Keys(m.counts)) {
			fmt.Fprintf(h.Stdio.Out, "%-10s  %d\t%s\n", m.name, m.counts[k], k)
		}
	}
	return nil
}

type dataFilter struct {
	Datasets []string `arg:"" name:"dataset" help:"File, hf:owner/name, samples:tasks, or - for stdin."`
	Into     string   `short:"o" required:"" nokey:"" placeholder:"FILE" help:"File to write: .jsonl, also with .gz or .zst."`
	Where    string   `required:"" nokey:"" placeholder:"EXPR" help:"Rows to keep, such as 'reward >= 0.5 and not (len.conversations > 40)'."`
	dataFlags
}

// Run writes the rows that fulfil the condition, as they are.
func (c *dataFilter) Run(h *host) error {
	keep, err := datasets.ParseCondition(c.Where)
	if err != nil {
		return Usage("--where %q: %w", c.Where, err)
	}
	left := int64(0)
	rows, err := c.pick(h, c.Datasets, []string{c.Into}, func(t datasets.Text) (int, error) {
		if keep(t) {
			return 0, nil
		}
		left++
		return -1, nil
	})
	if err != nil {
		return err
	}
	return h.result(c.JSON, map[string]any{"file": c.Into, "rows": rows[0], "left_out": left}, "%s: %d rows, %d left out\n", c.Into, rows[0], left)
}

// pick opens the rows and writes them where choose says.
func (f *dataFlags) pick(h *host, specs, paths []string, choose func(datasets.Text) (int, error)) ([]int64, error) {
	d, err := f.open(h, specs)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := keepsInputs(specs, paths...); err != nil {
		return nil, err
	}
	rows, err := d.Pick(h.Ctx, paths, datasets.BadRows(f.BadRows), choose)
	return rows, inputError(err)
}

// keepsInputs refuses to write over what is read.
func keepsInputs(inputs []string, outputs ...string) error {
	for _, in := range inputs {
		a, err := os.Stat(in)
		if err != nil {
			continue // no file: stdin, the hub, samples
		}
		for _, out := range outputs {
			if b, err := os.Stat(out); err == nil && os.SameFile(a, b) && !a.IsDir() {
				return Usage("%s would be written over while it is read: name another file", out)
			}
		}
	}
	return nil
}

type dataDedup struct {
	Datasets []string `arg:"" name:"dataset" help:"File, hf:owner/name, samples:tasks, or - for stdin."`
	Into     string   `short:"o" required:"" nokey:"" placeholder:"FILE" help:"File to write: .jsonl, also with .gz or .zst."`
	By       string   `nokey:"" default:"row" placeholder:"WHAT" help:"What is the same: row (all but its id), task, or a KEY of the rows."`
	dataFlags
}

// Run writes the first row of each kind.
func (c *dataDedup) Run(h *host) error {
	seen := map[[32]byte]struct{}{}
	var twice, without int64
	rows, err := c.pick(h, c.Datasets, []string{c.Into}, func(t datasets.Text) (int, error) {
		key, ok, err := t.Key(groupKey(c.By))
		if err != nil {
			return -1, err
		}
		if !ok {
			without++ // rows without the key are not the same as each other
			return 0, nil
		}
		if _, have := seen[key]; have {
			twice++
			return -1, nil
		}
		seen[key] = struct{}{}
		return 0, nil
	})
	if err != nil {
		return err
	}
	if without > 0 {
		fmt.Fprintf(h.Stdio.Err, "hermes: %d rows have no %s and are kept\n", without, c.By)
	}
	return h.result(c.JSON, map[string]any{"file": c.Into, "rows": rows[0], "doubled": twice}, "%s: %d rows, %d doubled\n", c.Into, rows[0], twice)
}

// groupKey is the key's name in the library.
func groupKey(by string) string {
	if by == "task" {
		return ""
	}
	return by
}

type dataSplit struct {
	Datasets []string `arg:"" name:"dataset" help:"File, hf:owner/name, samples:tasks, or - for stdin."`
	Into     string   `short:"o" nokey:"" default:"." placeholder:"DIR" help:"Folder for the files NAME.jsonl."`
	By       string   `nokey:"" default:"task" placeholder:"WHAT" help:"Rows with the same one stay together: task, row, or a KEY of the rows."`
	Parts    []string `nokey:"" default:"train=0.9,test=0.1" placeholder:"NAME=SHARE" help:"Parts and their shares."`
	dataFlags
}

// Run writes one file a part. A group is in one part, the same one with every dataset.
func (c *dataSplit) Run(h *host) error {
	var shares []datasets.Share
	var paths []string
	for _, text := range c.Parts {
		name, share, ok := strings.Cut(text, "=")
		w, err := strconv.ParseFloat(share, 64)
		if !ok || err != nil || !(w > 0) || w > 1e12 || name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return Usage("--parts %q: want NAME=SHARE, a plain name and a number above 0", text)
		}
		if slices.ContainsFunc(shares, func(s datasets.Share) bool { return s.Name == name }) {
			return Usage("--parts: %s is given twice", name)
		}
		shares, paths = append(shares, datasets.Share{Name: name, Weight: w}), append(paths, filepath.Join(c.Into, name+".jsonl"))
	}
	groups := make([]map[[32]byte]struct{}, len(shares))
	rows, err := c.pick(h, c.Datasets, paths, func(t datasets.Text) (int, error) {
		key, ok, err := t.Key(groupKey(c.By))
		if err != nil {
			return -1, err
		}
		if !ok {
			return -1, t.Fault(fmt.Errorf("it has no %s, by which rows stay together", c.By))
		}
		i := datasets.PartOf(key, uint64(c.Seed), shares)
		if groups[i] == nil {
			groups[i] = map[[32]byte]struct{}{}
		}
		groups[i][key] = struct{}{}
		return i, nil
	})
	if err != nil {
		return err
	}
	list := []map[string]any{}
	text := ""
	for i, p := range paths {
		list = append(list, map[string]any{"file": p, "rows": rows[i], "groups": len(groups[i])})
		text += fmt.Sprintf("%s: %d rows, %d groups\n", p, rows[i], len(groups[i]))
		if rows[i] == 0 {
			fmt.Fprintf(h.Stdio.Err, "hermes: the part %s is empty: no group fell into its share (%s); another --seed, larger shares or more groups help\n", shares[i].Name, c.Parts[i])
		}
	}
	return h.result(c.JSON, map[string]any{"parts": list}, "%s", text)
}
