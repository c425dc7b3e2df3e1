package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"hermes/rollout/journal"
	"hermes/trajectory"
	"hermes/trajectory/sharegpt"
	"hermes/trajectory/stats"
)

// flushBytes is how much a line sink collects before it writes.
const flushBytes = 1 << 20

// lines writes one JSON line for each accepted record; its file only grows.
type lines struct {
	name   string
	path   string
	fs     journal.FS
	render func(b []byte, r *trajectory.Record) ([]byte, error)

	file   journal.File
	length int64 // written
	buf    []byte
}

type linesState struct {
	Length int64 `json:"length"`
}

// ShareGPT is the sink of trajectories.jsonl.
func ShareGPT(fsys journal.FS, dir string, tools []string, o sharegpt.Options) Sink {
	o.Systems = &sharegpt.Systems{}
	return &lines{name: "sharegpt", path: filepath.Join(dir, "trajectories.jsonl"), fs: fsys,
		render: func(b []byte, r *trajectory.Record) ([]byte, error) {
			return sharegpt.NewLine(r, tools, false, o).Append(b)
		}}
}

// Messages is the sink of messages.jsonl.
func Messages(fsys journal.FS, dir string) Sink {
	return &lines{name: "messages", path: filepath.Join(dir, "messages.jsonl"), fs: fsys, render: appendMessages}
}

func (l *lines) Name() string { return l.name }

func (l *lines) Resume(_ context.Context, state json.RawMessage) error {
	if err := l.Close(); err != nil {
		return err
	}
	var s linesState
	if state != nil {
		if err := json.Unmarshal(state, &s); err != nil {
			return ErrStale
		}
	}
	f, err := l.fs.Open(l.path, true)
	if errors.Is(err, fs.ErrNotExist) && state == nil {
		f, err = l.fs.Create(l.path)
		if err == nil {
			err = l.fs.SyncDir(filepath.Dir(l.path))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return ErrStale
	}
	if err != nil {
		return err
	}
	l.file, l.length, l.buf = f, s.Length, l.buf[:0]
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size < s.Length {
		return ErrStale
	}
	if size > s.Length {
		return f.Truncate(s.Length)
	}
	return nil
}

func (l *lines) Write(_ context.Context, it Item) error {
	if it.Kind != journal.KindFinal || it.Book != stats.Accepted {
		return nil
	}
	var err error
	l.buf, err = l.render(l.buf, it.Record)
	if err != nil {
		return err
	}
	if len(l.buf) >= flushBytes {
		return l.flush()
	}
	return nil
}

func (l *lines) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	if _, err := l.file.WriteAt(l.buf, l.length); err != nil {
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	l.length += int64(len(l.buf))
	l.buf = l.buf[:0]
	return nil
}

func (l *lines) Commit(_ context.Context, upTo journal.Offset) (journal.Offset, json.RawMessage, error) {
	if err := l.flush(); err != nil {
		return 0, nil, err
	}
	if err := l.file.Sync(); err != nil {
		return 0, nil, fmt.Errorf("sync %s: %w", l.path, err)
	}
	state, err := json.Marshal(linesState{Length: l.length})
	return upTo, state, err
}

func (l *lines) Finish(context.Context) error { return nil }

func (l *lines) Close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
