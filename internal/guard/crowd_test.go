package guard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"hermes/internal/guard"
)

// running serves h behind a guard and gives its address.
func running(t *testing.T, o guard.Options, h http.HandlerFunc) string {
	t.Helper()
	g, err := guard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r, err := g.Serve(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
	})
	return strings.TrimPrefix(r.URL, "http://")
}

func dial(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// status reads an answer; its error says that the connection is closed.
func status(t *testing.T, c net.Conn) (int, error) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func reader(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if errors.Is(err, guard.ErrSlow) {
		http.Error(w, err.Error(), http.StatusRequestTimeout)
		return
	}
	fmt.Fprint(w, n, err)
}

const declared = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"

// TestSlowBodies: a body that stops or trickles is given up, whether the handler
// reads it or not; one that goes on is not, however long it takes.
func TestSlowBodies(t *testing.T) {
	const window = 300 * time.Millisecond
	addr := running(t, guard.Options{Window: window, MaxBody: 1 << 30}, reader)
	still := dial(t, addr, fmt.Sprintf(declared, 1_000_000_000)+"{")
	if code, err := status(t, still); code != http.StatusRequestTimeout {
		t.Error(code, err)
	}
	trickle := dial(t, addr, fmt.Sprintf(declared, 1_000_000_000))
	gave := make(chan struct{})
	go func() {
		defer close(gave)
		tick := time.NewTicker(window / 20)
		defer tick.Stop()
		for range tick.C {
			if _, err := trickle.Write([]byte("x")); err != nil {
				return
			}
		}
	}()
	if code, err := status(t, trickle); code != http.StatusRequestTimeout {
		t.Error(code, err)
	}
	trickle.Close()
	<-gave
	// Three windows of just enough, and longer ones where the machine itself paused for one.
	for window := window; ; window *= 5 {
		code, err := steadily(t, window)
		if err == nil && code == http.StatusOK {
			break
		}
		if window > 5*time.Second {
			t.Error(code, err)
			break
		}
	}
	// An early answer: what is left of the body holds neither it nor the connection.
	early := running(t, guard.Options{Window: window}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "early") })
	c := dial(t, early, fmt.Sprintf(declared, 1000)+"{")
	if code, err := status(t, c); code != http.StatusOK {
		t.Error(code, err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection stays open", n)
	}
}

// steadily sends 40 parts of a body in three windows or a bit more, and gives the answer.
func steadily(t *testing.T, window time.Duration) (int, error) {
	t.Helper()
	addr := running(t, guard.Options{Window: window, MaxBody: 1 << 30}, reader)
	part := strings.Repeat("x", 64<<10)
	c := dial(t, addr, fmt.Sprintf(declared, 40*len(part)))
	tick := time.NewTicker(window / 12)
	defer tick.Stop()
	for range 40 {
		<-tick.C
		if _, err := io.WriteString(c, part); err != nil {
			return 0, err
		}
	}
	return status(t, c)
}

// TestSlowHeaders: a header that stops or trickles ends its connection in its time, and that
// time is there when nothing is said.
func TestSlowHeaders(t *testing.T) {
	const tries, most = 5, 6 * time.Second // a busy machine may pause; what is not bounded takes the 10 seconds of every server
	for try := 1; ; try++ {
		took := slowHeaders(t)
		if took <= most {
			break
		}
		if try == tries {
			t.Errorf("slow headers were ended after %v", took)
			break
		}
	}
	if bounds := guard.HeaderTime(guard.Options{}); bounds <= 0 || bounds > 30*time.Second {
		t.Errorf("a header may take %v when nothing is said", bounds)
	}
}

// slowHeaders gives how long it takes until both kinds of slow headers have lost their connections.
func slowHeaders(t *testing.T) time.Duration {
	t.Helper()
	const most = 300 * time.Millisecond
	addr := running(t, guard.Options{Header: most, Window: time.Hour}, reader)
	began := time.Now()
	still := dial(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\nX-")
	trickle := dial(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	gave := make(chan struct{})
	go func() {
		defer close(gave)
		tick := time.NewTicker(most / 20)
		defer tick.Stop()
		for range tick.C {
			if _, err := trickle.Write([]byte("x")); err != nil {
				return
			}
		}
	}()
	for _, c := range []net.Conn{still, trickle} {
		c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		if said, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(string(said), " 200 ") {
			t.Errorf("a slow header: %q, %v", said, err)
		}
	}
	took := time.Since(began)
	trickle.Close()
	<-gave
	return took
}

// TestSlowHandler: the time that a handler takes is not the body's, before it reads, while
// it reads and when it has read.
func TestSlowHandler(t *testing.T) {
	for window := 300 * time.Millisecond; ; window *= 5 { // of a machine that pauses for one, longer ones
		err := slowHandler(t, window)
		if err == nil {
			return
		}
		if window > 5*time.Second {
			t.Fatal(err)
		}
	}
}

func slowHandler(t *testing.T, window time.Duration) error {
	t.Helper()
	pause := func() { <-time.After(2 * window) }
	addr := running(t, guard.Options{Window: window}, func(w http.ResponseWriter, r *http.Request) {
		pause()
		_, first := io.ReadFull(r.Body, make([]byte, 10))
		pause()
		rest, err := io.ReadAll(r.Body)
		pause()
		fmt.Fprint(w, len(rest), first, err, context.Cause(r.Context()))
	})
	resp, err := http.Post("http://"+addr, "", strings.NewReader(strings.Repeat("x", 1<<20)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != fmt.Sprint(1<<20-10, nil, nil, nil) {
		return fmt.Errorf("%s, %w", b, err)
	}
	return nil
}

// TestCrowd: connections that ask for nothing, or hold a body back, make room for those
// that do; who is being answered keeps its connection.
func TestCrowd(t *testing.T) {
	const most = 8
	hold, here := make(chan struct{}), make(chan struct{})
	addr := running(t, guard.Options{Most: most}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			close(here)
			<-hold
		}
		reader(w, r)
	})
	busy := dial(t, addr, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-here
	for range most { // silent, in the middle of a header, in the middle of a body
		dial(t, addr, "")
		dial(t, addr, "GET / HTTP/1.1\r\nHo")
		dial(t, addr, fmt.Sprintf(declared, 1000)+"{")
	}
	for range 5 {
		c := dial(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if code, err := status(t, c); code != http.StatusOK {
			t.Fatal(code, err)
		}
	}
	close(hold)
	if code, err := status(t, busy); code != http.StatusOK {
		t.Error(code, err)
	}
}
