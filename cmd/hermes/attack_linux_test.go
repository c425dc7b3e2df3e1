package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// attack is what strangers do to a server while its own clients go on.
type attack struct {
	addr             string
	idle, slow, bomb int

	opened, cut, fallen atomic.Int64 // connections; slow bodies that were given up; bombs that were refused
}

// bombOf is 1 GiB of spaces in 1 MB of gzip, in members as gzip allows.
func bombOf(t *testing.T) []byte {
	t.Helper()
	var one bytes.Buffer
	z, err := gzip.NewWriterLevel(&one, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range 32 {
		if _, err := z.Write(spaces); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(one.Bytes(), 32)
}

// run attacks until ctx ends: connections that say nothing, half a header or nothing more
// after a request; bodies of a gigabyte that bring a byte now and then; bombs. What the
// server closes is opened again.
func (a *attack) run(ctx context.Context, t *testing.T) {
	var wg sync.WaitGroup
	hold := func(text string, drip time.Duration, closed *atomic.Int64) {
		for ctx.Err() == nil {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.addr)
			if err != nil {
				continue
			}
			a.opened.Add(1)
			stop := context.AfterFunc(ctx, func() { c.Close() })
			io.WriteString(c, text)
			done := make(chan struct{})
			go func() {
				defer close(done)
				io.Copy(io.Discard, c)
				c.Close()
			}()
			for open := true; open; {
				var tick <-chan time.Time
				if drip > 0 {
					tick = time.After(drip)
				}
				select {
				case <-done:
					open = false
				case <-tick:
					io.WriteString(c, "1")
				}
			}
			closed.Add(1)
			stop()
		}
	}
	var idle atomic.Int64
	texts := []string{"", "GET /status HTTP/1.1\r\nHo", "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"}
	for k := range a.idle {
		wg.Go(func() { hold(texts[k%len(texts)], 0, &idle) })
	}
	for k := range a.slow {
		path := []string{"/scored_data", "/scored_data_list", "/register-env"}[k%3]
		wg.Go(func() {
			hold("POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{", time.Second/2, &a.cut)
		})
	}
	bomb := bombOf(t)
	for range a.bomb {
		wg.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, "POST", "http://"+a.addr+"/scored_data", bytes.NewReader(bomb))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Content-Encoding", "gzip")
				resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
				if err == nil && resp.StatusCode == http.StatusOK {
					t.Error("a bomb was taken")
				}
				if err == nil {
					resp.Body.Close()
				}
				a.fallen.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	wg.Wait()
}

// load is a normal load: environments that post groups and a trainer that fetches them.
// What was posted and what was fetched is kept for the end.
type load struct {
	s *trajectoryServer

	mu     sync.Mutex
	took   []time.Duration
	posted map[int]bool
	seen   map[int]int
	lost   []string
}

// run goes on for some time and gives the times that posts took.
func (l *load) run(ctx context.Context, posters int) []time.Duration {
	l.took = nil
	var wg sync.WaitGroup
	for range posters {
		wg.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				l.mu.Lock()
				id := len(l.posted)
				l.posted[id] = true
				l.mu.Unlock()
				row := fmt.Sprintf("[%d%s]", id, strings.Repeat(",7", 5000+rand.IntN(20_000)))
				body := fmt.Sprintf(`{"tokens":[%s,%s],"masks":[%s,%s],"scores":[0,1]}`, row, row, row, row)
				begin := time.Now()
				err := l.s.call("POST", "/scored_data", body, "", &struct{}{})
				l.mu.Lock()
				l.took = append(l.took, time.Since(begin))
				if err != nil {
					l.lost = append(l.lost, err.Error())
				}
				l.mu.Unlock()
				<-tick.C
			}
		})
	}
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			l.fetch()
			<-tick.C
		}
	})
	wg.Wait()
	return l.took
}

// fetch takes a batch as Atropos' trainers do, and reports whether there was one.
func (l *load) fetch() bool {
	var b struct{ Batch []struct{ Tokens [][]int } }
	if err := l.s.call("GET", "/batch", "", "", &b); err != nil {
		l.mu.Lock()
		l.lost = append(l.lost, err.Error())
		l.mu.Unlock()
	}
	for _, g := range b.Batch {
		l.seen[g.Tokens[0][0]]++
	}
	return len(b.Batch) > 0
}

// resident is the memory of a process, in MB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb >> 10
}

// peak calls f and gives the most memory that the process had meanwhile, in MB.
func peak(t *testing.T, pid int, f func()) int {
	ctx, stop := context.WithCancel(t.Context())
	top := make(chan int)
	go func() {
		most := 0
		for {
			most = max(most, resident(t, pid))
			select {
			case <-ctx.Done():
				top <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	f()
	stop()
	return <-top
}

// TestRunAPIAttack: beside 1,500 idle connections, 50 slow bodies and 20 bombs, no post is
// lost, 99 in 100 take less than a second, or ten times as long as without it on a machine that is
// slow or busy, and the memory stays within 512 MB of what it is
// without. The short form has a tenth of them, and a server with few files, so that
// connections must make room. The long form (-long) is all of it.
func TestRunAPIAttack(t *testing.T) {
	limit := time.Second
	a := &attack{idle: 150, slow: 6, bomb: 2}
	took := 4 * time.Second
	files := 192
	if *long {
		a = &attack{idle: 1500, slow: 50, bomb: 20}
		took = 20 * time.Second
		files = 0
	}
	dir := t.TempDir()
	s := &trajectoryServer{t: t, dir: dir, files: files}
	s.start()
	defer func() { s.kill() }()
	a.addr = strings.TrimPrefix(*s.url.Load(), "http://")
	var none struct{}
	s.insist("POST", "/register", `{"wandb_group":"","wandb_project":"","batch_size":8,"max_token_len":0,"checkpoint_dir":"","save_checkpoint_interval":0,"starting_step":0,"num_steps":-1}`,
		"", &none)
	s.insist("GET", "/batch", "", "", &none)
	l := &load{s: s, posted: map[int]bool{}, seen: map[int]int{}}
	phase := func(long time.Duration) []time.Duration {
		ctx, stop := context.WithTimeout(t.Context(), long)
		defer stop()
		return l.run(ctx, 4)
	}
	p99 := func(took []time.Duration) time.Duration {
		slices.Sort(took)
		return took[len(took)*99/100].Round(time.Millisecond)
	}
	var before, under []time.Duration
	normal := peak(t, s.cmd.Process.Pid, func() { before = phase(took / 2) })
	top := peak(t, s.cmd.Process.Pid, func() {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); a.run(ctx, t) }()
		under = phase(took)
		stop()
		<-ended
	})
	for l.fetch() {
	}
	for id := range l.posted {
		if l.seen[id] != 1 && len(l.posted)-id > 4*4 { // the last ones may not fill a batch
			t.Errorf("group %d arrived %d times", id, l.seen[id])
		}
	}
	for _, why := range l.lost[:min(5, len(l.lost))] {
		t.Error("lost:", why)
	}
	t.Logf("normal: %d posts, p99 %s, %d MB; under attack: %d posts, %d lost, p99 %s, slowest %s, %d MB; %d connections were opened, %d slow bodies given up, %d bombs refused",
		len(before), p99(before), normal, len(under), len(l.lost), p99(under), under[len(under)-1].Round(time.Millisecond), top, a.opened.Load(), a.cut.Load(), a.fallen.Load())
	limit = max(limit, 10*p99(before))
	if p99(under) > limit || top-normal > 512 {
		t.Errorf("p99 %s, want %s at most; %d MB above normal, want 512 at most", p99(under), limit, top-normal)
	}
	if a.fallen.Load() == 0 || int(a.opened.Load()) < a.idle+a.slow || files > 0 && int(a.opened.Load()) < a.idle+a.slow+10 {
		t.Error("the attack did not take place")
	}
}
