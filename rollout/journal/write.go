package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hermes/trajectory"
)

// Append writes the final record of a key and returns when it is on disk; calls that come
// together share one fsync. A key that is done already is ErrDone. A cancelled context is
// refused at the door only: what was written is waited for.
func (j *Journal) Append(ctx context.Context, r *trajectory.Record) (Offset, error) {
	return j.record(ctx, KindFinal, r)
}

// AppendAttempt writes the record of an attempt that will be tried again. The stored
// answers of the key stay.
func (j *Journal) AppendAttempt(ctx context.Context, r *trajectory.Record) (Offset, error) {
	return j.record(ctx, KindAttempt, r)
}

// Put writes a final record, or with KindAttempt that of an attempt, without waiting for the
// disk: for copies, which a crash may lose. Flush waits for all that was put.
func (j *Journal) Put(ctx context.Context, k Kind, r *trajectory.Record) error {
	if k != KindFinal && k != KindAttempt {
		return fmt.Errorf("put a record as %v: want final or attempt", k)
	}
	_, _, err := j.put(ctx, k, r)
	return err
}

// Flush returns when everything that was written is on disk.
func (j *Journal) Flush() error {
	j.mu.Lock()
	end := j.end()
	j.mu.Unlock()
	if err := j.flush(end); err != nil {
		return fmt.Errorf("flush journal %s: %w", j.dir, explain(err))
	}
	return nil
}

func (j *Journal) record(ctx context.Context, k Kind, r *trajectory.Record) (Offset, error) {
	at, end, err := j.put(ctx, k, r)
	if err == nil {
		if err = j.flush(end); err != nil {
			err = fmt.Errorf("%v record of %s, attempt %d: %w", k, r.Key, r.Attempt, explain(err))
		}
	}
	if err != nil {
		return 0, err
	}
	return at, nil
}

func (j *Journal) put(ctx context.Context, k Kind, r *trajectory.Record) (at, end Offset, err error) {
	s := j.scratch.get()
	raw, err := appendRecord(s.raw, r)
	s.raw = raw
	if err != nil {
		return 0, 0, err
	}
	h := Header{Kind: k, Key: r.Key, Group: r.Group, Attempt: r.Attempt, Outcome: r.Outcome}
	at, end, err = j.write(ctx, h, raw, false, s)
	if err == nil {
		j.recent.put(at, r, raw)
	}
	j.scratch.put(s)
	if err != nil {
		return 0, 0, fmt.Errorf("%v record of %s, attempt %d: %w", k, r.Key, r.Attempt, explain(err))
	}
	return at, end, nil
}

// Reopen takes the final records of failed keys back, so that they are tried again. A key
// that is not done is left as it is; one that did not fail is an error and nothing is written.
func (j *Journal) Reopen(ctx context.Context, keys []trajectory.Key) error {
	var failed []state
	var open []trajectory.Key
	j.mu.Lock()
	for _, k := range keys {
		s := j.keys[k]
		if s.kind != KindFinal {
			continue
		}
		if o := j.outcomes[s.outcome]; !o.Failure() {
			j.mu.Unlock()
			return fmt.Errorf("reopen %s: its outcome %s is no failure", k, o)
		}
		failed, open = append(failed, s), append(open, k)
	}
	j.mu.Unlock()
	var end Offset
	for i, k := range open {
		_, next, err := j.write(ctx, Header{Kind: KindReopen, Key: k, Attempt: int(failed[i].attempt)}, nil, false, &scratch{})
		if err != nil {
			return fmt.Errorf("reopen %s: %w", k, explain(err))
		}
		end = next
	}
	if err := j.flush(end); err != nil {
		return fmt.Errorf("reopen %d keys: %w", len(open), explain(err))
	}
	return nil
}

// Cursor keeps the place of an outside reader (a trainer's step); the last one counts.
func (j *Journal) Cursor(ctx context.Context, data []byte) error {
	if _, err := j.durable(ctx, Header{Kind: KindCursor}, data); err != nil {
		return fmt.Errorf("cursor: %w", explain(err))
	}
	return nil
}

// Turn keeps a model's answer for the given attempt of a key, after those that are stored
// already. It does not wait for the disk: a killed process finds the answer again, a power
// cut may lose it.
func (j *Journal) Turn(key trajectory.Key, attempt int, digest [32]byte, answer []byte) error {
	return j.turn(key, attempt, -1, digest, answer)
}

// turn keeps an answer as the seq-th of its key; what was stored from there on is
// forgotten. A negative seq is the next one.
func (j *Journal) turn(key trajectory.Key, attempt, seq int, digest [32]byte, answer []byte) error {
	if seq < 0 {
		j.mu.Lock()
		seq = len(j.turns[key])
		j.mu.Unlock()
	}
	s := j.scratch.get()
	defer j.scratch.put(s)
	s.raw = append(append(s.raw[:0], digest[:]...), answer...)
	h := Header{Kind: KindTurn, Key: key, Attempt: attempt, seq: uint32(seq)}
	if _, _, err := j.write(context.Background(), h, s.raw, false, s); err != nil {
		return fmt.Errorf("store answer %d of %s: %w", seq, key, explain(err))
	}
	return nil
}

func (j *Journal) durable(ctx context.Context, h Header, raw []byte) (Offset, error) {
	at, end, err := j.write(ctx, h, raw, false, &scratch{})
	if err != nil {
		return 0, err
	}
	return at, j.flush(end)
}

// scratch is the room in which one frame is made.
type scratch struct{ raw, packed, frame []byte }

// scratches lends rooms out, so that a frame is no garbage. It is safe for concurrent use.
type scratches struct{ pool sync.Pool }

// maxKept bounds what a room may keep of a large frame, in bytes.
const maxKept = 4 << 20

func (p *scratches) get() *scratch {
	if s, ok := p.pool.Get().(*scratch); ok {
		return s
	}
	return &scratch{}
}

func (p *scratches) put(s *scratch) {
	if cap(s.raw)+cap(s.packed)+cap(s.frame) <= maxKept {
		p.pool.Put(s)
	}
}

// write puts one frame, made in s, at the end of the log, without waiting for the disk.
func (j *Journal) write(ctx context.Context, h Header, raw []byte, closing bool, s *scratch) (at, end Offset, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, 0, err
	}
	if len(raw) > maxPayload {
		return 0, 0, fmt.Errorf("payload of %d bytes; the limit is %d", len(raw), maxPayload)
	}
	h.raw = uint32(len(raw))
	stored, flags := j.codec.pack(raw, s.packed)
	h.flags = flags
	if flags&flagZstd != 0 {
		s.packed = stored
	}
	if err := j.makeRoom(); err != nil {
		return 0, 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.writable(); err != nil {
		return 0, 0, err
	}
	if (h.Kind == KindFinal || h.Kind == KindAttempt) && j.keys[h.Key].kind == KindFinal {
		return 0, 0, ErrDone
	}
	h.synced, h.log, h.place = j.synced, j.number, j.end()
	b, err := appendFrame(slices.Grow(s.frame[:0], prefixLen+headerFixed+headerTail+len(h.Group)+len(stored)+64), h, stored)
	if err != nil {
		return 0, 0, err
	}
	s.frame = b
	seg := &j.segs[len(j.segs)-1]
	if _, err := j.file.WriteAt(b, seg.size); err != nil {
		// Half a frame may be there. The next one overwrites it; cutting it
		// now gives a full disk its space back.
		if cut := j.file.Truncate(seg.size); cut != nil {
			j.broken = fmt.Errorf("the journal's end could not be repaired (%w) after: %w", cut, err)
		}
		return 0, 0, err
	}
	headLen := len(b) - prefixLen - 8 - len(stored)
	seg.appendRow(seg.size, b[prefixLen:prefixLen+headLen])
	at = seg.base + Offset(seg.size)
	seg.size += int64(len(b))
	j.clean = closing
	j.learn(at, h)
	return at, j.end(), nil
}

func (j *Journal) writable() error {
	switch {
	case j.opt.ReadOnly:
		return ErrReadOnly
	case j.closed:
		return ErrClosed
	}
	return j.broken
}

// flush returns when the log is on disk up to end. Who finds the disk idle syncs for all
// that wait; the others find their work done.
func (j *Journal) flush(end Offset) error {
	if j.onDisk(end) {
		return nil
	}
	j.sync <- struct{}{}
	defer func() { <-j.sync }()
	return j.syncHeld(end)
}

func (j *Journal) onDisk(end Offset) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.synced >= end
}

// syncHeld makes the log durable; the caller holds j.sync.
func (j *Journal) syncHeld(end Offset) error {
	j.mu.Lock()
	upTo := j.end()
	file := j.file
	err := j.broken
	done := j.synced >= end
	j.mu.Unlock()
	if done {
		return nil
	}
	if err != nil {
		return err
	}
	err = file.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		// After a failed fsync it is unknown what is on disk. A second fsync may succeed wrongly.
		j.broken = fmt.Errorf("an earlier fsync of the journal failed: %w", err)
		return err
	}
	j.advance(upTo)
	return nil
}

// advance tells readers that the log is on disk up to end; the caller holds mu.
func (j *Journal) advance(end Offset) {
	j.synced = end
	close(j.change)
	j.change = make(chan struct{})
}

// makeRoom seals the last segment when it is full.
func (j *Journal) makeRoom() error {
	if !j.full() {
		return nil
	}
	j.sync <- struct{}{}
	defer func() { <-j.sync }()
	if !j.full() {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.writable(); err != nil {
		return err
	}
	if err := j.seal(); err != nil {
		if j.broken == nil {
			j.broken = fmt.Errorf("a full segment could not be sealed: %w", err)
		}
		return err
	}
	return nil
}

func (j *Journal) full() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.segs) > 0 && j.segs[len(j.segs)-1].size >= j.opt.SegmentSize
}

// seal ends the last segment with its footer and begins the next; the caller holds both locks.
func (j *Journal) seal() error {
	seg := &j.segs[len(j.segs)-1]
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.advance(j.end())
	b, err := seg.footer(j.codec, j.number, 0)
	if err != nil {
		return err
	}
	if _, err := j.file.WriteAt(b, seg.size); err != nil {
		return errors.Join(err, j.file.Truncate(seg.size))
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	seg.size += int64(len(b))
	seg.sealed, seg.heads = true, nil
	j.advance(j.end())
	old := j.file
	if err := j.startSegment(j.end()); err != nil {
		return err
	}
	return old.Close()
}

// Close makes everything durable and closes the log.
func (j *Journal) Close() error {
	j.mu.Lock()
	idle := j.closed || j.opt.ReadOnly || j.clean || j.broken != nil || j.end() == 0
	end := j.end()
	j.mu.Unlock()
	var err error
	if !idle {
		// The close frame is written when all before it is on disk, and says so:
		// later damage before it cannot pass for a torn tail.
		if err = j.flush(end); err == nil {
			_, end, err = j.write(context.Background(), Header{Kind: kindClose}, nil, true, &scratch{})
			if err == nil {
				err = j.flush(end)
			}
		}
	}
	j.sync <- struct{}{}
	defer func() { <-j.sync }()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	if j.file != nil {
		err = errors.Join(err, j.file.Close())
	}
	if err != nil {
		return fmt.Errorf("close journal %s: %w", j.dir, explain(err))
	}
	return nil
}
