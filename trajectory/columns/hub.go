package columns

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// HubRow is a [Row] for readers without maps, such as Python's datasets: what is a map in
// a Row is a list sorted by name.
type HubRow struct {
	Key          string       `parquet:"key"`
	ID           string       `parquet:"id"`
	Group        string       `parquet:"group"`
	Sample       int64        `parquet:"sample"`
	PromptIndex  int64        `parquet:"prompt_index"`
	Attempt      int64        `parquet:"attempt"`
	Model        string       `parquet:"model"`
	Outcome      string       `parquet:"outcome"`
	Reason       string       `parquet:"reason"`
	Finish       string       `parquet:"finish"`
	Reward       *float64     `parquet:"reward,optional"`
	Rewards      []Named      `parquet:"rewards,list"`
	Metrics      []Named      `parquet:"metrics,list"`
	Messages     []Message    `parquet:"messages,list"`
	Tools        []Tool       `parquet:"tools,list"`
	Toolsets     []string     `parquet:"toolsets,list"`
	ToolStats    []NamedCount `parquet:"tool_stats,list"`
	Metadata     string       `parquet:"metadata"` // JSON
	Started      time.Time    `parquet:"started,timestamp(microsecond)"`
	Seconds      float64      `parquet:"seconds"`
	ModelSeconds float64      `parquet:"model_seconds"`
	ToolSeconds  float64      `parquet:"tool_seconds"`
	Turns        int64        `parquet:"turns"`
	Usage        Usage        `parquet:"usage"`
	Notes        []string     `parquet:"notes,list"`
	Sequences    []Sequence   `parquet:"sequences,list"`
}

// Named is one entry of a map of numbers.
type Named struct {
	Name  string  `parquet:"name"`
	Value float64 `parquet:"value"`
}

// NamedCount counts the uses of the tool of that name.
type NamedCount struct {
	Name    string `parquet:"name"`
	Count   int64  `parquet:"count"`
	Success int64  `parquet:"success"`
	Failure int64  `parquet:"failure"`
}

// Hub is the row for the hub.
func (r Row) Hub() HubRow {
	h := HubRow{Key: r.Key, ID: r.ID, Group: r.Group, Sample: r.Sample, PromptIndex: r.PromptIndex, Attempt: r.Attempt, Model: r.Model,
		Outcome: r.Outcome, Reason: r.Reason, Finish: r.Finish, Reward: r.Reward, Rewards: named(r.Rewards), Metrics: named(r.Metrics),
		Messages: r.Messages, Tools: r.Tools, Toolsets: r.Toolsets, Metadata: r.Metadata, Started: r.Started, Seconds: r.Seconds,
		ModelSeconds: r.ModelSeconds, ToolSeconds: r.ToolSeconds, Turns: r.Turns, Usage: r.Usage, Notes: r.Notes, Sequences: r.Sequences}
	for _, name := range slices.Sorted(maps.Keys(r.ToolStats)) {
		c := r.ToolStats[name]
		h.ToolStats = append(h.ToolStats, NamedCount{name, c.Count, c.Success, c.Failure})
	}
	return h
}

func named(m map[string]float64) (out []Named) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Named{k, m[k]})
	}
	return out
}

// HubWriter writes rows for the hub. It belongs to one goroutine.
type HubWriter struct {
	w    *parquet.GenericWriter[HubRow]
	size int // bytes of the row group, about
}

// NewHubWriter starts a file; created names the writing program in it.
func NewHubWriter(w io.Writer, created string) *HubWriter {
	return &HubWriter{w: parquet.NewGenericWriter[HubRow](w, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.MaxRowsPerRowGroup(1000), parquet.CreatedBy(created, "", ""))}
}

// Write appends a row and says how many bytes it has, about.
func (w *HubWriter) Write(r Row) (int, error) {
	n := r.size()
	if _, err := w.w.Write([]HubRow{r.Hub()}); err != nil {
		return 0, err
	}
	if w.size += n; w.size >= groupBytes {
		w.size = 0
		return n, w.w.Flush()
	}
	return n, nil
}

// Close ends the file; it does not close what it writes to.
func (w *HubWriter) Close() error { return w.w.Close() }

// HubRows calls each with every row of a file of size bytes that a [HubWriter] wrote; a
// file with other columns is [ErrForeign].
func HubRows(r io.ReaderAt, size int64, each func(i int64, row HubRow) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parquet: damaged file: %v", p)
		}
	}()
	f, err := parquet.OpenFile(r, size)
	if err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	known := map[string]bool{}
	for _, c := range parquet.SchemaOf(HubRow{}).Fields() {
		known[c.Name()] = true
	}
	for _, c := range f.Schema().Fields() {
		if !known[c.Name()] {
			return fmt.Errorf("%w: column %q", ErrForeign, c.Name())
		}
	}
	gr := parquet.NewGenericReader[HubRow](f)
	defer gr.Close()
	for at := int64(0); ; {
		buf := make([]HubRow, 16)
		n, err := gr.Read(buf)
		for _, row := range buf[:n] {
			if err := each(at, row); err != nil {
				return err
			}
			at++
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("parquet row %d: %w", at, err)
		}
	}
}
