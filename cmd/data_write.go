package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/datasets/hub"
)

type dataConvert struct {
	Datasets []string `arg:"" name:"dataset" help:"File, hf:owner/name, samples:tasks, or - for stdin."`
	Into     string   `short:"o" required:"" nokey:"" placeholder:"FILE" help:"File to write; its name gives the format: .jsonl, .json, .csv, .tsv, .parquet, the first and .csv also with .gz or .zst."`
	Layout   string   `nokey:"" enum:",prompt,messages,sharegpt" default:"" help:"Lay the task out as prompt, messages or sharegpt (default: as it is)."`
	dataFlags
}

// Run writes the rows; a row that cannot be used ends it unless it may be skipped.
func (c *dataConvert) Run(h *host) error {
	d, err := c.open(h, c.Datasets)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := c.reportSkipped(h, d); err != nil {
		return err
	}
	if err := keepsInputs(c.Datasets, c.Into); err != nil {
		return err
	}
	n, blurred, err := d.Convert(h.Ctx, c.Into, datasets.Layout(c.Layout), datasets.BadRows(c.BadRows))
	if err != nil {
		return inputError(err)
	}
	if len(blurred) > 0 {
		fmt.Fprintf(h.Stdio.Err, "%s: texts such as \"5\" are beside other values: all are texts in the file\n", strings.Join(blurred, ", "))
	}
	out := map[string]any{"file": c.Into, "rows": n}
	if len(blurred) > 0 {
		out["blurred"] = blurred
	}
	return h.result(c.JSON, out, "%s: %d rows\n", c.Into, n)
}

type dataShard struct {
	Datasets []string `arg:"" name:"dataset" help:"File, hf:owner/name, samples:tasks, or - for stdin."`
	Parts    int      `short:"n" required:"" nokey:"" help:"Number of files."`
	Into     string   `short:"o" nokey:"" default:"." placeholder:"DIR" help:"Folder for the files."`
	Stem     string   `nokey:"" placeholder:"NAME" help:"Beginning of the files' names (default: that of the dataset)."`
	Pack     string   `nokey:"" enum:",gz,zst" default:"" help:"Compress the files: gz or zst."`
	dataFlags
}

// Run writes the files and prints their paths.
func (c *dataShard) Run(h *host) error {
	stem := cmp.Or(c.Stem, stemOf(c.Datasets[0]))
	if stem != filepath.Base(stem) || stem == "." || stem == ".." {
		return Usage("--stem %q: want a plain name", stem)
	}
	d, err := c.open(h, c.Datasets)
	if err != nil {
		return err
	}
	defer d.Close()
	paths, err := d.ShardFiles(h.Ctx, c.Into, stem, c.Parts, c.Pack)
	if err != nil {
		return inputError(err)
	}
	return h.result(c.JSON, map[string]any{"files": paths}, "%s\n", strings.Join(paths, "\n"))
}

// stemOf names a dataset by its file: tasks.jsonl.gz is tasks, stdin is rows.
func stemOf(spec string) string {
	if spec == "-" {
		return "rows"
	}
	if ref, err := hub.Parse(spec); err == nil {
		return ref.Name
	}
	base, _, _ := strings.Cut(filepath.Base(spec), ".")
	if base == "" {
		return "rows"
	}
	return base
}

type dataMix struct {
	Parts []string `arg:"" name:"dataset[=weight]" help:"Dataset, with its share of the rows (default 1)."`
	Into  string   `short:"o" required:"" nokey:"" placeholder:"FILE" help:"File to write: .jsonl, also with .gz or .zst."`
	Rows  int64    `short:"n" nokey:"" help:"Rows to draw (default: until the first dataset is empty)."`
	All   bool     `nokey:"" help:"Use up every dataset, even though the shares drift at the end."`
	dataFlags
}

// mixedPart is one line of what `data mix` did.
type mixedPart struct {
	Dataset string  `json:"dataset"`
	Weight  float64 `json:"weight"`
	Rows    int64   `json:"rows"`
}

// Run draws the rows, checks that no id occurs twice among them, and only then puts the
// file in its place.
func (c *dataMix) Run(h *host) error {
	var parts []datasets.Part
	var mixed []mixedPart
	for _, text := range c.Parts {
		p, err := weighted(text)
		if err != nil {
			return err
		}
		d, err := c.open(h, []string{p.Dataset})
		if err != nil {
			return err
		}
		defer d.Close()
		parts, mixed = append(parts, datasets.Part{Data: d, Weight: p.Weight}), append(mixed, p)
	}
	for _, p := range mixed {
		if err := keepsInputs([]string{p.Dataset}, c.Into); err != nil {
			return err
		}
	}
	total, err := c.write(h, parts, mixed)
	if err != nil {
		return inputError(err)
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, map[string]any{"file": c.Into, "rows": total, "parts": mixed})
	}
	for _, p := range mixed {
		fmt.Fprintf(h.Stdio.Out, "%d\t%s\n", p.Rows, p.Dataset)
	}
	_, err = fmt.Fprintf(h.Stdio.Out, "%s: %d rows\n", c.Into, total)
	return err
}

func (c *dataMix) write(h *host, parts []datasets.Part, mixed []mixedPart) (total int64, err error) {
	tmp := filepath.Join(filepath.Dir(c.Into), ".hermes-mix-"+filepath.Base(c.Into))
	defer func() {
		if e := os.Remove(tmp); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	taken, err := datasets.Mix(h.Ctx, tmp, parts, datasets.MixOptions{Seed: uint64(c.Seed), Rows: c.Rows, All: c.All})
	if err != nil {
		return 0, err
	}
	for i, n := range taken {
		mixed[i].Rows = n
		total += n
	}
	written, err := datasets.Open(h.Ctx, datasets.Options{PromptKey: c.PromptKey}, tmp)
	if err != nil {
		return 0, err
	}
	defer written.Close()
	r, err := written.Validate(h.Ctx)
	for _, d := range r.Duplicates {
		err = errors.Join(err, fmt.Errorf("id %q would be twice in the mixture", d.ID))
	}
	if err != nil {
		return 0, err
	}
	return total, os.Rename(tmp, c.Into)
}

// weighted reads DATASET or DATASET=WEIGHT.
func weighted(text string) (mixedPart, error) {
	i := strings.LastIndexByte(text, '=')
	if i < 0 {
		return mixedPart{Dataset: text, Weight: 1}, nil
	}
	w, err := strconv.ParseFloat(text[i+1:], 64)
	if err != nil || !(w > 0) || w > 1e12 {
		return mixedPart{}, Usage("%s: weight %q: want a number above 0", text, text[i+1:])
	}
	return mixedPart{Dataset: text[:i], Weight: w}, nil
}
