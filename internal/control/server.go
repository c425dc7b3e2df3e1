package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"hermes/trajectory"
)

// Server answers on the socket of a run. Close ends it.
type Server struct {
	run    Run
	log    *slog.Logger
	l      *net.UnixListener
	remove func() error
	end    context.CancelFunc
	work   sync.WaitGroup
}

// Listen opens the socket of the run directory dir, which the caller owns, and answers on
// it until Close.
func Listen(ctx context.Context, dir string, run Run, log *slog.Logger) (*Server, error) {
	l, remove, err := bind(dir)
	if err != nil {
		return nil, err
	}
	s := &Server{run: run, log: log, l: l, remove: remove}
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.work.Go(func() { s.accept(ctx) })
	return s, nil
}

// Close removes the socket and returns when no request is being answered any more.
func (s *Server) Close() error {
	s.end()
	err := s.l.Close()
	s.work.Wait()
	return errors.Join(err, s.remove())
}

func (s *Server) accept(ctx context.Context) {
	places := make(chan struct{}, maxConns)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		c, err := s.l.Accept()
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("the run cannot be steered any more", "err", err)
			}
			return
		}
		s.work.Go(func() {
			defer func() { <-places }()
			s.serve(ctx, c)
		})
	}
}

// serve answers the requests of one connection in order.
func (s *Server) serve(ctx context.Context, c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, maxLine)
	out := json.NewEncoder(c)
	for c.SetDeadline(time.Now().Add(idleTime)) == nil && lines.Scan() {
		if out.Encode(s.answer(ctx, lines.Bytes())) != nil {
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		out.Encode(Answer{Error: fmt.Sprintf("a request longer than %d bytes", maxLine)})
	}
}

func (s *Server) answer(ctx context.Context, line []byte) Answer {
	var q Request
	d := json.NewDecoder(strings.NewReader(string(line)))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return Answer{Error: fmt.Sprintf("the request is no JSON object of do, id, concurrency: %v", err)}
	}
	var key trajectory.Key
	var err error
	switch q.Do {
	case "status":
	case "pause":
		s.run.Pause()
	case "resume":
		s.run.Resume()
	case "set":
		err = s.run.SetConcurrency(q.Concurrency)
	case "cancel":
		key, err = s.run.Cancel(q.ID)
	case "requeue":
		key, err = s.run.Requeue(ctx, q.ID)
	default:
		err = fmt.Errorf("do %q: want status, pause, resume, set, cancel or requeue", q.Do)
	}
	if err != nil {
		return Answer{Error: err.Error()}
	}
	if q.Do != "status" {
		s.log.Info("the run was steered", "do", q.Do, "id", q.ID, "concurrency", q.Concurrency)
	}
	st := s.run.Status()
	a := Answer{Status: &st}
	if q.Do == "cancel" || q.Do == "requeue" {
		a.Key = &key
	}
	return a
}
