package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnaskedBytes has a server send its client's key, and a sequence that steers terminals,
// behind a whole answer, in the same packet. net/http writes such bytes to the standard logger:
// neither may reach stderr as they are.
func TestUnaskedBytes(t *testing.T) {
	const key = "sk-unasked-0123456789abcdef"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go unasked(c)
		}
	}()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(strings.Repeat("{\"prompt\":\"say done\"}\n", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := hermes(t, dir, "batch", "rows.jsonl", "--model", "m", "--base-url", "http://"+l.Addr().String()+"/v1", "--toolsets", "none",
		"--run", "r", "--backend", "local", "--api-key-env", "UNASKED_KEY", "--no-stream", "--progress", "none")
	c.Env = append(c.Env, "UNASKED_KEY="+key)
	text, code := said(t, c)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, text)
	}
	if strings.Contains(text, key) || strings.Contains(text, "\x1b") {
		t.Errorf("stderr has what a server sent unasked:\n%q", text)
	}
	if !strings.Contains(text, "Unsolicited response") {
		t.Logf("the case did not come up this time:\n%s", text)
	}
}

// unasked answers each request, and adds bytes that are no answer to any.
func unasked(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body := `{"object":"list","data":[{"id":"m"}]}`
		if q.Method == http.MethodPost {
			body = `{"id":"a","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done"}}],` +
				`"usage":{"prompt_tokens":1,"completion_tokens":1}}`
		}
		if q.ContentLength > 0 {
			if _, err := r.Discard(int(q.ContentLength)); err != nil {
				return
			}
		}
		key := strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer ")
		if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s%s\x1b[2J", len(body), body, key); err != nil {
			return
		}
	}
}
