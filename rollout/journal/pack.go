package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"hermes/trajectory"
)

// packMin is the length in bytes below which compression is not worth its time.
const packMin = 4096

// codec compresses payloads. It is safe for concurrent use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (codec, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		return codec{}, fmt.Errorf("zstd encoder: %w", err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPayload), zstd.WithDecoderConcurrency(0))
	if err != nil {
		return codec{}, fmt.Errorf("zstd decoder: %w", err)
	}
	return codec{enc: e, dec: d}, nil
}

// pack compresses a payload when it pays, into room where it fits.
func (c codec) pack(raw, room []byte) (stored []byte, flags uint8) {
	if len(raw) < packMin {
		return raw, 0
	}
	if b := c.enc.EncodeAll(raw, slices.Grow(room[:0], len(raw)/2)); len(b) < len(raw)-len(raw)/16 {
		return b, flagZstd
	}
	return raw, 0
}

// unpack gives the raw payload back; raw is its length, which bounds the work.
func (c codec) unpack(stored []byte, flags uint8, raw uint32) ([]byte, error) {
	if flags&flagZstd == 0 {
		if len(stored) != int(raw) {
			return nil, badFrame("payload of %d bytes, header says %d", len(stored), raw)
		}
		return stored, nil
	}
	if raw > maxPayload {
		return nil, badFrame("payload of %d bytes", raw)
	}
	b, err := c.dec.DecodeAll(stored, make([]byte, 0, min(int(raw), 64*len(stored)+1024)))
	if err != nil || len(b) != int(raw) {
		return nil, badFrame("payload of %d bytes, header says %d (%v)", len(b), raw, err)
	}
	return b, nil
}

// read reads, checks and decompresses the payload of f.
func (c codec) read(r io.ReaderAt, f frame) ([]byte, error) {
	b, err := f.readStored(r, nil)
	if err != nil {
		return nil, err
	}
	return c.unpack(b, f.flags, f.raw)
}

// appendRecord writes a record: the length of its JSON, the JSON, then for each node of
// its trace (and of its children's, in order) the tokens and log-probabilities as raw
// little-endian numbers.
func appendRecord(room []byte, r *trajectory.Record) ([]byte, error) {
	out, err := appendJSON(append(room[:0], 0, 0, 0, 0), r)
	if err != nil {
		return room, fmt.Errorf("record %s: %w", r.Key, err)
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)-4))
	return appendBlocks(out, r), nil
}

func appendBlocks(b []byte, r *trajectory.Record) []byte {
	if r.Trace != nil {
		for _, n := range r.Trace.Nodes {
			b = slices.Grow(b, 2*binary.MaxVarintLen64+4*(len(n.Delta.Tokens)+len(n.Delta.LogProbs)))
			b = binary.AppendUvarint(b, uint64(len(n.Delta.Tokens)))
			rest := b[len(b) : len(b)+4*len(n.Delta.Tokens)]
			for i, t := range n.Delta.Tokens {
				binary.LittleEndian.PutUint32(rest[4*i:], uint32(t))
			}
			b = binary.AppendUvarint(b[:len(b)+len(rest)], uint64(len(n.Delta.LogProbs)))
			rest = b[len(b) : len(b)+4*len(n.Delta.LogProbs)]
			for i, p := range n.Delta.LogProbs {
				binary.LittleEndian.PutUint32(rest[4*i:], math.Float32bits(p))
			}
			b = b[:len(b)+len(rest)]
		}
	}
	for _, child := range r.Children {
		b = appendBlocks(b, child)
	}
	return b
}

// decodeRecord reads what appendRecord wrote.
func decodeRecord(b []byte) (*trajectory.Record, error) {
	if len(b) < 4 || int64(binary.LittleEndian.Uint32(b)) > int64(len(b)-4) {
		return nil, badFrame("record of %d bytes", len(b))
	}
	n := int(binary.LittleEndian.Uint32(b))
	var r trajectory.Record
	if err := json.Unmarshal(b[4:4+n], &r); err != nil {
		return nil, badFrame("record: %v", err)
	}
	rest, err := readBlocks(b[4+n:], &r)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, badFrame("record: %d bytes too many", len(rest))
	}
	return &r, nil
}

func readBlocks(b []byte, r *trajectory.Record) ([]byte, error) {
	if r.Trace != nil {
		if err := checkTree(r.Trace); err != nil {
			return nil, err
		}
		r.Trace.Tools = r.Tools
		for i := range r.Trace.Nodes {
			d := &r.Trace.Nodes[i].Delta
			var err error
			b, err = readBlock(b, func(n int) { d.Tokens = make([]trajectory.Token, n) },
				func(i int, v uint32) { d.Tokens[i] = trajectory.Token(v) })
			if err != nil {
				return nil, err
			}
			b, err = readBlock(b, func(n int) { d.LogProbs = make([]float32, n) },
				func(i int, v uint32) { d.LogProbs[i] = math.Float32frombits(v) })
			if err != nil {
				return nil, err
			}
		}
	}
	for _, child := range r.Children {
		if child == nil {
			return nil, badFrame("record: a child is null")
		}
		var err error
		b, err = readBlocks(b, child)
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

func readBlock(b []byte, grow func(int), set func(int, uint32)) ([]byte, error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used)/4 {
		return nil, badFrame("record: block of %d numbers in %d bytes", n, len(b))
	}
	b = b[used:]
	if n > 0 {
		grow(int(n))
	}
	for i := range int(n) {
		set(i, binary.LittleEndian.Uint32(b[4*i:]))
	}
	return b[4*n:], nil
}

// checkTree makes sure that every path of a trace that was read leads to a root.
func checkTree(t *trajectory.Trace) error {
	for i, n := range t.Nodes {
		if n.Parent < trajectory.None || int(n.Parent) >= i {
			return badFrame("record: the parent of node %d is %d", i, n.Parent)
		}
	}
	if t.Head < trajectory.None || int(t.Head) >= len(t.Nodes) {
		return badFrame("record: the head is node %d of %d", t.Head, len(t.Nodes))
	}
	return nil
}
