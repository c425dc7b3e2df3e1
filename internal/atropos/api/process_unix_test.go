//go:build unix

package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermes/internal/atropos/api"
)

// asServer as the first argument makes this program a server for benchmarks.
const asServer = "serve-for-benchmark"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asServer {
		if err := serveForBenchmark(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// spent is what a process has used so far.
type spent struct{ User, System time.Duration }

func (a spent) sub(b spent) spent { return spent{a.User - b.User, a.System - b.System} }
func (a spent) total() float64    { return float64(a.User + a.System) }

// serveForBenchmark serves the API on the loopback until stdin ends, and beside it /spent
// and /discard: what a bare handler makes of a body that it throws away.
func serveForBenchmark(dir string) error {
	s, _, err := api.Open(api.Options{Dir: dir})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.HandleFunc("/discard", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("/spent", func(w http.ResponseWriter, _ *http.Request) {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(spent{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())})
	})
	srv := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	fmt.Printf("http://%s\n", l.Addr())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err := srv.Close(); err != nil {
		return err
	}
	<-ended
	return s.Close()
}

// process is a separate server, so that its time on a processor is not its clients'.
type process struct {
	url string
	tb  testing.TB
}

func startProcess(tb testing.TB) *process {
	c := exec.Command(os.Args[0], asServer, tb.TempDir())
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			tb.Error(err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return &process{strings.TrimSpace(url), tb}
}

// ask does a request and returns the length of its answer.
func (p *process) ask(method, path string, body []byte) int64 {
	r, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		p.tb.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		p.tb.Fatalf("%s %s: %s, %v", method, path, resp.Status, err)
	}
	return n
}

func (p *process) spent() (t spent) {
	resp, err := http.Get(p.url + "/spent")
	if err != nil {
		p.tb.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&t); err != nil {
		p.tb.Fatal(err)
	}
	return t
}

// BenchmarkIngestOverLoopback posts groups of 8 sequences of 4,096 tokens to a server in its
// own process. It reports the processor time of that process: cpu-ns/byte for all of it,
// floor-ns/byte for a bare handler that throws the body away, and own-ns/byte, the
// difference: validating, writing, logging and syncing. A trainer takes batches of 40
// groups, which is not counted; so what is freed is written over, as in a long run.
func BenchmarkIngestOverLoopback(b *testing.B) {
	const perBatch = 40
	for _, python := range []bool{false, true} {
		b.Run(fmt.Sprintf("python=%v", python), func(b *testing.B) {
			body := payload(8, 4096, python)
			p := startProcess(b)
			p.ask("POST", "/register", []byte(trainer(8*perBatch)))
			round := func() (ingest, floor, batch spent) {
				at := p.spent()
				for range perBatch {
					p.ask("POST", "/scored_data", body)
				}
				posted := p.spent()
				for range perBatch {
					p.ask("POST", "/discard", body)
				}
				thrown := p.spent()
				p.ask("GET", "/batch", nil)
				return posted.sub(at), thrown.sub(posted), p.spent().sub(thrown)
			}
			for range 8 { // until segments are written over
				round()
			}
			b.SetBytes(int64(perBatch * len(body)))
			var ingest, floor, batch spent
			for b.Loop() {
				i, f, g := round()
				ingest, floor, batch = ingest.sub(spent{-i.User, -i.System}), floor.sub(spent{-f.User, -f.System}), batch.sub(spent{-g.User, -g.System})
			}
			n := float64(b.N * perBatch * len(body))
			b.ReportMetric(ingest.total()/n, "cpu-ns/byte")
			b.ReportMetric(float64(ingest.User)/n, "user-ns/byte")
			b.ReportMetric(floor.total()/n, "floor-ns/byte")
			b.ReportMetric((ingest.total()-floor.total())/n, "own-ns/byte")
			b.ReportMetric((ingest.total()-floor.total())/float64(b.N*perBatch*8*4096), "own-ns/token")
			b.ReportMetric(batch.total()/float64(b.N)/1e6, "cpu-ms/batch")
		})
	}
}

// BenchmarkStatusUnderLoad asks /status while two environments post groups of some
// megabytes one after the other and a trainer fetches batches of 1.3 million tokens. Beside
// it stand the times of a handler that does nothing, in the same process under the same
// load: what the machine and the network make of it.
func BenchmarkStatusUnderLoad(b *testing.B) {
	p := startProcess(b)
	p.ask("POST", "/register", []byte(trainer(80)))
	body := payload(8, 16384, false)
	ctx, stop := context.WithCancel(b.Context())
	var load sync.WaitGroup
	for range 2 {
		load.Go(func() {
			for ctx.Err() == nil {
				p.ask("POST", "/scored_data", body)
			}
		})
	}
	batches := 0
	load.Go(func() {
		for ctx.Err() == nil {
			if p.ask("GET", "/batch", nil) > 1000 {
				batches++
			}
		}
	})
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, path := range []string{"/status", "/spent"} {
			begin := time.Now()
			p.ask("GET", path, nil)
			took[path] = append(took[path], time.Since(begin))
		}
	}
	stop()
	load.Wait()
	for path, list := range took {
		slices.Sort(list)
		name := strings.TrimPrefix(path, "/")
		if path == "/spent" {
			name = "bare"
		}
		b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, name+"-p99-ms")
		b.ReportMetric(float64(list[len(list)-1].Microseconds())/1000, name+"-max-ms")
	}
	b.ReportMetric(float64(batches), "batches")
}
