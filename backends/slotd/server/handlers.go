//go:build linux

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/wire"
)

func pathOf(r *http.Request) string { return r.URL.Query().Get("path") }

func (s *server) getFile(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit")
	if err != nil {
		return err
	}
	f, err := s.h.Content(r.Context(), pathOf(r), limit)
	if err != nil {
		return err
	}
	defer f.Close()
	to := newSlow(w, r)
	defer to.stop()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", wire.ErrorTrailer)
	_, err = io.Copy(to, f)
	sendTrailer(w, host.PathError("read", pathOf(r), err))
	return nil
}

func sendTrailer(w http.ResponseWriter, err error) {
	if err == nil {
		w.Header().Set(wire.ErrorTrailer, "none")
		return
	}
	text, _ := json.Marshal(wire.ToFault(err))
	w.Header().Set(wire.ErrorTrailer, strconv.QuoteToASCII(string(text)))
}

func (s *server) putFile(w http.ResponseWriter, r *http.Request) error {
	mode, err := number(r, "mode")
	if err != nil {
		return err
	}
	from := newSlow(w, r)
	defer from.stop()
	if err := s.h.WriteFrom(r.Context(), pathOf(r), from, fs.FileMode(mode)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) getTar(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Trailer", wire.ErrorTrailer)
	to := newSlow(w, r)
	defer to.stop()
	sendTrailer(w, s.h.CopyOut(r.Context(), pathOf(r), to))
	return nil
}

func (s *server) putTar(w http.ResponseWriter, r *http.Request) error {
	from := newSlow(w, r)
	defer from.stop()
	if err := s.h.CopyIn(r.Context(), pathOf(r), from); err != nil {
		return err
	}
	io.Copy(io.Discard, io.LimitReader(from, wire.MaxRequest)) // padding after the end of the archive
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) stat(w http.ResponseWriter, r *http.Request) error {
	st, err := s.h.Stat(r.Context(), pathOf(r))
	if err != nil {
		return err
	}
	return sendJSON(w, wire.FileOf(st))
}

func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	most, err := number(r, "max")
	if err != nil {
		return err
	}
	all, err := s.h.List(r.Context(), pathOf(r), int(most))
	if err != nil {
		return err
	}
	files := make([]wire.File, len(all))
	for i, f := range all {
		files[i] = wire.FileOf(f)
	}
	return sendJSON(w, files)
}

func (s *server) search(w http.ResponseWriter, r *http.Request) error {
	var q backends.Query
	if err := json.NewDecoder(io.LimitReader(r.Body, wire.MaxRequest)).Decode(&q); err != nil {
		return fmt.Errorf("read query: %w", err)
	}
	found, err := s.h.Search(r.Context(), q)
	if err != nil {
		return err
	}
	return sendJSON(w, found)
}

func (s *server) start(w http.ResponseWriter, r *http.Request) error {
	_, c, o, err := readCommand(r)
	if err != nil {
		return err
	}
	if err := s.h.Alive(r.Context(), "start"); err != nil {
		return err
	}
	p, err := s.h.Begin(r.Context(), c, o)
	if err != nil {
		return err
	}
	return sendJSON(w, wire.Started{ID: p.ID(), PID: p.PID()})
}

func (s *server) process(r *http.Request) (*host.Process, error) {
	p, ok := s.h.Process(r.PathValue("id"))
	if !ok {
		return nil, fmt.Errorf("process %q: %w", r.PathValue("id"), fs.ErrNotExist)
	}
	return p, nil
}

func (s *server) output(w http.ResponseWriter, r *http.Request) error {
	p, err := s.process(r)
	if err != nil {
		return err
	}
	off, err := number(r, "off")
	if err != nil {
		return err
	}
	most, err := number(r, "max")
	if err != nil {
		return err
	}
	data, first, lines := p.Since(off, most)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("X-First", strconv.FormatInt(first, 10))
	w.Header().Set("X-Lines", strconv.FormatInt(lines, 10))
	w.Write(data)
	return nil
}

func (s *server) wait(w http.ResponseWriter, r *http.Request) error {
	p, err := s.process(r)
	if err != nil {
		return err
	}
	if beatUntil(w, r, p.Done()) == nil {
		result, err := p.Wait(context.Background()) // it has ended
		sendResult(w, result, err)
	}
	return nil
}

func (s *server) stdin(w http.ResponseWriter, r *http.Request) error {
	p, err := s.process(r)
	if err != nil {
		return err
	}
	if r.URL.Query().Get("eof") == "1" {
		err = p.CloseStdin(r.Context())
	} else {
		var data []byte
		data, err = io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxStdin))
		if err == nil {
			err = p.Write(r.Context(), data)
		}
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) resize(w http.ResponseWriter, r *http.Request) error {
	p, err := s.process(r)
	if err != nil {
		return err
	}
	rows, err := number(r, "rows")
	if err != nil {
		return err
	}
	cols, err := number(r, "cols")
	if err != nil {
		return err
	}
	if err := p.Resize(r.Context(), uint16(rows), uint16(cols)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) kill(w http.ResponseWriter, r *http.Request) error {
	p, err := s.process(r)
	if err != nil {
		return err
	}
	grace, err := number(r, "grace_ms")
	if err != nil {
		return err
	}
	if err := p.Kill(r.Context(), time.Duration(grace)*time.Millisecond); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// forward joins the connection with a port of the box.
func (s *server) forward(w http.ResponseWriter, r *http.Request) error {
	port, err := number(r, "port")
	if err != nil {
		return err
	}
	to, err := s.h.Forward(r.Context(), int(port))
	if err != nil {
		return err
	}
	defer to.Close()
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer c.Close()
	if !s.h.Keep(c) {
		return nil
	}
	defer s.h.Drop(c)
	c.SetDeadline(time.Time{})
	fmt.Fprint(c, wire.Switching)
	left := make(chan struct{}) // closed when the client has said all
	go func() {
		defer close(left)
		io.Copy(to, buf)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
		io.Copy(io.Discard, buf) // what the port takes no more
	}()
	io.Copy(c, to)
	awaitClose(c, left)
	return nil
}
