package chat_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// TestMain serves benchmarks: the server is this binary in another process, so that
// the processor time that is measured is the client's alone.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve-model" {
		serveModel()
		return
	}
	os.Exit(m.Run())
}

func serveModel() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString("http://" + l.Addr().String() + "/v1\n")
	go func() {
		io.Copy(io.Discard, os.Stdin) // ends with the parent
		os.Exit(0)
	}()
	answer := []byte(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ",
		40) +
		`","tool_calls":[{"id":"c1","type":"function","function":{"name":"terminal","arguments":"{\"command\":\"ls -la\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3000,"completion_tokens":60,"total_tokens":3060}}`)
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}))
}

func BenchmarkTurn(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"12kB", 12 << 10}, {"74kB", 74 << 10}} {
		b.Run(size.name, func(b *testing.B) { benchTurn(b, size.bytes) })
	}
}

// BenchmarkFloor is the same exchange with net/http alone: a ready body out, the answer
// read but not decoded.
func BenchmarkFloor(b *testing.B) {
	base := startModel(b)
	body := strings.Repeat("x", 12<<10)
	tr := &http.Transport{MaxIdleConnsPerHost: 4}
	before := processor()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, base+"/chat/completions", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	b.ReportMetric(float64(processor()-before)/float64(b.N)/1e3, "µs-cpu/turn")
}

// benchTurn measures turns of about 600 bytes on top of a context.
func benchTurn(b *testing.B, size int) {
	base := startModel(b)
	w, err := wire.New(wire.Options{Bases: []string{base}})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	p, err := chat.New(w, chat.Options{Model: "m"})
	if err != nil {
		b.Fatal(err)
	}
	tools := []trajectory.ToolSpec{{Name: "terminal", Description: strings.Repeat("d", 1000), Parameters: json.RawMessage(`{"type":"object"}`)}}
	s, err := p.Open(tools, policy.Options{})
	if err != nil {
		b.Fatal(err)
	}
	tr := trajectory.New(trajectory.ModeText, tools)
	var opening []trajectory.Message
	for range 20 {
		opening = append(opening, trajectory.Text(trajectory.User, strings.Repeat("some text\n", (size-1200)/20/11)))
	}
	turn, err := s.Next(context.Background(), tr.Prefix(), opening, nil)
	if err != nil {
		b.Fatal(err)
	}
	root, err := tr.Commit(turn)
	if err != nil {
		b.Fatal(err)
	}
	result := []trajectory.Message{{
		Role:   trajectory.Tool,
		CallID: "c1",
		Parts:  []trajectory.Part{{Kind: trajectory.PartText, Text: strings.Repeat("total 12\n", 30)}},
	}}
	b.ReportAllocs()
	before := processor()
	for i := 0; b.Loop(); i++ {
		if i%16 == 0 {
			if err := tr.Rewind(root, trajectory.Branch); err != nil {
				b.Fatal(err)
			}
		}
		turn, err := s.Next(context.Background(), tr.Prefix(), result, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tr.Commit(turn); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processor()-before)/float64(b.N)/1e3, "µs-cpu/turn")
}

// startModel returns the base URL of a server in another process.
func startModel(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0], "serve-model")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(line[:n]))
}

// processor is the time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
