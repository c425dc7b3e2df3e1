package listing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hermes/rollout/journal"
	"hermes/trajectory"
)

// FileName is the file of the list in a run directory. It can be deleted at any time.
const FileName = "view.index"

// Retried is the book of an attempt that another one followed.
const Retried = "retried"

// Keeper says who writes a list: no one else may write it.
type Keeper byte

// Those who keep lists.
const (
	ByRun    Keeper = 'r' // the process of the run, as a projection
	ByReader Keeper = 'v' // whoever looked at a run that has none
)

// magic begins the file, then come the keeper and when the run was created; the number
// changes with the layout of frames.
const magic = "hermes view 2\n"

const headerLen = len(magic) + 1 + 8

// ErrOther says that a file is no list of this layout and run.
var ErrOther = errors.New("it is no list of this run")

// Header begins the file of a run that was created at a time.
func Header(by Keeper, created time.Time) []byte {
	return binary.LittleEndian.AppendUint64(append([]byte(magic), byte(by)), uint64(created.Unix()))
}

// IsOfRun reports whether a file that begins like this is kept by the process of a run.
func IsOfRun(head []byte) bool {
	return len(head) > len(magic) && string(head[:len(magic)]) == magic && Keeper(head[len(magic)]) == ByRun
}

// kindEnd is the frame that ends a file which a reader has written: it is taken whole or
// not at all, since its rows do not say where the log went on behind each of them.
const kindEnd journal.Kind = 0xff

// A frame is the length of its body (4 bytes, little-endian), the CRC-32C of the body,
// the body: kind, key, at, next; for records also the fixed fields and the texts.
const (
	frameHead = 8
	bodyHead  = 1 + len(trajectory.Key{}) + 16
	rowHead   = bodyHead + 4*3 + 8*5 + 2
	mostBody  = 1 << 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendRow appends the frame of a row; next is where the log goes on behind it.
func AppendRow(b []byte, w Row, next journal.Offset) []byte {
	start := len(b)
	b = appendBody(b, journal.KindFinal, w.Key, w.At, next)
	for _, n := range []int32{w.Sample, w.Attempt, w.Turns} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, f := range []float64{w.Reward, w.Cost, w.Seconds} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(w.Tokens))
	b = binary.LittleEndian.AppendUint64(b, uint64(w.Started))
	outcome, book := clip(string(w.Outcome), math.MaxUint8), clip(w.Book, math.MaxUint8)
	b = append(b, byte(len(outcome)), byte(len(book)))
	b = append(append(append(b, outcome...), book...), w.text...)
	return seal(b, start)
}

// AppendReopen appends the frame of a reopen that is at an offset.
func AppendReopen(b []byte, k trajectory.Key, at, next journal.Offset) []byte {
	start := len(b)
	return seal(appendBody(b, journal.KindReopen, k, at, next), start)
}

func appendBody(b []byte, kind journal.Kind, k trajectory.Key, at, next journal.Offset) []byte {
	b = append(b, make([]byte, frameHead)...)
	b = append(append(b, byte(kind)), k[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(at))
	return binary.LittleEndian.AppendUint64(b, uint64(next))
}

func seal(b []byte, start int) []byte {
	body := b[start+frameHead:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b
}

// block is how much of a file is read at once; the texts of its rows share one string.
const block = 4 << 20

// Read reads the list of a run directory as far as it is whole. ErrOther: the file is
// another run's or version's.
func Read(dir string, created time.Time) (l *List, by Keeper, err error) {
	f, err := os.Open(filepath.Join(dir, FileName))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	head := make([]byte, headerLen)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	by = Keeper(head[len(magic)])
	if n < headerLen || !bytes.Equal(head, Header(by, created)) {
		return nil, 0, fmt.Errorf("%s: %w", FileName, ErrOther)
	}
	l = &List{}
	l.grow(int(info.Size() / 300))
	buf := make([]byte, 0, min(block, max(info.Size(), 2*mostBody)))
	for {
		n, err := io.ReadFull(f, buf[len(buf):cap(buf)])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, 0, err
		}
		buf = buf[:len(buf)+n]
		used, ok := l.frames(buf)
		switch {
		case ok && n > 0:
		case by == ByReader && !l.ended:
			return nil, 0, fmt.Errorf("%s: it is damaged: %w", FileName, ErrOther)
		default:
			return l, by, nil
		}
		buf = buf[:copy(buf[:cap(buf)], buf[used:])]
	}
}

// frames reads the frames that are whole in b and returns their length. ok is false where
// one is damaged.
func (l *List) frames(b []byte) (used int, ok bool) {
	text := string(b)
	for {
		rest := b[used:]
		if len(rest) < frameHead {
			return used, true
		}
		n := int(binary.LittleEndian.Uint32(rest))
		if n < bodyHead || n > mostBody {
			return used, false
		}
		if n > len(rest)-frameHead {
			return used, true
		}
		body := rest[frameHead:][:n]
		if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(rest[4:]) || !l.take(body, text[used+frameHead:][:n]) {
			return used, false
		}
		used += frameHead + n
	}
}

// take reads one frame. text is the same as body.
func (l *List) take(body []byte, text string) bool {
	w := Row{Key: trajectory.Key(body[1:])}
	at := 1 + len(w.Key)
	u64 := func() uint64 { at += 8; return binary.LittleEndian.Uint64(body[at-8:]) }
	u32 := func() int32 { at += 4; return int32(binary.LittleEndian.Uint32(body[at-4:])) }
	w.At = journal.Offset(u64())
	next := journal.Offset(u64())
	switch journal.Kind(body[0]) {
	case journal.KindReopen:
		l.Reopen(w.Key, next)
		return true
	case kindEnd:
		l.Next, l.ended = next, true
		return true
	}
	if len(body) < rowHead {
		return false
	}
	w.Sample = u32()
	w.Attempt = u32()
	w.Turns = u32()
	w.Reward = math.Float64frombits(u64())
	w.Cost = math.Float64frombits(u64())
	w.Seconds = math.Float64frombits(u64())
	w.Tokens, w.Started = int64(u64()), int64(u64())
	outcome, book := int(body[at]), int(body[at+1])
	text = text[at+2:]
	if outcome+book > len(text) {
		return false
	}
	w.Outcome, w.Book, w.text = trajectory.Outcome(text[:outcome]), text[outcome:outcome+book], text[outcome+book:]
	if strings.Count(w.text, "\x00") != fields-1 {
		return false
	}
	l.Add(w, next)
	return true
}

// Write replaces the list of a run directory by rename. Reopened keys come behind the rows, so
// that the file says the same as the log.
func Write(dir string, created time.Time, l *List) (err error) {
	f, err := os.CreateTemp(dir, "."+FileName+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	b := Header(ByReader, created)
	for i := range l.Rows {
		b = AppendRow(b, l.Rows[i], l.Next)
		if len(b) > 1<<20 {
			if _, err = f.Write(b); err != nil {
				return errors.Join(err, f.Close())
			}
			b = b[:0]
		}
	}
	for k, i := range l.last {
		if l.Rows[i].Old {
			b = AppendReopen(b, k, l.Rows[i].At, l.Next)
		}
	}
	start := len(b)
	b = seal(appendBody(b, kindEnd, trajectory.Key{}, l.Next, l.Next), start)
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, FileName))
	}
	return err
}
