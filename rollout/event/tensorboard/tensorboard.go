// Package tensorboard writes figures as an event file that TensorBoard reads: a row of
// TFRecords, each a serialized Event of TensorFlow's event.proto.
//
// A record is its length (8 bytes, little-endian), the masked CRC-32C of these 8 bytes,
// the data, and the masked CRC-32C of the data.
package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// FileName is a name by which TensorBoard knows an event file; at tells runs apart.
func FileName(at time.Time) string {
	return fmt.Sprintf("events.out.tfevents.%010d.hermes", at.Unix())
}

// Write writes an event file with one value for each tag, all at one step. Tags come in
// the order of their names, so that the same figures give the same bytes.
func Write(w io.Writer, at time.Time, step int64, values map[string]float64) error {
	if err := record(w, event(at, 0, field(3, []byte("brain.Event:2")))); err != nil {
		return err
	}
	for _, tag := range slices.Sorted(maps.Keys(values)) {
		value := append(field(1, []byte(tag)), 2<<3|5) // Summary.Value: tag, simple_value
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(float32(values[tag])))
		if err := record(w, event(at, step, field(5, field(1, value)))); err != nil {
			return err
		}
	}
	return nil
}

// event is an Event: wall_time, step, and what happened.
func event(at time.Time, step int64, what []byte) []byte {
	b := []byte{1<<3 | 1}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(at.UnixMicro())/1e6))
	b = append(b, 2<<3)
	b = binary.AppendUvarint(b, uint64(step))
	return append(b, what...)
}

// field is a length-delimited field of a message.
func field(number byte, data []byte) []byte {
	b := binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(data)))
	return append(b, data...)
}

func record(w io.Writer, data []byte) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	b = append(b, data...)
	b = binary.LittleEndian.AppendUint32(b, masked(data))
	_, err := w.Write(b)
	return err
}

// masked is TensorFlow's CRC-32C of data that may hold CRCs itself.
func masked(data []byte) uint32 {
	c := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}
