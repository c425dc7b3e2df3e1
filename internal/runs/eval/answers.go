package eval

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"hermes/internal/exit"
)

// answersFile is scores/NAME.judge.jsonl: a line for each answer of a judge, by the digest
// of what it was asked.
type answersFile struct {
	f *os.File

	mu    sync.Mutex
	at    int64
	lines map[[32]byte]span
}

type span struct{ at, n int64 }

type answerLine struct {
	Digest string `json:"digest"`
	Answer []byte `json:"answer"`
}

func openAnswers(name string) (*answersFile, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	a := &answersFile{f: f, lines: map[[32]byte]span{}}
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		raw, err := r.ReadBytes('\n')
		var l answerLine
		d, ok := [32]byte{}, err == nil && json.Unmarshal(raw, &l) == nil
		if n, herr := hex.Decode(d[:], []byte(l.Digest)); ok && herr == nil && n == len(d) {
			a.lines[d] = span{a.at, int64(len(raw))}
		}
		if err != nil { // a line that was cut is written over
			if errors.Is(err, io.EOF) {
				err = f.Truncate(a.at)
			}
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return a, nil
		}
		a.at += int64(len(raw))
	}
}

func (a *answersFile) lookup(d [32]byte) ([]byte, bool) {
	a.mu.Lock()
	s, ok := a.lines[d]
	a.mu.Unlock()
	if !ok {
		return nil, false
	}
	raw := make([]byte, s.n)
	var l answerLine
	if _, err := a.f.ReadAt(raw, s.at); err != nil || json.Unmarshal(raw, &l) != nil {
		return nil, false // it is asked for again
	}
	return l.Answer, true
}

func (a *answersFile) keep(fresh map[[32]byte][]byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for d, answer := range fresh {
		raw, err := json.Marshal(answerLine{hex.EncodeToString(d[:]), answer})
		if err != nil {
			return err
		}
		raw = append(raw, '\n')
		if _, err := a.f.WriteAt(raw, a.at); err != nil {
			return exit.Ours(err)
		}
		a.lines[d] = span{a.at, int64(len(raw))}
		a.at += int64(len(raw))
	}
	return nil
}

// sampleTape has the answers that were kept, and holds new ones until the sample has its
// verdict. It belongs to one goroutine.
type sampleTape struct {
	kept  *answersFile
	fresh map[[32]byte][]byte
}

func (t *sampleTape) Lookup(d [32]byte) ([]byte, bool) { return t.kept.lookup(d) }

func (t *sampleTape) Store(d [32]byte, answer []byte) error {
	if t.fresh == nil {
		t.fresh = map[[32]byte][]byte{}
	}
	t.fresh[d] = bytes.Clone(answer)
	return nil
}
