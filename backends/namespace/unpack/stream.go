//go:build linux

package unpack

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// mostWindow is the largest window of zstd, that of its --long.
const mostWindow = 128 << 20

// plain returns what a stream holds, without the compression that its first bytes show.
func plain(r io.Reader) (out io.ReadCloser, packed bool, err error) {
	b := bufio.NewReaderSize(r, 128<<10)
	head, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		return z, true, err
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
		if err != nil {
			return nil, true, err
		}
		return z.IOReadCloser(), true, nil
	}
	for name, magic := range map[string]string{"bzip2": "BZh", "xz": "\xfd7zXZ\x00"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, true, fault("it is compressed with %s: hermes reads gzip, zstd and plain tars; decompress it first (%s -d)", name, name)
		}
	}
	return io.NopCloser(b), false, nil
}

// stream is a reader that can be given up, counts, and reads no more than a bound that it
// may share with others.
type stream struct {
	ctx  context.Context
	r    io.Reader
	n    int64
	left *int64
	of   int64 // the bound, for the message
}

func (s *stream) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.r.Read(p)
	s.n += int64(n)
	*s.left -= int64(n)
	if *s.left < 0 {
		return 0, tooLarge(s.of)
	}
	return n, err
}

func tooLarge(bytes int64) error {
	return fault("unpacked it has more than %d bytes, which is the bound: if that is meant, unpack it by other means and give the directory", bytes)
}

// verified is a reader that knows what it is to find: at its end it says what is wrong.
type verified struct {
	r    io.Reader
	sum  hash.Hash
	n    int64
	want string // "sha256:" and hex; empty: anything
	size int64  // -1: any
	name string
}

func verify(r io.Reader, name, want string, size int64) *verified {
	return &verified{r: r, sum: sha256.New(), want: want, size: size, name: name}
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	v.n += int64(n)
	if v.size >= 0 && (v.n > v.size || err == io.EOF && v.n != v.size) {
		return 0, fault("%s has not the %d bytes that it should have: it is damaged, or cut off; copy the image again", v.name, v.size)
	}
	if err == io.EOF && v.want != "" && v.digest() != v.want {
		return 0, fault("%s has the digest %s: it is damaged, copy the image again", v.name, v.digest())
	}
	return n, err
}

func (v *verified) digest() string { return "sha256:" + hex.EncodeToString(v.sum.Sum(nil)) }

// drain reads to the end, which is what verifies.
func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// short reads a small file whole.
func short(r io.Reader, name string) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		err = fault("%s is longer than %d bytes", name, maxDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return raw, nil
}

// maxDocument bounds manifests, indexes and configurations.
const maxDocument = 8 << 20
