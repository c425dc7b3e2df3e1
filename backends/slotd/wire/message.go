package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Message is data as one message.
func Message(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// WriteMessage writes one message.
func WriteMessage(w io.Writer, data []byte) error {
	_, err := w.Write(Message(data))
	return err
}

// ReadMessage reads one message of at most max bytes.
func ReadMessage(r io.Reader, max uint32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > max {
		return nil, fmt.Errorf("message of %d bytes is longer than %d", n, max)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(r, data)
	return data, err
}
