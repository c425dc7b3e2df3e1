package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"hermes/trajectory"
)

// StoredTurn is a kept answer of a model.
type StoredTurn struct {
	Attempt int
	Digest  [32]byte
	Answer  []byte
}

// Entry is one frame as a reader of the log sees it.
type Entry struct {
	Header
	At   Offset
	Next Offset // where the next entry begins
	// Current says that no later record or reopen of the key is in the log.
	Current bool

	load func() ([]byte, error)
	have *recent // may hold the record; nil: the log is read
}

// Place reads what Cursor kept.
func (e Entry) Place() ([]byte, error) {
	if e.Kind != KindCursor {
		return nil, fmt.Errorf("entry at offset %d holds no cursor but a %v", e.At, e.Kind)
	}
	return e.load()
}

// Record reads the record of an attempt or final entry. It must be called before the
// iteration goes on.
func (e Entry) Record() (*trajectory.Record, error) {
	if e.Kind != KindFinal && e.Kind != KindAttempt {
		return nil, fmt.Errorf("entry at offset %d holds no record but a %v", e.At, e.Kind)
	}
	if e.have != nil {
		if r := e.have.take(e.At); r != nil {
			return r, nil
		}
	}
	b, err := e.load()
	if err != nil {
		return nil, err
	}
	return decodeRecord(b)
}

// Keep reads what Record needs, which may then be called at any time, on any goroutine.
func (e Entry) Keep() (Entry, error) {
	b, err := e.load()
	e.load, e.have = func() ([]byte, error) { return b, nil }, nil
	return e, err
}

// Done reports whether the last record of a key is final.
func (j *Journal) Done(k trajectory.Key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.keys[k].kind == KindFinal
}

// Last returns the last word on a key: its header and whether there is one at all.
func (j *Journal) Last(k trajectory.Key) (Header, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, ok := j.keys[k]
	if !ok {
		return Header{}, false
	}
	return Header{Kind: s.kind, Key: k, Attempt: int(s.attempt), Outcome: j.outcomes[s.outcome]}, true
}

// FinalAt returns the offset of a key's final record in force.
func (j *Journal) FinalAt(k trajectory.Key) (Offset, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.keys[k]
	return s.at, s.kind == KindFinal
}

// Unfinished returns how many answers are stored of each key that is not done.
func (j *Journal) Unfinished() map[trajectory.Key]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := make(map[trajectory.Key]int, len(j.turns))
	for k, refs := range j.turns {
		n[k] = len(refs)
	}
	return n
}

// Failed returns the keys whose final record is an infrastructure failure, in log order.
func (j *Journal) Failed() []trajectory.Key {
	type found struct {
		k  trajectory.Key
		at Offset
	}
	j.mu.Lock()
	var list []found
	for k, s := range j.keys {
		if s.kind == KindFinal && j.outcomes[s.outcome].Failure() {
			list = append(list, found{k, s.at})
		}
	}
	j.mu.Unlock()
	slices.SortFunc(list, func(a, b found) int { return int(min(max(a.at-b.at, -1), 1)) })
	keys := make([]trajectory.Key, len(list))
	for i, f := range list {
		keys[i] = f.k
	}
	return keys
}

// Stats counts what the log holds now.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.stats
	s.Segments = len(j.segs)
	s.Bytes = int64(j.end())
	s.Closed = j.clean
	return s
}

// Synced is the end of what is on disk; readers see no more than that.
func (j *Journal) Synced() Offset {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.synced
}

// Wait returns when more of the log is on disk than after, or with the cause why ctx ended.
func (j *Journal) Wait(ctx context.Context, after Offset) error {
	for {
		j.mu.Lock()
		more, change := j.synced > after, j.change
		j.mu.Unlock()
		if more {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-change:
		}
	}
}

// Turns yields the stored answers of a key that is not done, in the order in which the
// next attempt will ask for them.
func (j *Journal) Turns(k trajectory.Key) iter.Seq2[StoredTurn, error] {
	return func(yield func(StoredTurn, error) bool) {
		j.mu.Lock()
		refs := slices.Clone(j.turns[k])
		j.mu.Unlock()
		for _, ref := range refs {
			t, err := j.readTurn(k, ref)
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func (j *Journal) readTurn(k trajectory.Key, ref turnRef) (StoredTurn, error) {
	t := StoredTurn{Attempt: int(ref.attempt)}
	_, b, err := j.payloadAt(ref.at)
	if err == nil && len(b) < len(t.Digest) {
		err = badFrame("answer of %d bytes", len(b))
	}
	if err != nil {
		return t, fmt.Errorf("stored answer of %s: %w", k, err)
	}
	t.Digest, t.Answer = [32]byte(b), b[len(t.Digest):]
	return t, nil
}

// LastCursor returns what Cursor kept last; ok is false where nothing was.
func (j *Journal) LastCursor() (data []byte, ok bool, err error) {
	j.mu.Lock()
	at := j.cursor
	j.mu.Unlock()
	if at < 0 {
		return nil, false, nil
	}
	_, data, err = j.payloadAt(at)
	return data, err == nil, err
}

// segmentAt returns the segment in which at lies.
func (j *Journal) segmentAt(at Offset) (segment, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i, ok := slices.BinarySearchFunc(j.segs, at, func(s segment, at Offset) int { return int(min(max(s.base-at, -1), 1)) })
	if !ok {
		i--
	}
	if i < 0 || at >= j.segs[i].base+Offset(j.segs[i].size) {
		return segment{}, false
	}
	s := j.segs[i]
	s.heads = nil
	return s, true
}

func (j *Journal) payloadAt(at Offset) (Header, []byte, error) {
	seg, ok := j.segmentAt(at)
	if !ok {
		return Header{}, nil, fmt.Errorf("offset %d lies behind the journal's end", at)
	}
	f, err := j.fs.Open(j.name(&seg), false)
	if err != nil {
		return Header{}, nil, err
	}
	defer f.Close()
	fr, err := readFrame(f, seg.base, int64(at-seg.base), seg.size, make([]byte, headBuf), true)
	if err == nil {
		var b []byte
		b, err = j.codec.read(f, fr)
		if err == nil {
			return fr.Header, b, nil
		}
	}
	if errors.Is(err, errFrame) || errors.Is(err, io.EOF) {
		err = j.corrupt(&seg, int64(at-seg.base), err)
	}
	return Header{}, nil, err
}

// Records yields the entries from an offset up to what is on disk when it gets there:
// attempts, finals, reopens and cursors in log order. A reader that wants the last word on
// each key takes the final ones that are Current.
func (j *Journal) Records(ctx context.Context, from Offset) iter.Seq2[Entry, error] {
	return j.entries(ctx, from, false)
}

// entries yields what Records does, and with turns the stored answers too.
func (j *Journal) entries(ctx context.Context, from Offset, turns bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for at := from; at < j.Synced(); {
			seg, ok := j.segmentAt(at)
			if !ok {
				yield(Entry{}, fmt.Errorf("offset %d lies behind the journal's end", at))
				return
			}
			next, goOn, err := j.readSegment(ctx, seg, at, turns, yield)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !goOn {
				return
			}
			at = next
		}
	}
}

// readSegment yields the entries of one segment from at on and returns where it stopped.
func (j *Journal) readSegment(ctx context.Context, seg segment, at Offset, turns bool, yield func(Entry, error) bool) (Offset, bool, error) {
	f, err := j.fs.Open(j.name(&seg), false)
	if err != nil {
		return at, false, err
	}
	defer f.Close()
	limit := int64(min(seg.base+Offset(seg.size), j.Synced()) - seg.base)
	head := make([]byte, headBuf)
	for pos := int64(at - seg.base); pos < limit; {
		if err := context.Cause(ctx); err != nil {
			return at, false, err
		}
		fr, err := readFrame(f, seg.base, pos, limit, head, true)
		if errors.Is(err, errFrame) {
			err = j.corrupt(&seg, pos, err)
		}
		if err != nil {
			return at, false, err
		}
		if fr.Kind == kindFooter {
			return seg.after(), true, nil
		}
		pos = fr.next()
		if fr.Kind == KindTurn && !turns || fr.Kind == kindClose || fr.Kind == kindGap {
			continue
		}
		if !yield(j.entry(f, seg, fr), nil) {
			return at, false, nil
		}
	}
	return seg.base + Offset(limit), true, nil
}

func (j *Journal) entry(f File, seg segment, fr frame) Entry {
	e := Entry{Header: fr.Header, At: seg.base + Offset(fr.at), Next: seg.base + Offset(fr.next())}
	j.mu.Lock()
	e.Current = j.keys[fr.Key].at == e.At
	if fr.Kind == KindCursor {
		e.Current = j.cursor == e.At
	}
	j.mu.Unlock()
	e.load = func() ([]byte, error) {
		b, err := j.codec.read(f, fr)
		if errors.Is(err, errFrame) {
			err = j.corrupt(&seg, fr.at, err)
		}
		return b, err
	}
	return e
}

// Refresh takes in what another process has written since; it is for journals that were
// opened for reading.
func (j *Journal) Refresh() error {
	if !j.opt.ReadOnly || j.unchanged() {
		return nil
	}
	fresh, err := Open(j.dir, j.opt)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segs, j.synced, j.keys, j.turns = fresh.segs, fresh.synced, fresh.keys, fresh.turns
	j.outcomes, j.cursor, j.stats = fresh.outcomes, fresh.cursor, fresh.stats
	j.clean = fresh.clean
	return nil
}

// unchanged reports whether the last segment is as long as it was and still the last.
func (j *Journal) unchanged() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segs) == 0 || j.segs[len(j.segs)-1].sealed {
		return false
	}
	seg := &j.segs[len(j.segs)-1]
	f, err := j.fs.Open(j.name(seg), false)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	return err == nil && size == seg.size+j.stats.Torn
}

// Verify reads the whole log: every checksum, every record, every footer against its
// segment. The first damage is a *CorruptError.
func (j *Journal) Verify(ctx context.Context) error {
	j.mu.Lock()
	segs := slices.Clone(j.segs)
	synced := j.synced
	j.mu.Unlock()
	for _, seg := range segs {
		if err := j.verify(ctx, seg, int64(min(seg.base+Offset(seg.size), synced)-seg.base)); err != nil {
			return fmt.Errorf("verify journal %s: %w", j.dir, err)
		}
	}
	return nil
}

func (j *Journal) verify(ctx context.Context, seg segment, limit int64) error {
	f, err := j.fs.Open(j.name(&seg), false)
	if err != nil {
		return err
	}
	defer f.Close()
	seen := segment{}
	end, broken, err := scan(f, seg.base, 0, limit, func(fr frame) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b, err := j.codec.read(f, fr)
		if err == nil && (fr.Kind == KindFinal || fr.Kind == KindAttempt) {
			var r *trajectory.Record
			r, err = decodeRecord(b)
			if err == nil && (r.Key != fr.Key || r.Outcome != fr.Outcome) {
				err = badFrame("header of %s, %s; record of %s, %s", fr.Key, fr.Outcome, r.Key, r.Outcome)
			}
		}
		if errors.Is(err, errFrame) {
			err = j.corrupt(&seg, fr.at, err)
		}
		if fr.Kind != kindGap {
			seen.appendRow(fr.at, fr.head)
		}
		return err
	})
	if err != nil {
		return err
	}
	if broken != nil {
		return j.corrupt(&seg, end, broken)
	}
	if !seg.sealed {
		return nil
	}
	foot, ok, err := findFooter(f, seg.base, seg.size)
	if err != nil {
		return err
	}
	rows, err := j.codec.read(f, foot)
	if !ok || err != nil || foot.at != end || string(rows) != string(seen.heads) {
		return j.corrupt(&seg, end, badFrame("the footer does not fit the segment"))
	}
	return nil
}

// At returns the entry at an offset. Its Record may be called at any time.
func (j *Journal) At(at Offset) (Entry, error) {
	h, payload, err := j.payloadAt(at)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Header: h, At: at, load: func() ([]byte, error) { return payload, nil }}
	j.mu.Lock()
	e.Current = j.keys[h.Key].at == at
	j.mu.Unlock()
	return e, nil
}
