package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// link is one connection. One exchange uses it at a time.
type link struct {
	conn   net.Conn
	in     *bufio.Reader
	raw    syscall.RawConn // nil: it cannot be asked whether it still stands
	probe  func(fd uintptr) bool
	stands bool
	host   string
	parked time.Time

	head []byte // of the request; then of the answer
	out  net.Buffers
}

func newLink(c net.Conn) *link {
	l := &link{conn: c, in: bufio.NewReaderSize(c, 4<<10)}
	if s, ok := c.(syscall.Conn); ok {
		l.raw, _ = s.SyscallConn() // an error leaves it nil
	}
	l.probe = func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:]) // never waits: sockets of package net are non-blocking
		l.stands = err == syscall.EAGAIN      // no byte, no end
		return true
	}
	return l
}

func (l *link) close() { _ = l.conn.Close() } // nobody waits for what it would say

// alive reports whether the server has neither closed an idle connection nor said
// anything on it unasked.
func (l *link) alive() bool {
	if l.raw == nil || l.in.Buffered() > 0 || time.Since(l.parked) > idleLink {
		return false
	}
	return l.raw.Read(l.probe) == nil && l.stands
}

// exchange writes a request and reads the answer's header. done takes the connection
// back when the answer was read to its end and the connection may be used again.
func (l *link) exchange(req *http.Request, body Body, done func(*link)) (*http.Response, error) {
	ctx := req.Context()
	l.host = req.URL.Host
	b := &answerBody{l: l, ctx: ctx, done: done}
	b.stop = context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	resp, err := l.talk(req, body, b)
	if body != nil {
		_ = body.Close()
	}
	if err != nil {
		return nil, b.fail(err)
	}
	if b.left == 0 {
		b.finish()
		resp.Body = http.NoBody
	}
	return resp, nil
}

func (l *link) talk(req *http.Request, body Body, b *answerBody) (*http.Response, error) {
	sent := l.write(req, body)
	for range maxInterims {
		resp, err := l.read(req, b)
		if err != nil && sent != nil {
			return nil, sent
		}
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			// A server that refuses a body answers before it has read it.
			b.keep = b.keep && sent == nil && resp.StatusCode != http.StatusSwitchingProtocols
			return resp, nil
		}
	}
	return nil, fmt.Errorf("more than %d informational answers", maxInterims)
}

// write sends header and body at once.
func (l *link) write(req *http.Request, body Body) error {
	h := append(append(append(l.head[:0], req.Method...), ' '), req.URL.RequestURI()...)
	h = append(append(h, " HTTP/1.1\r\nHost: "...), req.URL.Host...)
	if _, ok := req.Header["Accept-Encoding"]; !ok {
		h = append(h, "\r\nAccept-Encoding: identity"...)
	}
	if body != nil {
		h = strconv.AppendInt(append(h, "\r\nContent-Length: "...), body.Len(), 10)
	} else if req.Method == http.MethodPost {
		h = append(h, "\r\nContent-Length: 0"...)
	}
	for k, values := range req.Header {
		for _, v := range values {
			h = append(append(append(append(h, '\r', '\n'), k...), ':', ' '), v...)
		}
	}
	l.head = append(h, "\r\n\r\n"...)
	l.out = append(l.out[:0], l.head)
	if body != nil {
		l.out = body.Pieces(l.out)
	}
	list := l.out
	_, err := list.WriteTo(l.conn)
	clear(l.out)
	return err
}

// read takes one header and prepares b for the body behind it.
func (l *link) read(req *http.Request, b *answerBody) (*http.Response, error) {
	text, err := l.header()
	if err != nil {
		return nil, err
	}
	first, rest, _ := strings.Cut(text, "\n")
	resp := &http.Response{ProtoMajor: 1, Request: req, Body: b}
	var ok bool
	if resp.Proto, resp.Status, ok = strings.Cut(strings.TrimSuffix(first, "\r"), " "); !ok {
		return nil, fmt.Errorf("the answer is no HTTP: %.100q", first)
	}
	switch resp.Proto {
	case "HTTP/1.1":
		resp.ProtoMinor = 1
	case "HTTP/1.0":
	default:
		return nil, fmt.Errorf("the answer is no HTTP/1: %.100q", first)
	}
	resp.Status = strings.TrimLeft(resp.Status, " ")
	code, _, _ := strings.Cut(resp.Status, " ")
	if resp.StatusCode, err = strconv.Atoi(code); err != nil || len(code) != 3 || resp.StatusCode < 100 {
		return nil, fmt.Errorf("the answer's status cannot be read: %.100q", first)
	}
	if resp.Header, err = readHeader(rest); err != nil {
		return nil, err
	}
	return resp, b.frame(resp)
}

// header reads up to and with the empty line. The bytes of one answer are bounded.
func (l *link) header() (string, error) {
	h := l.head[:0]
	for {
		piece, err := l.in.ReadSlice('\n')
		h = append(h, piece...)
		l.head = h
		switch {
		case len(h) > maxHeader:
			return "", fmt.Errorf("the answer's header is longer than %d bytes", maxHeader)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(h) == 0:
			return "", errors.New("the server closed the connection without an answer")
		case err == io.EOF:
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		}
		if bytes.HasSuffix(h, []byte("\n\r\n")) || bytes.HasSuffix(h, []byte("\n\n")) {
			return string(h), nil
		}
	}
}

// readHeader reads the lines of a header; those of the usual form without a copy.
func readHeader(text string) (http.Header, error) {
	n := strings.Count(text, "\n")
	header, values := make(http.Header, n), make([]string, 0, n)
	for rest := text; rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return header, nil
		}
		k, v, ok := strings.Cut(line, ":")
		v = strings.Trim(v, " \t")
		if !ok || !token(k) || !field(v) {
			h, err := textproto.NewReader(bufio.NewReader(strings.NewReader(text))).ReadMIMEHeader()
			return http.Header(h), err // folded lines, rare names, and what is wrong
		}
		k = textproto.CanonicalMIMEHeaderKey(k)
		if had := header[k]; had != nil {
			header[k] = append(had, v)
			continue
		}
		values = append(values, v)
		header[k] = values[len(values)-1 : len(values) : len(values)]
	}
	return header, nil
}

// answerBody reads one answer's body off its link.
type answerBody struct {
	l      *link
	ctx    context.Context
	stop   func() bool
	done   func(*link)
	left   int64     // bytes; negative: chunks, or up to the end of the connection
	chunks io.Reader // nil: not in chunks
	keep   bool
	end    error // what Read returns once it is over
}

// frame finds out how long the body is.
func (b *answerBody) frame(resp *http.Response) error {
	h := resp.Header
	b.keep = !mentions(h["Connection"], "close") && (resp.ProtoMinor == 1 || mentions(h["Connection"], "keep-alive"))
	b.left, b.chunks = -1, nil
	coded, sizes := h["Transfer-Encoding"], h["Content-Length"]
	size, err := length(sizes)
	chunked := len(coded) == 1 && resp.ProtoMinor == 1 && equalFold(coded[0], "chunked")
	switch { // what is wrong is refused even where it would not count
	case err != nil:
		return err
	case len(coded) > 0 && !chunked:
		return fmt.Errorf("the answer has the transfer encoding %.100q", coded)
	case chunked && (mentions(h["Trailer"], "transfer-encoding") || mentions(h["Trailer"], "content-length") || mentions(h["Trailer"], "trailer")):
		return fmt.Errorf("the answer announces the trailer %.100q", h["Trailer"])
	}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified:
		b.left = 0
	case chunked:
		b.chunks = httputil.NewChunkedReader(b.l.in)
		b.keep = b.keep && len(sizes) == 0 // both lengths: nobody knows where the next answer begins
	case len(sizes) > 0:
		b.left = size
	default:
		b.keep = false
	}
	resp.ContentLength = b.left
	return nil
}

// length reads the values of Content-Length: 0 without any.
func length(sizes []string) (int64, error) {
	if len(sizes) == 0 {
		return 0, nil
	}
	for _, s := range sizes[1:] {
		if s != sizes[0] {
			return 0, fmt.Errorf("the answer has the lengths %.100q", sizes)
		}
	}
	n, err := strconv.ParseUint(sizes[0], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("the answer has the length %.40q", sizes[0])
	}
	return int64(n), nil
}

// mentions reports whether a comma-separated header holds a word.
func mentions(values []string, word string) bool {
	for _, v := range values {
		for w := range strings.SplitSeq(v, ",") {
			if equalFold(strings.Trim(w, " \t"), word) {
				return true
			}
		}
	}
	return false
}

// equalFold compares with a word in ASCII; strings.EqualFold alone takes the sign for
// Kelvin as a k.
func equalFold(s, word string) bool { return len(s) == len(word) && strings.EqualFold(s, word) }

// Read reads the body; at its end the connection goes back.
func (b *answerBody) Read(p []byte) (n int, err error) {
	if b.end != nil {
		return 0, b.end
	}
	if len(p) == 0 {
		return 0, nil
	}
	switch {
	case b.chunks != nil:
		if n, err = b.chunks.Read(p); err == io.EOF {
			err = b.trailer()
		}
	case b.left >= 0:
		n, err = b.l.in.Read(p[:min(int64(len(p)), b.left)])
		if b.left -= int64(n); b.left == 0 {
			err = io.EOF
		} else if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	default:
		n, err = b.l.in.Read(p)
	}
	switch {
	case err == io.EOF:
		b.finish()
	case err != nil:
		err = b.fail(err)
	}
	return n, err
}

// trailer reads what stands behind the last chunk: lines that nobody wants, an empty one.
func (b *answerBody) trailer() error {
	for size := 0; size < maxHeader; {
		line, err := b.l.in.ReadSlice('\n')
		size += len(line)
		switch {
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil: // a line that is longer than the buffer, too
			return fmt.Errorf("the answer's trailer: %w", err)
		case bytes.Equal(line, []byte("\r\n")):
			return io.EOF
		}
		text, crlf := strings.CutSuffix(string(line), "\r\n")
		if k, v, ok := strings.Cut(text, ":"); !crlf || !ok || !token(k) || !field(v) {
			return fmt.Errorf("a line of the answer's trailer cannot be read: %.100q", line)
		}
	}
	return fmt.Errorf("the answer's trailer is longer than %d bytes", maxHeader)
}

// Close drops a connection whose answer was not read to its end.
func (b *answerBody) Close() error {
	if b.end == nil {
		_ = b.fail(errClosedBody)
	}
	return nil
}

var errClosedBody = errors.New("the answer was closed before its end")

// finish gives the connection back, unless the context has spoilt it already.
func (b *answerBody) finish() {
	b.end = io.EOF
	if b.stop() && b.keep {
		b.done(b.l)
		return
	}
	b.l.close()
}

// fail closes the connection and says why: a context that ended is the cause of what it
// did to the connection.
func (b *answerBody) fail(err error) error {
	b.stop()
	b.l.close()
	if cause := b.ctx.Err(); cause != nil {
		err = cause
	}
	b.end = err
	return err
}
