package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// trajectoryServer is `hermes run-api` as a process that is killed and started again.
type trajectoryServer struct {
	t     *testing.T
	dir   string
	files int // the most that it may have open; 0 for as many as the tests
	cmd   *exec.Cmd
	url   atomic.Pointer[string]
}

func (s *trajectoryServer) start() {
	s.t.Helper()
	s.cmd = hermes(s.t, s.dir, "run-api", "--port", "0")
	if s.files > 0 {
		limitFiles(s.t, s.cmd, s.files)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var stderr bytes.Buffer
	s.cmd.Stderr = &stderr
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("run-api says no address: %v\n%s", err, stderr.String())
	}
	line = strings.TrimSpace(line)
	s.url.Store(&line)
}

func (s *trajectoryServer) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// call asks the server that runs now; any failure is an error. All of the answer is read.
func (s *trajectoryServer) call(method, path, body, key string, into any) error {
	r, err := http.NewRequest(method, *s.url.Load()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// insist repeats a call until the server, started again perhaps, answers it.
func (s *trajectoryServer) insist(method, path, body, key string, into any) {
	for s.call(method, path, body, key, into) != nil {
		if s.t.Context().Err() != nil {
			return
		}
	}
}

// TestRunAPIKills kills run-api with SIGKILL while environments post and a trainer fetches.
// Every group that was posted arrives in exactly one batch: posts that are repeated bear a
// key, batches that come again bear the number under which they were acknowledged.
// HERMES_KILLS is the number of kills.
func TestRunAPIKills(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("HERMES_KILLS"))
	kills = max(kills, 3)
	s := &trajectoryServer{t: t, dir: t.TempDir()}
	s.start()
	defer func() { s.kill() }()
	var none struct{}
	s.insist("POST", "/register", `{"wandb_group":"","wandb_project":"","batch_size":8,"max_token_len":0,"checkpoint_dir":"","save_checkpoint_interval":0,"starting_step":0,"num_steps":0}`,
		"", &none)
	const envs = 3
	each := 40 * kills // groups
	var posted, fetched atomic.Int64
	progress := make(chan struct{}, 1)
	step := func() {
		select {
		case progress <- struct{}{}:
		default:
		}
	}
	var wg sync.WaitGroup
	for e := range envs {
		wg.Go(func() {
			for k := range each {
				id := e*each + k
				row := fmt.Sprintf("[%d%s]", id, strings.Repeat(",7", 200))
				body := fmt.Sprintf(`{"tokens":[%s,%s],"masks":[%s,%s],"scores":[0,1]}`, row, row, row, row)
				s.insist("POST", "/scored_data", body, fmt.Sprint("group ", id), &none)
				posted.Add(1)
				step()
			}
		})
	}
	seen, batches := map[int]int{}, map[int]bool{}
	again := 0
	wg.Go(func() {
		query := "/batch?holder=trainer"
		for fetched.Load() < int64(envs*each) {
			var b struct {
				Batch []struct{ Tokens [][]int }
				ID    int `json:"batch_id"`
			}
			s.insist("GET", query, "", "", &b)
			if len(b.Batch) == 0 {
				query = "/batch?holder=trainer"
				if t.Context().Err() != nil {
					return
				}
				continue
			}
			query = fmt.Sprint("/batch?holder=trainer&ack=", b.ID)
			if batches[b.ID] {
				again++
				continue
			}
			batches[b.ID] = true
			for _, g := range b.Batch {
				seen[g.Tokens[0][0]]++
			}
			fetched.Add(int64(len(b.Batch)))
			step()
		}
	})
	rng := rand.New(rand.NewPCG(5, 5))
	for k := range kills {
		for want := int64(2*envs*each*(k+1)/(kills+2) + rng.IntN(20)); posted.Load()+fetched.Load() < want; {
			<-progress
		}
		s.kill()
		s.start()
	}
	wg.Wait()
	for id := range envs * each {
		if seen[id] != 1 {
			t.Errorf("group %d was trained on %d times", id, seen[id])
		}
	}
	t.Logf("%d kills, %d groups, %d batches came again", kills, len(seen), again)
}

// limitFiles gives a process a limit on open files.
func limitFiles(t *testing.T, c *exec.Cmd, n int) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "hermes")
	if err := os.Symlink(c.Path, program); err != nil {
		t.Fatal(err)
	}
	c.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, n), program}, c.Args[1:]...)
	c.Path = sh
}
