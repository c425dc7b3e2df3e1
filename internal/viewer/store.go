package viewer

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/runs"
)

// indexName is the file of the index in a run directory. It can be deleted at any time.
const indexName = "view.index"

// indexMagic begins the file; its number changes with the layout of row.
const indexMagic = "hermes view 1\n"

// kept is the index as it is stored.
type kept struct {
	Created time.Time // of the run
	Next    journal.Offset
	Rows    []row
}

// readIndex reads the index of a run directory.
func readIndex(dir string) (kept, error) {
	var k kept
	b, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		return k, err
	}
	body, ok := bytes.CutPrefix(b, []byte(indexMagic))
	if !ok || len(body) < 4 {
		return k, errors.New("of another version")
	}
	if sum := binary.LittleEndian.Uint32(body); sum != crc32.ChecksumIEEE(body[4:]) {
		return k, errors.New("its checksum is wrong")
	}
	return k, gob.NewDecoder(bytes.NewReader(body[4:])).Decode(&k)
}

// fits reports whether the index is one of this log: no longer, and of the same records.
func (k kept) fits(r *runs.Run) bool {
	if !k.Created.Equal(r.Manifest.Created) || k.Next > r.Journal.Synced() {
		return false
	}
	if len(k.Rows) == 0 {
		return true
	}
	last := k.Rows[len(k.Rows)-1]
	e, err := r.Journal.At(last.At)
	return err == nil && e.Key == last.Key && e.Attempt == last.Attempt
}

// writeIndex replaces the index of a run directory by rename.
func writeIndex(r *runs.Run, rows []row, next journal.Offset) error {
	var b bytes.Buffer
	b.WriteString(indexMagic + "\x00\x00\x00\x00")
	if err := gob.NewEncoder(&b).Encode(kept{Created: r.Manifest.Created, Next: next, Rows: rows}); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	body := b.Bytes()[len(indexMagic):]
	binary.LittleEndian.PutUint32(body, crc32.ChecksumIEEE(body[4:]))
	f, err := os.CreateTemp(r.Dir, "."+indexName+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(r.Dir, indexName))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
