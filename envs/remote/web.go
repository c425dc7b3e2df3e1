package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"hermes/internal/address"
)

// perServer is how many requests a server gets at once that does not say.
const perServer = 8

// web speaks to a server. A request is a POST; the answer is one JSON message, or lines of
// them, where those before the answer are callbacks. What a callback asked for is posted
// to the same address.
type web struct {
	c      Config
	client *http.Client
	asked  atomic.Int64
	places chan struct{} // made by begin
}

func newWeb(c Config) (*web, error) {
	if err := address.CheckURL("url", c.URL); err != nil {
		return nil, err
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("url: %w", err)
	case u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, fmt.Errorf("url %q: want https://…, or http:// with a host of the loopback", c.URL)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	return &web{c: c, client: &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (w *web) begin(ctx context.Context) (greeting, error) {
	w.places = make(chan struct{}, 1)
	c := w.c
	c.Workers = 1
	raw, err := w.call(ctx, "initialize", hello(c, 1), &scene{})
	if err != nil {
		return greeting{}, fmt.Errorf("start of the environment: %w", err)
	}
	var asks struct{ Concurrency int }
	_ = json.Unmarshal(raw, &asks) // readGreeting tells what is wrong with it
	g, err := readGreeting(raw)
	if asks.Concurrency == 0 {
		g.Concurrency = perServer
	}
	w.places = make(chan struct{}, max(g.Concurrency, 1))
	return g, err
}

func (w *web) call(ctx context.Context, method string, params any, s *scene) (json.RawMessage, error) {
	raw, err := compact(params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if !isNested(ctx) {
		select {
		case w.places <- struct{}{}:
			defer func() { <-w.places }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for try := 1; ; try++ {
		res, err := w.once(ctx, method, raw, s)
		if err = s.blame(err); err == nil || try == tries || !errors.Is(err, errLost) || !safe(method) {
			return res, err
		}
		select {
		case <-time.After(200 * time.Millisecond << try):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// once asks once. The clock of the request is stopped during callbacks.
func (w *web) once(ctx context.Context, method string, params json.RawMessage, s *scene) (json.RawMessage, error) {
	late := broken("the environment at %s did not answer %s within %v", w.c.URL, method, w.c.Timeout)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := time.AfterFunc(w.c.Timeout, func() { cancel(late) })
	defer clock.Stop()
	id := w.asked.Add(1)
	body, err := request(id, method, isNested(ctx), params)
	if err != nil {
		return nil, err
	}
	resp, err := w.post(ctx, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	t := &talk{w: w, id: id, method: method, scene: s, clock: clock}
	res, err := t.read(ctx, resp)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res, err
}

// post sends one message. The caller closes the body.
func (w *web) post(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, application/x-ndjson")
	resp, err := w.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // the status says enough
		err := broken("the environment at %s answered %s: %q", w.c.URL, resp.Status, text)
		if resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusBadGateway {
			err = fmt.Errorf("%w: %w", errLost, err)
		}
		return nil, err
	}
	return resp, nil
}

// talk is the answer to one request on its way.
type talk struct {
	w      *web
	id     int64
	method string
	scene  *scene
	clock  *time.Timer
}

func (t *talk) read(ctx context.Context, resp *http.Response) (json.RawMessage, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if strings.HasSuffix(kind, "/json") {
		all, err := io.ReadAll(io.LimitReader(resp.Body, int64(t.w.c.MaxMessage)+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errLost, err)
		case len(all) > t.w.c.MaxMessage:
			return nil, broken("the environment's %s answered more than %d bytes (setting max-message)", t.method, t.w.c.MaxMessage)
		}
		res, _, err := t.take(ctx, all)
		return res, err
	}
	r := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := readLine(r, t.w.c.MaxMessage)
		switch {
		case errors.As(err, new(*brokenError)):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: no answer to %s: %w", errLost, t.method, err)
		case len(bytes.TrimSpace(line)) == 0:
			continue
		}
		res, done, err := t.take(ctx, line)
		if more, _ := r.Peek(r.Buffered()); done && len(bytes.TrimSpace(more)) > 0 {
			return nil, broken("the environment at %s answered %s and went on, so that the answer cannot be trusted: %q", t.w.c.URL, t.method, clip(string(more), 200))
		}
		if done || err != nil {
			return res, err
		}
	}
}

// take understands one message; done says that it was the answer.
func (t *talk) take(ctx context.Context, line []byte) (res json.RawMessage, done bool, err error) {
	m, err := decode(line)
	if err != nil && !errors.Is(err, errNotFinite) {
		return nil, false, broken("the environment at %s: the body is no message of the protocol (%v): %q", t.w.c.URL, err, clip(string(line), 200))
	}
	if m.Method != "" {
		return nil, false, t.errand(ctx, m)
	}
	if string(m.ID) != strconv.FormatInt(t.id, 10) {
		return nil, false, broken("the environment at %s answered request %s when it was asked %d", t.w.c.URL, clip(string(m.ID), 50), t.id)
	}
	r := answer(t.method, m, err, line)
	return r.result, true, r.err
}

// errand does what the program asks for and posts the answer.
func (t *talk) errand(ctx context.Context, m packet) error {
	t.clock.Stop()
	body, err := encode(t.scene.serve(ctx, m))
	t.clock.Reset(t.w.c.Timeout)
	if err != nil {
		return err
	}
	resp, err := t.w.post(ctx, body)
	if err != nil {
		return fmt.Errorf("answer to %s: %w", m.Method, err)
	}
	return resp.Body.Close()
}

func (w *web) close() error {
	w.client.CloseIdleConnections()
	return nil
}
