// Package columns is the Parquet form of trajectories: one row a sample, with its
// messages, its score, and, for exact traces, every sequence's tokens, mask,
// log-probabilities and versions of the weights.
//
// Lists are three-level lists, so that all readers understand them. A [Writer] belongs to
// one goroutine.
package columns

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"hermes/trajectory"
)

// Row is one sample. Its columns are those that Python's datasets loads in all its versions:
// no maps, and lists that are sorted by name where a map is meant.
type Row struct {
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
	Rebought     int64        `parquet:"rebought"`
	Usage        Usage        `parquet:"usage"`
	Notes        []string     `parquet:"notes,list"`
	Sequences    []Sequence   `parquet:"sequences,list"`
	Compression  *Compression `parquet:"compression,optional"` // nil: as it was rolled out
}

// Compression says what was replaced by a summary after the rollout.
type Compression struct {
	Original     string `parquet:"original" json:"original"` // SHA-256 of the row as it was, see package compress
	Turns        int64  `parquet:"turns" json:"turns"`       // that the summary replaces
	TokensBefore int64  `parquet:"tokens_before" json:"tokens_before"`
	TokensAfter  int64  `parquet:"tokens_after" json:"tokens_after"`
	Summary      string `parquet:"summary" json:"summary"` // model or extractive
	Model        string `parquet:"model" json:"model,omitempty"`
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

// Message is one message in the layout of chat servers; ephemeral ones are left out. A key
// that a message does not have is null.
type Message struct {
	Role       string  `parquet:"role"`
	Content    string  `parquet:"content"`
	Reasoning  *string `parquet:"reasoning_content,optional"`
	Calls      []Call  `parquet:"tool_calls,optional,list"` // null: none
	ToolCallID *string `parquet:"tool_call_id,optional"`
	Name       *string `parquet:"name,optional"`
	Faults     []Fault `parquet:"faults,optional,list"` // null: none
}

// Fault is a place of an answer that could not be read; From and To are bytes of its text.
type Fault struct {
	Kind    string `parquet:"kind"`
	Message string `parquet:"message"`
	From    int64  `parquet:"from"`
	To      int64  `parquet:"to"`
}

// Call is one tool call. Its arguments are the model's text, as chat servers send them.
type Call struct {
	ID       string   `parquet:"id"`
	Type     string   `parquet:"type"` // always function
	Function Function `parquet:"function"`
	State    *string  `parquet:"state,optional"` // recovered, ambiguous, truncated, malformed; null: complete
}

// Function is what a call calls.
type Function struct {
	Name      string `parquet:"name"`
	Arguments string `parquet:"arguments"`
}

// Tool is what the model knows of a tool.
type Tool struct {
	Type     string `parquet:"type"` // always function
	Function Spec   `parquet:"function"`
}

// Spec describes a function; its parameters are the text of a JSON schema.
type Spec struct {
	Name        string `parquet:"name"`
	Description string `parquet:"description"`
	Parameters  string `parquet:"parameters"`
}

// Usage counts tokens and money.
type Usage struct {
	Prompt     int64    `parquet:"prompt"`
	Completion int64    `parquet:"completion"`
	Reasoning  int64    `parquet:"reasoning"`
	Cached     int64    `parquet:"cached"`
	CostUSD    *float64 `parquet:"cost_usd,optional"`
}

// Sequence is one training sequence of an exact trace. The four lists over tokens are
// equally long. Mask is 1 where the model sampled the token, its log-prob is known and no
// earlier sequence of the sample trains it; LogProbs is 0 where the token was given, and
// where the server gave none.
type Sequence struct {
	Tokens   []int32   `parquet:"tokens,list"`
	Mask     []int32   `parquet:"mask,list"`
	LogProbs []float32 `parquet:"logprobs,list"`
	Sampled  []bool    `parquet:"sampled,list"`
	Versions []Version `parquet:"versions,list"`
	Extras   []Extra   `parquet:"extras,list"`
}

// Extra is a captured tensor about a run of tokens: raw little-endian numbers in the blob
// of that SHA-256. Its first row belongs to the token at From.
type Extra struct {
	Name  string  `parquet:"name"`
	Dtype string  `parquet:"dtype"`
	Shape []int64 `parquet:"shape,list"`
	Blob  string  `parquet:"blob"`
	From  int64   `parquet:"from"`
}

// Version says from which token of the sequence on a version of the weights was in use.
type Version struct {
	From    int64  `parquet:"from"`
	Version string `parquet:"version"`
}

// NewRow makes the row of a record.
func NewRow(r *trajectory.Record) Row {
	row := Row{
		Key: r.Key.String(), ID: r.Row, Group: r.Group, Sample: int64(r.Sample), PromptIndex: r.PromptIndex,
		Attempt: int64(r.Attempt), Model: r.Model, Outcome: string(r.Outcome), Reason: r.Reason, Finish: string(r.Stop.Reason),
		Toolsets: r.Toolsets, Metadata: string(r.Metadata), Started: r.Started.UTC(), Seconds: r.Seconds,
		ModelSeconds: r.ModelSeconds, ToolSeconds: r.ToolSeconds, Turns: int64(r.Trace.Turns()), Rebought: int64(r.Rebought),
		Notes: r.Notes,
		Usage: Usage{Prompt: r.Usage.Prompt, Completion: r.Usage.Completion, Reasoning: r.Usage.Reasoning, Cached: r.Usage.Cached},
	}
	if r.Usage.CostKnown {
		row.Usage.CostUSD = &r.Usage.Cost
	}
	if r.Score != nil {
		row.Reward = &r.Score.Reward
		row.Rewards = named(r.Score.Parts)
		row.Metrics = named(r.Score.Metrics)
	}
	for _, name := range slices.Sorted(maps.Keys(r.ToolStats)) {
		c := r.ToolStats[name]
		row.ToolStats = append(row.ToolStats, NamedCount{name, int64(c.Count), int64(c.Success), int64(c.Failure)})
	}
	for _, t := range r.Tools {
		parameters := "{}"
		if len(t.Parameters) > 0 {
			parameters = string(t.Parameters)
		}
		row.Tools = append(row.Tools, Tool{"function", Spec{t.Name, t.Description, parameters}})
	}
	faults := r.Trace.VisibleFaults()
	for i, m := range r.Trace.Visible() {
		row.Messages = append(row.Messages, message(m, faults[i]))
	}
	if r.Trace != nil && r.Trace.Mode == trajectory.ModeExact {
		for s := range r.Trace.Sequences() {
			row.Sequences = append(row.Sequences, sequence(r.Trace, s))
		}
	}
	return row
}

func named(m map[string]float64) (out []Named) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Named{k, m[k]})
	}
	return out
}

func message(m trajectory.Message, faults []trajectory.Fault) Message {
	out := Message{Role: string(m.Role), Content: m.Content()}
	if len(m.Parts) > 1 || len(m.Parts) == 1 && m.Parts[0].Kind != trajectory.PartText {
		if b, err := json.Marshal(m.Parts); err == nil {
			out.Content = string(b) // several parts are written as JSON
		}
	}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	out.Reasoning, out.ToolCallID, out.Name = optional(m.Reasoning), optional(m.CallID), optional(m.Name)
	for _, c := range m.Calls {
		out.Calls = append(out.Calls, NewCall(c))
	}
	for _, f := range faults {
		out.Faults = append(out.Faults, Fault{f.Kind, f.Message, int64(f.From), int64(f.To)})
	}
	return out
}

// NewCall is a call in the layout of chat servers. A model that wrote no arguments at all
// called with none.
func NewCall(c trajectory.Call) Call {
	if c.Arguments == "" {
		c.Arguments = "{}"
	}
	out := Call{c.ID, "function", Function{c.Name, c.Arguments}, nil}
	if c.State != trajectory.CallComplete {
		state := c.State.String()
		out.State = &state
	}
	return out
}

func sequence(t *trajectory.Trace, s trajectory.Sequence) Sequence {
	var q Sequence
	begun := 0 // of the turn under way
	for i, id := range s.Nodes {
		d := t.Nodes[id].Delta
		for _, x := range d.Extras {
			q.Extras = append(q.Extras, extra(x, begun, len(q.Tokens)+d.Given))
		}
		if t.Nodes[id].Sampled() {
			begun = len(q.Tokens) + len(d.Tokens)
		}
		for k, v := range d.Versions {
			from := int64(len(q.Tokens) + d.Given + v.From)
			if n := len(q.Versions); k > 0 || n == 0 || q.Versions[n-1].Version != v.Version {
				q.Versions = append(q.Versions, Version{from, v.Version})
			}
		}
		for k, tok := range d.Tokens {
			sampled, p := k >= d.Given, float32(0)
			if sampled {
				p = d.LogProbs[k-d.Given]
			}
			var mask int32
			if sampled && i >= s.Fresh {
				mask = 1
			}
			q.Tokens = append(q.Tokens, int32(tok))
			q.Mask = append(q.Mask, mask)
			q.LogProbs = append(q.LogProbs, p)
			q.Sampled = append(q.Sampled, sampled)
		}
		for _, r := range d.Masked {
			clear(q.Mask[len(q.Mask)-len(d.LogProbs)+r.From : len(q.Mask)-len(d.LogProbs)+r.To])
		}
	}
	return q
}

// extra places a tensor: routed experts begin with the last token of the turn before, which
// was routed only when this one was asked; everything else begins with the answer.
func extra(x trajectory.Block, begun, sampled int) Extra {
	e := Extra{Name: x.Name, Dtype: x.Dtype, Blob: x.Blob, From: int64(sampled)}
	for _, n := range x.Shape {
		e.Shape = append(e.Shape, int64(n))
	}
	if x.Name == "routed_experts" {
		e.From = int64(max(0, begun-1))
	}
	return e
}

// groupBytes is about how much is collected before a row group is written.
const groupBytes = 32 << 20

// Writer writes rows to one Parquet file.
type Writer struct {
	w    *parquet.GenericWriter[Row]
	size int // bytes of the row group, about
}

// NewWriter starts a file; created names the writing program in it. logProbs says of which
// distribution the log-probs are, raw or processed; it is in the file's metadata
// under hermes.logprobs. Empty: the traces have none.
func NewWriter(w io.Writer, created, logProbs string) *Writer {
	o := []parquet.WriterOption{parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.MaxRowsPerRowGroup(1000), parquet.CreatedBy(created, "", "")}
	if logProbs != "" {
		o = append(o, parquet.KeyValueMetadata("hermes.logprobs", logProbs))
	}
	return &Writer{w: parquet.NewGenericWriter[Row](w, o...)}
}

// Write appends the row of a record and says how many bytes it has, about.
func (w *Writer) Write(r *trajectory.Record) (int, error) { return w.WriteRow(NewRow(r)) }

// WriteRow appends a row and says how many bytes it has, about.
func (w *Writer) WriteRow(row Row) (int, error) {
	size := row.size()
	if _, err := w.w.Write([]Row{row}); err != nil {
		return 0, fmt.Errorf("parquet row of %s: %w", row.Key, err)
	}
	w.size += size
	if w.size >= groupBytes {
		w.size = 0
		if err := w.w.Flush(); err != nil {
			return 0, fmt.Errorf("parquet row of %s: %w", row.Key, err)
		}
	}
	return size, nil
}

func (r *Row) size() int {
	n := 500 + len(r.Metadata)
	for _, m := range r.Messages {
		n += 20 + len(m.Content)
		if m.Reasoning != nil {
			n += len(*m.Reasoning)
		}
		for _, c := range m.Calls {
			n += len(c.Function.Arguments) + len(c.Function.Name)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Function.Description) + len(t.Function.Parameters)
	}
	for _, s := range r.Sequences {
		n += 13 * len(s.Tokens)
	}
	return n
}

// Close ends the file; it does not close what it writes to.
func (w *Writer) Close() error { return w.w.Close() }
