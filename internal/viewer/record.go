package viewer

import (
	"bytes"
	"encoding/json"

	"hermes/trajectory"
)

// mostText bounds one text of a trajectory on the page, in bytes.
const mostText = 1 << 20

// recordView is a record as the page gets it.
type recordView struct {
	*trajectory.Record
	Trace    *struct{}       `json:"trace,omitempty"` // Nodes and Pending are what the page needs of it
	Children []*recordView   `json:"children,omitempty"`
	Run      string          `json:"run"` // its name
	At       int64           `json:"at"`
	Book     string          `json:"book,omitempty"`
	Why      string          `json:"why,omitempty"`
	Mode     trajectory.Mode `json:"mode"`
	Turns    int             `json:"turns"`
	Branches []branch        `json:"branches"`
	Nodes    []nodeView      `json:"nodes"`
	Pending  []messageView   `json:"pending,omitempty"`
	Decoded  string          `json:"decoded,omitempty"` // why tokens are numbers only
	Attempts []rowView       `json:"attempts,omitempty"`
	Samples  []rowView       `json:"samples,omitempty"` // the others of the same row
	Files    []file          `json:"artifacts,omitempty"`
	Scorer   []command       `json:"scorer,omitempty"` // what the scorer ran, where its artifacts were kept
}

// branch is a path through the tree of a trace. The first one leads to its head.
type branch struct {
	Path      []trajectory.NodeID `json:"path"`
	Head      bool                `json:"head"`
	Abandoned bool                `json:"abandoned"`
}

type nodeView struct {
	messageView
	Parent    trajectory.NodeID  `json:"parent"`
	Sampled   bool               `json:"sampled"`
	Finish    trajectory.Finish  `json:"finish,omitempty"`
	Model     string             `json:"model,omitempty"`
	Abandoned bool               `json:"abandoned,omitempty"`
	Versions  []trajectory.Span  `json:"versions,omitempty"`
	Extras    []trajectory.Block `json:"extras,omitempty"`
	Faults    []trajectory.Fault `json:"faults,omitempty"`
	Given     int                `json:"given"` // the first of tokens; a place where the engine sampled all has 0
	Tokens    []trajectory.Token `json:"tokens,omitempty"`
	Texts     []string           `json:"texts,omitempty"` // of the tokens
	LogProbs  []float32          `json:"logprobs,omitempty"`
	Masked    []trajectory.Run   `json:"masked,omitempty"` // of the sampled tokens: no log-prob is known
}

type messageView struct {
	trajectory.Message
	Opaque bool `json:"opaque,omitempty"` // there is provider state, which is not shown
	Cut    int  `json:"cut,omitempty"`    // bytes that are too many to be shown
}

func newMessageView(m trajectory.Message) messageView {
	v := messageView{Message: m, Opaque: len(m.Opaque) > 0}
	v.Message.Opaque = nil
	limit := func(s string) string {
		if len(s) > mostText {
			v.Cut += len(s) - mostText
			s = s[:mostText]
		}
		return s
	}
	v.Parts = append([]trajectory.Part(nil), m.Parts...)
	for i := range v.Parts {
		v.Parts[i].Text = limit(v.Parts[i].Text)
		if len(v.Parts[i].URL) > mostText {
			v.Parts[i].URL = limit(v.Parts[i].URL)
		}
	}
	v.Reasoning = limit(m.Reasoning)
	v.Calls = append([]trajectory.Call(nil), m.Calls...)
	for i, c := range v.Calls {
		var b bytes.Buffer
		if json.Indent(&b, []byte(c.Arguments), "", "  ") == nil {
			c.Arguments = b.String()
		}
		v.Calls[i].Arguments = limit(c.Arguments)
	}
	return v
}

// newRecordView makes the view of a record and of its sub-agents.
func newRecordView(r *trajectory.Record, decode Decoder, problem error) *recordView {
	v := &recordView{Record: r, Turns: r.Trace.Turns(), Nodes: []nodeView{}}
	for _, c := range r.Children {
		v.Children = append(v.Children, newRecordView(c, decode, problem))
	}
	if r.Trace == nil {
		return v
	}
	v.Mode, v.Branches = r.Trace.Mode, branches(r.Trace)
	for _, n := range r.Trace.Nodes {
		w := nodeView{messageView: newMessageView(n.Delta.Message), Parent: n.Parent, Sampled: n.Sampled(), Finish: n.Finish, Model: n.Model,
			Abandoned: n.Abandoned, Versions: n.Delta.Versions, Extras: n.Delta.Extras, Faults: n.Faults, Given: n.Delta.Given, Tokens: n.Delta.Tokens, LogProbs: n.Delta.LogProbs, Masked: n.Delta.Masked}
		if decode != nil && problem == nil && len(w.Tokens) > 0 {
			w.Texts, problem = decode(n.Delta.Tokens)
		}
		v.Nodes = append(v.Nodes, w)
	}
	if problem != nil {
		v.Decoded = "by number: " + problem.Error()
	}
	for _, m := range r.Trace.Pending {
		v.Pending = append(v.Pending, newMessageView(m))
	}
	return v
}

// branches are the paths to the head and to every other leaf, in the order of the leaves.
func branches(t *trajectory.Trace) []branch {
	inner := make([]bool, len(t.Nodes))
	for _, n := range t.Nodes {
		if n.Parent != trajectory.None {
			inner[n.Parent] = true
		}
	}
	list := []branch{{Path: path(t, t.Head), Head: true}}
	for i, n := range t.Nodes {
		if id := trajectory.NodeID(i); !inner[i] && id != t.Head {
			list = append(list, branch{Path: path(t, id), Abandoned: n.Abandoned})
		}
	}
	return list
}

func path(t *trajectory.Trace, leaf trajectory.NodeID) []trajectory.NodeID {
	n := 0
	for at := leaf; at != trajectory.None; at = t.Nodes[at].Parent {
		n++
	}
	out := make([]trajectory.NodeID, n)
	for at := leaf; at != trajectory.None; at = t.Nodes[at].Parent {
		n--
		out[n] = at
	}
	return out
}
