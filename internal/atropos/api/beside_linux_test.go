package api_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// ticks is a tick of the times in /proc: Linux has reported the same to every program for a
// long time.
const ticks = 10 * time.Millisecond

// usedBy is the time on a processor that a process has had.
func usedBy(b *testing.B, pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name may have spaces
	var user, system int64
	if _, err := fmt.Sscan(strings.Join(strings.Fields(rest)[11:13], " "), &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * ticks
}

// atropos starts the server of Atropos' own package.
func atropos(b *testing.B) (url string, pid int) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		b.Skip("ORACLE_PYTHON names no Python that has atroposlib")
	}
	if out, err := exec.Command(python, "-c", "import atroposlib.api").CombinedOutput(); err != nil {
		b.Skipf("%s has no atroposlib: %s", python, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	host, port, _ := strings.Cut(l.Addr().String(), ":")
	l.Close() // it takes no port 0
	c := exec.Command(python, "-m", "atroposlib.cli.run_api", "--host", host, "--port", port)
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	url = "http://" + host + ":" + port
	for {
		resp, err := http.Get(url + "/info")
		if err == nil {
			resp.Body.Close()
			return url, c.Process.Pid
		}
		if b.Context().Err() != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBesideAtropos posts the same groups, a batch of 1.3 million tokens with ids,
// masks and log-probs, to Atropos' own server and to ours, and fetches the batch from
// each, in turn and in one run: as a client that takes gzip, as Python's are, and as one
// that does not. The figures are times on a processor of the server's process; wall is
// what the client waits.
func BenchmarkBesideAtropos(b *testing.B) {
	theirs, theirPID := atropos(b)
	ours := startProcess(b)
	body := payload(8, 4096, true)
	const groups = 40
	ask := func(url, method, path, encoding string, body []byte) (n int64) {
		r, err := http.NewRequest(method, url+path, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept-Encoding", encoding)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		n, err = io.Copy(io.Discard, resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%s %s: %s, %v", method, path, resp.Status, err)
		}
		return n
	}
	total := map[string]float64{}
	for _, s := range []struct {
		name, url string
		used      func() time.Duration
	}{
		{"atropos", theirs, func() time.Duration { return usedBy(b, theirPID) }},
		{"hermes", ours.url, func() time.Duration { return time.Duration(ours.spent().total()) }},
	} {
		ask(s.url, "POST", "/register", "identity", []byte(trainer(8*groups)))
		for _, encoding := range []string{"identity", "gzip"} {
			before := s.used()
			for range groups {
				ask(s.url, "POST", "/scored_data", "identity", body)
			}
			posted, begin := s.used(), time.Now()
			if n := ask(s.url, "GET", "/batch", encoding, nil); n < int64(groups*len(body)/10) {
				b.Fatalf("%s: a batch of %d bytes", s.name, n)
			}
			wall := time.Since(begin)
			total[s.name+"-ingest-ns/byte"] = float64(posted-before) / float64(groups*len(body))
			total[s.name+"-"+encoding+"-batch-ms"] = float64((s.used() - posted).Microseconds()) / 1000
			total[s.name+"-"+encoding+"-wall-ms"] = float64(wall.Microseconds()) / 1000
		}
	}
	for b.Loop() { // one run says all: a second would wait half a minute more for the same
	}
	for name, v := range total {
		b.ReportMetric(v, name)
	}
}
