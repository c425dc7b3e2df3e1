package cmd

import (
	"encoding/json"
	"errors"
	"fmt"

	"hermes/datasets"
	"hermes/internal/build"
	"hermes/internal/settings"
	"hermes/trajectory"
)

// dataCmd is `hermes data`.
type dataCmd struct {
	Show     dataShow     `cmd:"" help:"Print what the keys are used for, and the first rows."`
	Validate dataValidate `cmd:"" help:"Read every row; name bad ones and doubled ids."`
	Convert  dataConvert  `cmd:"" help:"Write rows in another format or layout."`
	Shard    dataShard    `cmd:"" help:"Split rows into files by the hash of their ids, as --shard does."`
	Mix      dataMix      `cmd:"" help:"Draw rows from several datasets by weight."`
	Stats    dataStats    `cmd:"" help:"Count rows, keys, turns, characters and tokens."`
	Filter   dataFilter   `cmd:"" help:"Keep the rows that fulfil a condition."`
	Dedup    dataDedup    `cmd:"" help:"Leave out rows that are the same as an earlier one."`
	Split    dataSplit    `cmd:"" help:"Split rows into parts by share, groups kept whole."`
}

// dataFlags are common to the data commands.
type dataFlags struct {
	settings.RowFlags `group:"Rows:"`
	Seed              int64 `default:"0" help:"Seed of everything random."`
	JSON              bool  `name:"json" nokey:"" help:"JSON on stdout."`
}

func (f *dataFlags) open(h *host, specs []string) (*datasets.Dataset, error) {
	o, err := h.rowOptions(f.RowFlags, f.Seed)
	if err != nil {
		return nil, err
	}
	d, err := build.OpenRows(h.Ctx, o, specs...)
	return d, inputError(err)
}

// reportSkipped says which rows --bad-rows skip leaves out.
func (f *dataFlags) reportSkipped(h *host, d *datasets.Dataset) error {
	if f.BadRows != string(datasets.Skip) {
		return nil
	}
	r, err := d.Validate(h.Ctx)
	if err != nil {
		return inputError(err)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(h.Stdio.Err, "hermes: skipped: %v\n", e)
	}
	if more := r.Bad - int64(len(r.Errors)); more > 0 {
		fmt.Fprintf(h.Stdio.Err, "hermes: skipped: %d more bad rows\n", more)
	}
	return nil
}

type dataShow struct {
	Datasets []string `arg:"" name:"dataset" help:"File, hf:owner/name, samples:tasks, or - for stdin."`
	Rows     int      `short:"n" nokey:"" default:"5" help:"Rows to show."`
	Width    int      `nokey:"" default:"120" help:"Characters of a text that are shown."`
	dataFlags
}

// Run shows rows for people, or whole as JSON lines.
func (c *dataShow) Run(h *host) error {
	if c.Rows < 1 || c.Width < 20 {
		return Usage("show %d rows, %d wide: want at least 1 row, 20 wide", c.Rows, c.Width)
	}
	d, err := c.open(h, c.Datasets)
	if err != nil {
		return err
	}
	defer d.Close()
	if !c.JSON {
		return inputError(d.Show(h.Ctx, h.Stdio.Out, c.Rows, c.Width))
	}
	left := c.Rows
	for row, err := range d.Rows(h.Ctx) {
		var bad *datasets.RowError
		switch {
		case errors.As(err, &bad) && c.BadRows == string(datasets.Skip):
			fmt.Fprintf(h.Stdio.Err, "hermes: skipped: %v\n", bad)
			continue
		case err != nil:
			return inputError(err)
		}
		shown := shownRow{row.ID, row.Explicit, row.File, row.Line, row.Index, row.Task, row.Prompt, row.Hermes, row.Scoring, row.Extra}
		if err := printJSON(h.Stdio.Out, shown); err != nil {
			return err
		}
		left--
		if left == 0 {
			break
		}
	}
	return nil
}

// shownRow is a row as `data show --json` prints it.
type shownRow struct {
	ID       string                     `json:"id"`
	Explicit bool                       `json:"explicit_id"`
	File     string                     `json:"file"`
	Line     int64                      `json:"line,omitempty"`
	Index    int64                      `json:"index"`
	Task     string                     `json:"task_key"`
	Prompt   []trajectory.Message       `json:"prompt"`
	Hermes   datasets.Overrides         `json:"hermes"`
	Scoring  datasets.Scoring           `json:"scoring"`
	Extra    map[string]json.RawMessage `json:"extra"`
}

type dataValidate struct {
	Datasets   []string `arg:"" name:"dataset" help:"File, hf:owner/name, samples:tasks, or - for stdin."`
	ModelFiles string   `name:"model-files" nokey:"" help:"Also render each row with the chat template of this model: a folder or hf:owner/name." placeholder:"DIR|hf:NAME"`
	Template   string   `nokey:"" help:"Also render each row with this chat template: a file, or a name among the model files'." placeholder:"FILE|NAME"`
	Variables  string   `name:"template-kwargs" nokey:"" help:"JSON object of template variables." placeholder:"JSON"`
	dataFlags
}

// validation is what `data validate --json` prints.
type validation struct {
	OK          bool             `json:"ok"`
	Rows        int64            `json:"rows"`
	Bad         int64            `json:"bad"`
	Errors      []string         `json:"errors"` // the first hundred
	Duplicates  []string         `json:"duplicates"`
	Unused      []string         `json:"unused"`
	Task        map[string]int64 `json:"task_keys"`
	Scoring     map[string]int64 `json:"scoring_keys"`
	Extra       map[string]int64 `json:"extra_keys"`
	Fingerprint string           `json:"fingerprint"`
}

// Run reads everything; the exit code is 2 when a run would refuse the data.
func (c *dataValidate) Run(h *host) error {
	if c.Template != "" || c.ModelFiles != "" {
		return c.render(h)
	}
	d, err := c.open(h, c.Datasets)
	if err != nil {
		return err
	}
	defer d.Close()
	r, err := d.Validate(h.Ctx)
	if err != nil {
		return inputError(err)
	}
	print, err := d.Fingerprint(h.Ctx)
	if err != nil {
		return inputError(err)
	}
	verdict := r.Err(datasets.BadRows(c.BadRows))
	err = h.result(c.JSON, jsonValidation(r, print, verdict == nil),
		"%srows %d, bad %d, doubled ids %d\nfingerprint %s\n", r.Mapping, r.Rows, r.Bad, len(r.Duplicates), print)
	if err != nil {
		return err
	}
	return inputError(verdict)
}

func jsonValidation(r datasets.Report, print string, ok bool) validation {
	v := validation{OK: ok, Rows: r.Rows, Bad: r.Bad, Errors: []string{}, Duplicates: []string{}, Unused: append([]string{}, r.Unused...),
		Task: r.Mapping.Task, Scoring: r.Mapping.Scoring, Extra: r.Mapping.Extra, Fingerprint: print}
	for _, e := range r.Errors {
		v.Errors = append(v.Errors, e.Error())
	}
	for _, e := range r.Duplicates {
		v.Duplicates = append(v.Duplicates, e.Error())
	}
	return v
}
