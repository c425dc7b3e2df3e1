package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"time"
)

// askTime bounds one question: a run answers at once, unless its machine is swamped.
const askTime = time.Minute

// Refusal is what a run says to a request that it does not carry out.
type Refusal struct{ Text string }

func (e *Refusal) Error() string { return e.Text }

// Client asks one run. It is for one goroutine.
type Client struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial reaches the run that is going on in a run directory; [ErrNotRunning] where there is
// none, also when a dead one has left its socket.
func Dial(ctx context.Context, dir string) (*Client, error) {
	path, done, err := target(dir)
	defer done()
	if err != nil {
		return nil, fmt.Errorf("reach the run in %s: %w", dir, err)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%s: %w: no process answers on its %s", dir, ErrNotRunning, socketName)
	case err != nil:
		return nil, fmt.Errorf("reach the run in %s: %w", dir, err)
	}
	return &Client{conn: c, in: bufio.NewReader(c)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Ask sends one request and reads its answer. A *Refusal says that the run did nothing.
func (c *Client) Ask(ctx context.Context, q Request) (Answer, error) {
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	line, err := json.Marshal(q)
	if err != nil {
		return Answer{}, err
	}
	if err = c.conn.SetDeadline(time.Now().Add(askTime)); err == nil {
		_, err = c.conn.Write(append(line, '\n'))
	}
	if err == nil {
		line, err = c.in.ReadBytes('\n')
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Answer{}, fmt.Errorf("ask the run to %s: %w", q.Do, err)
	}
	var a Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return Answer{}, fmt.Errorf("the run's answer: %w", err)
	}
	if a.Error != "" {
		return a, &Refusal{a.Error}
	}
	return a, nil
}
