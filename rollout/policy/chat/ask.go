package chat

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"hermes/rollout/policy"
	"hermes/rollout/policy/loose"
	"hermes/rollout/policy/wire"
)

// maxEvent bounds one event of a stream; the wire bounds the whole answer.
const maxEvent = 1 << 30

// ask sends one request and feeds a with the answer, whole or in pieces.
func ask(ctx context.Context, d wire.Doer, stream bool, a *answer) error {
	if stream {
		return askStream(ctx, d, a)
	}
	return askWhole(ctx, d, a)
}

// askStream reads the answer in pieces. A server without streams, and a stored answer,
// give one document.
func askStream(ctx context.Context, d wire.Doer, a *answer) error {
	req := &http.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}}
	resp, err := d.Do(req.WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	if document(body) {
		if _, err := io.Copy(io.Discard, body); err != nil { // the attempt keeps what is read
			return err
		}
		return a.whole(d.Raw())
	}
	for data, err := range wire.Events(body, maxEvent) {
		if errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil && ended(resp) {
			return policy.Malformedf("the stream ended in the middle of a line")
		}
		if err == nil {
			err = cmp.Or(a.read(data), a.leak)
		}
		if err != nil {
			return err
		}
	}
	a.end()
	if err := a.leaked(); err != nil {
		return err
	}
	if a.finish != "" {
		return a.failed()
	}
	return cmp.Or(reported(d), error(policy.Malformedf("the stream ended after %d pieces without a finish_reason", a.pieces)))
}

// ended reports whether a body came to its end as its header promised, so that a line cut
// in its middle is what the server wrote.
func ended(resp *http.Response) bool {
	var b [1]byte
	_, err := resp.Body.Read(b[:])
	return err == io.EOF
}

// document steps over white space and a byte order mark and reports whether a JSON
// document follows.
func document(r *bufio.Reader) bool {
	for {
		b, err := r.Peek(1)
		switch {
		case err != nil:
			return false
		case b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n':
			_, _ = r.Discard(1) // it was there a moment ago
		case b[0] == mark[0]:
			b, err = r.Peek(len(mark))
			if err != nil || string(b) != mark {
				return false
			}
			_, _ = r.Discard(len(mark)) // likewise
		default:
			return b[0] == '{'
		}
	}
}

// askWhole asks for an answer in one document.
func askWhole(ctx context.Context, d wire.Doer, a *answer) error {
	raw, err := d.Whole(ctx)
	if err != nil {
		return err
	}
	return a.whole(raw)
}

// reported looks for an error in a raw stream that came beside choices.
func reported(d wire.Doer) error {
	for data, err := range wire.Events(bytes.NewReader(d.Raw()), len(d.Raw())+1) {
		var e struct{ Error json.RawMessage }
		if err != nil {
			return nil
		}
		if json.Unmarshal(data, &e) == nil && loose.Present(e.Error) {
			return wire.Classify(http.StatusOK, nil, data, time.Time{})
		}
	}
	return nil
}
