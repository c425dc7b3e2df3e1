package wandb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
)

// store is a .wandb file: seven bytes of header, then the log of LevelDB in blocks of
// 32 KiB, of which the first one counts the header in. A record is split into chunks
// that do not cross blocks; each is the CRC-32 (IEEE, plain) of type and data, the
// length, the type, the data.
type store struct {
	f     *os.File
	w     *bufio.Writer
	at    int   // in the block
	count int64 // records so far; they are numbered from 1
	err   error // nothing more is written
}

const (
	blockSize = 32 << 10
	chunkHead = 7

	chunkFull   = 1
	chunkFirst  = 2
	chunkMiddle = 3
	chunkLast   = 4
)

func createStore(name string) (*store, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s := &store{f: f, w: bufio.NewWriter(f), at: 7}
	_, s.err = s.w.Write([]byte{':', 'W', '&', 'B', 0xE1, 0xBE, 0})
	return s, s.err
}

// add appends a record.
func (s *store) add(m message) error {
	s.count++
	data := m.number(1, s.count)
	for begun := false; ; begun = true {
		if left := blockSize - s.at; left < chunkHead {
			s.write(make([]byte, left))
			s.at = 0
		}
		n := min(len(data), blockSize-s.at-chunkHead)
		kind := byte(chunkMiddle)
		switch last := n == len(data); {
		case !begun && last:
			kind = chunkFull
		case !begun:
			kind = chunkFirst
		case last:
			kind = chunkLast
		}
		body := append([]byte{kind}, data[:n]...)
		head := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(body))
		head = binary.LittleEndian.AppendUint16(head, uint16(n))
		s.write(append(head, body...))
		s.at += chunkHead + n
		data = data[n:]
		if len(data) == 0 {
			return s.err
		}
	}
}

func (s *store) write(b []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

// flush makes the records visible to readers, and safe from the death of the process.
func (s *store) flush() error {
	if s.err == nil {
		s.err = s.w.Flush()
	}
	return s.err
}

func (s *store) close() error {
	err := s.flush()
	if err == nil {
		err = s.f.Sync()
	}
	return errors.Join(err, s.f.Close())
}
