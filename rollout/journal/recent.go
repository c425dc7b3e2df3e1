package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"sync"

	"hermes/trajectory"
)

// recent holds the records that were appended last, so that who follows the log need not
// read and decode them again. The log stays the truth: what is not held is read from it,
// and what is held is what would be read, see [asRead]. It is safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	limit int64 // of the sum of sizes; 0: nothing is held
	size  int64
	at    map[Offset]held
	order []Offset // as they came, oldest first; those that were taken are skipped
	specs specs
}

type held struct {
	record *trajectory.Record
	size   int64 // bytes of its payload in the log, about what it has in memory
}

// Follow is [Journal.Records] for the one reader that follows the log while it is written. It
// takes records from memory where [Journal.Remember] has kept them. They are shared with whoever
// appended them: no one may change them.
func (j *Journal) Follow(ctx context.Context, from Offset) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range j.Records(ctx, from) {
			e.have = &j.recent
			if !yield(e, err) {
				return
			}
		}
	}
}

// Remember keeps the records that are appended from now on in memory for [Journal.Follow], of
// size bytes in the log together at most: the oldest go first, and are read from the log.
// With 0 nothing is kept any more.
func (j *Journal) Remember(size int64) {
	j.recent.mu.Lock()
	defer j.recent.mu.Unlock()
	j.recent.limit = size
	j.recent.shrink()
}

// put holds a record whose payload is raw.
func (r *recent) put(at Offset, rec *trajectory.Record, raw []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := int64(len(raw))
	if size > r.limit {
		return
	}
	kept, ok := asRead(rec, raw, &r.specs)
	if !ok {
		return
	}
	if r.at == nil {
		r.at = map[Offset]held{}
	}
	r.at[at] = held{kept, size}
	r.order = append(r.order, at)
	r.size += size
	r.shrink()
}

// take gives a record away; nil: it is not held. Those before it will not be asked for.
func (r *recent) take(at Offset) *trajectory.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.at[at].record
	r.drop(at)
	for len(r.order) > 0 && r.order[0] <= at {
		r.drop(r.order[0])
		r.order = r.order[1:]
	}
	return rec
}

func (r *recent) drop(at Offset) {
	r.size -= r.at[at].size
	delete(r.at, at)
}

func (r *recent) shrink() {
	for r.size > r.limit {
		r.drop(r.order[0])
		r.order = r.order[1:]
	}
}

// asRead is a record as decodeRecord would read it from the payload raw, but that empty lists
// may be there that it leaves out. It shares the messages with r. ok is false where
// reading would change text: JSON has no bytes that are not UTF-8, and the encoder writes
// this escape for them alone.
func asRead(r *trajectory.Record, raw []byte, s *specs) (kept *trajectory.Record, ok bool) {
	if bytes.Contains(raw, []byte(`\ufffd`)) {
		return nil, false
	}
	return s.record(r)
}

func (s *specs) record(r *trajectory.Record) (*trajectory.Record, bool) {
	kept := *r
	if kept.Tools == nil && r.Trace != nil {
		kept.Tools = r.Trace.Tools
	}
	kept.Tools = s.compact(kept.Tools)
	kept.Metadata, kept.Extra = compact(r.Metadata), compact(r.Extra)
	kept.Started = r.Started.Round(0) // no monotonic clock
	if t := r.Trace; t != nil {
		kept.Trace = &trajectory.Trace{Mode: t.Mode, Tools: kept.Tools, Nodes: t.Nodes, Head: t.Head, Pending: t.Pending, Usage: t.Usage, Sealed: t.Sealed}
		for i := range t.Nodes {
			if !isCompact(t.Nodes[i].Delta.Message.Opaque) {
				return nil, false
			}
		}
		for i := range t.Pending {
			if !isCompact(t.Pending[i].Opaque) {
				return nil, false
			}
		}
	}
	kept.Children = nil
	for _, child := range r.Children {
		if child == nil {
			return nil, false
		}
		c, ok := s.record(child)
		if !ok {
			return nil, false
		}
		kept.Children = append(kept.Children, c)
	}
	return &kept, true
}

// compact is JSON as the encoder writes it and the decoder gives it back.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}

func isCompact(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(compact(raw), raw) }

// specs remembers the compact parameters of tools by where they lie, which are the same for
// all rollouts of a run.
type specs struct {
	known map[*byte]parameters
}

type parameters struct{ own, compact json.RawMessage }

// maxSpecs bounds how many are remembered.
const maxSpecs = 1024

func (s *specs) compact(tools []trajectory.ToolSpec) []trajectory.ToolSpec {
	if len(tools) == 0 {
		return nil
	}
	out := make([]trajectory.ToolSpec, len(tools))
	for i, t := range tools {
		out[i] = t
		if len(t.Parameters) == 0 {
			out[i].Parameters = json.RawMessage("null")
			continue
		}
		at := &t.Parameters[0]
		p, ok := s.known[at]
		if !ok || len(p.own) != len(t.Parameters) {
			p = parameters{t.Parameters, compact(t.Parameters)} // own holds the memory, so that at means no other text later
			if s.known == nil || len(s.known) >= maxSpecs {
				s.known = map[*byte]parameters{}
			}
			s.known[at] = p
		}
		out[i].Parameters = p.compact
	}
	return out
}
