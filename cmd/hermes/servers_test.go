package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/internal/build"
	"hermes/internal/fakellm"
	"hermes/trajectory/columns"
)

var long = flag.Bool("long", false, "200 exact rollouts on each wire of the real servers instead of 20")

// realServers are the servers that scripts/servers.sh started.
type realServers struct{ dir string }

func servers(t *testing.T) realServers {
	t.Helper()
	dir := os.Getenv("HERMES_TEST_SERVERS")
	if dir == "" {
		t.Skip("HERMES_TEST_SERVERS is not set: scripts/servers.sh start prints its value")
	}
	return realServers{dir}
}

// say is what a file of the folder says.
func (s realServers) say(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		t.Skipf("%v: that server does not run", err)
	}
	return strings.TrimSpace(string(raw))
}

// judge runs one of the Python programs beside scripts/servers.sh over lines of JSON.
func (s realServers) judge(t *testing.T, program, argument string, lines [][]byte, to any) {
	t.Helper()
	c := exec.Command(s.say(t, "python"), filepath.Join("..", "..", "scripts", "servers", program), argument)
	c.Env = append(os.Environ(), "HF_HUB_OFFLINE=1")
	c.Stdin = bytes.NewReader(bytes.Join(lines, []byte("\n")))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, to)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", program, err, out, stderr.Bytes())
	}
}

// exchange is one request and its whole answer.
type exchange struct {
	path            string
	status          int
	request, answer []byte
}

// between is between hermes and a server and keeps what passes.
type between struct {
	url string
	mu  sync.Mutex
	all []exchange
}

// kept is an answer's body that is kept once it ends.
type kept struct {
	io.ReadCloser
	buf  bytes.Buffer
	done func([]byte)
}

func (k *kept) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	k.buf.Write(p[:n])
	return n, err
}

func (k *kept) Close() error {
	k.done(k.buf.Bytes())
	return k.ReadCloser.Close()
}

func listenBetween(t *testing.T, base string) *between {
	t.Helper()
	u, err := url.Parse(strings.TrimSuffix(base, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	b := new(between)
	p := httputil.NewSingleHostReverseProxy(u)
	p.FlushInterval = -1
	type asked struct{}
	p.ModifyResponse = func(r *http.Response) error {
		body, _ := r.Request.Context().Value(asked{}).([]byte)
		x := exchange{path: r.Request.URL.Path, status: r.StatusCode, request: body}
		r.Body = &kept{ReadCloser: r.Body, done: func(answer []byte) {
			b.mu.Lock()
			defer b.mu.Unlock()
			x.answer = bytes.Clone(answer)
			b.all = append(b.all, x)
		}}
		return nil
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), asked{}, body)))
	}))
	t.Cleanup(s.Close)
	b.url = s.URL + "/v1"
	return b
}

// sampled is what a server says that it sampled: the whole sequence, from where on, and
// the log-probs that it gave. finish is its own word.
type sampled struct {
	tokens   []int32
	from     int
	logProbs map[int]float64
	finish   string
}

// wireAnswer reads the answers of all exact wires.
type wireAnswer struct {
	Prompt  []int32 `json:"prompt_token_ids"`
	Choices []struct {
		Prompt   []int32 `json:"prompt_token_ids"`
		IDs      []int32 `json:"token_ids"`
		Finish   string  `json:"finish_reason"`
		Logprobs struct {
			Content []struct{ Logprob float64 }
			Tokens  []float64 `json:"token_logprobs"`
		}
	}
	Tokens []int32 // llama.cpp, as is what follows
	Probs  []struct {
		ID      int32
		Logprob float64
	} `json:"completion_probabilities"`
}

// sampled are all answers with token ids.
func (b *between) sampled(t *testing.T) (list []sampled) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.all {
		var q struct {
			IDs    []int32         `json:"token_ids"`
			Prompt json.RawMessage // token ids, or the text of a probe
			Max    int             `json:"max_tokens"`
		}
		var a wireAnswer
		if x.status != http.StatusOK || json.Unmarshal(x.request, &q) != nil || json.Unmarshal(x.answer, &a) != nil {
			continue
		}
		prompt, s := q.IDs, sampled{logProbs: map[int]float64{}}
		if prompt == nil && json.Unmarshal(q.Prompt, &prompt) != nil {
			prompt = a.Prompt
		}
		ids := a.Tokens
		if len(a.Choices) > 0 {
			ids, s.finish = a.Choices[0].IDs, a.Choices[0].Finish
			if prompt == nil {
				prompt = a.Choices[0].Prompt
			}
			for k, p := range a.Choices[0].Logprobs.Content {
				s.logProbs[len(prompt)+k] = p.Logprob
			}
			for k, p := range a.Choices[0].Logprobs.Tokens {
				s.logProbs[len(prompt)+k] = p
			}
		}
		at := 0
		for _, p := range a.Probs { // in order, but not for every token
			for at < len(ids) && ids[at] != p.ID {
				at++
			}
			s.logProbs[len(prompt)+at] = p.Logprob
			at++
		}
		s.from = len(prompt)
		if len(prompt) > 20 && len(ids) > 0 {
			s.tokens = append(slices.Clone(prompt), ids...)
			list = append(list, s)
		}
	}
	return list
}

const countedFile = `n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; echo "line $n"; [ $n -lt 5 ] || echo stop`

// countedTasks writes n rows of the kind that the model was made for.
func countedTasks(t *testing.T, dir string, n int) string {
	t.Helper()
	ask := []string{
		"Say hello – ñ 日本 🙂.", "How many lines has a.txt?", "The spelling <|im_end|> and <tool_call> are text.",
		"Count.", "Go on until it says stop.", "Do it.",
	}
	var b bytes.Buffer
	for i := range n {
		row := map[string]any{"id": fmt.Sprint("r", i), "prompt": ask[i%len(ask)], "hermes": map[string]any{"files": map[string]string{"next.sh": countedFile}}}
		if err := json.NewEncoder(&b).Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "counted.jsonl")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// rollOut runs `hermes batch` with the model's own setting and returns its output.
func rollOut(t *testing.T, dir, rows, model, url string, more ...string) string {
	t.Helper()
	out, err := batchOf(t, dir, rows, model, url, more...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func batchOf(t *testing.T, dir, rows, model, url string, more ...string) *exec.Cmd {
	t.Helper()
	args := []string{
		"batch", rows, "--model", model, "--base-url", url, "--toolsets", "terminal", "--system",
		"You work in a shell. Call terminal until it says stop.",
		"--max-turns", "12", "--max-tokens", "200", "--temperature", "1", "--backend", "local", "--progress", "none", "--parquet", "--concurrency", "12",
		"--fail-on-error", "1", "--faults", "show",
	}
	return hermes(t, dir, append(args, more...)...)
}

// TestServersExact: on every exact wire of a real server, the record holds token for
// token what the server was sent and what it sampled, with its own log-probs; those are
// torch's; and between the model's tokens is what the template writes.
func TestServersExact(t *testing.T) {
	s := servers(t)
	want, rows := 20, 56
	if *long {
		want, rows = 200, 520
	}
	tests := []struct {
		server, wire string
		within       float64 // of torch's log-probs
		masked       bool    // it gives none for some tokens
	}{
		{"vllm", "vllm", 1e-3, false},
		{"vllm", "vllm-completions", 1e-3, false},
		{"vllm", "chat", 1e-3, false},
		{"llamacpp", "llamacpp", 2e-2, true},
	}
	for _, tt := range tests {
		t.Run(tt.wire, func(t *testing.T) {
			dir, mid := t.TempDir(), listenBetween(t, s.say(t, tt.server+".url"))
			out := rollOut(t, dir, countedTasks(t, dir, rows), "tiny", mid.url, "--run", "exact",
				"--exact", "--wire", tt.wire, "--model-files", s.say(t, "model"))
			recorded := readParts(t, filepath.Join(dir, "runs", "exact", "parquet"))
			elsewhere := 2 // answers to the probe, at most
			if raw, err := os.ReadFile(filepath.Join(dir, "runs", "exact", "failed_trajectories.jsonl")); err == nil && len(raw) > 0 {
				for _, l := range jsonLines(t, filepath.Join(dir, "runs", "exact", "failed_trajectories.jsonl")) {
					elsewhere += int(l["api_calls"].(float64))
				}
			}
			judged := exactRows(t, recorded, mid.sampled(t), elsewhere, tt.masked, tt.wire == "chat")
			if judged.turns5 < want {
				t.Errorf("%d rollouts of at least five turns, want %d\n%s", judged.turns5, want, out)
			}
			var got struct {
				Sequences, Tokens, Masked, Rendered, Retold int
				Max, Mean                                   float64
				Breaks                                      []string
			}
			s.judge(t, "compare.py", s.say(t, "model"), judged.lines, &got)
			t.Logf("%s: %d rollouts, %d of at least five turns; %d turns and %d tokens as the server sampled them; log-probs of %d within %.2g of torch (mean %.2g), %d masked; %d texts rendered alike, %d sequences more than rollouts",
				tt.wire, len(recorded), judged.turns5, judged.turns, judged.tokens, got.Tokens, got.Max, got.Mean, got.Masked, got.Rendered-len(got.Breaks), got.Retold)
			if got.Max > tt.within || got.Tokens == 0 || !tt.masked && got.Masked > 0 {
				t.Errorf("%d log-probs, as far as %g from torch's, want %g; %d masked", got.Tokens, got.Max, tt.within, got.Masked)
			}
			if len(got.Breaks) > 0 {
				t.Errorf("%d breaks of %d texts: %s", len(got.Breaks), got.Rendered, strings.Join(got.Breaks[:min(4, len(got.Breaks))], "\n"))
			}
			if out, err := hermes(t, dir, "runs", "replay", "exact").CombinedOutput(); err != nil {
				t.Errorf("replay: %v\n%s", err, out)
			}
		})
	}
}

type verdictOf struct {
	turns, tokens, turns5 int
	lines                 [][]byte // for compare.py
}

// exactRows holds the record against what the server sampled, both ways; elsewhere is how
// many answers belong to samples that are not among the rows. retells: see compare.py.
func exactRows(t *testing.T, rows []columns.Row, served []sampled, elsewhere int, masked, retells bool) (j verdictOf) {
	t.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type function struct { // the order of names is that in which templates print them
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type offered struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var all []columns.Sequence
	recorded := 0
	for _, r := range rows {
		if strings.HasPrefix(r.Outcome, "failed") || len(r.Sequences) == 0 {
			t.Errorf("%s: %s, %s", r.ID, r.Outcome, r.Reason)
			continue
		}
		if r.Turns >= 5 {
			j.turns5++
		}
		all = append(all, r.Sequences...)
		var messages []message
		for _, m := range r.Messages {
			messages = append(messages, message{m.Role, m.Content})
		}
		var tools []any
		for _, tool := range r.Tools {
			f := function{tool.Function.Name, tool.Function.Description, json.RawMessage(tool.Function.Parameters)}
			tools = append(tools, offered{"function", f})
		}
		var sequences []any
		for _, q := range r.Sequences {
			sequences = append(sequences, map[string]any{"tokens": q.Tokens, "mask": q.Mask, "sampled": q.Sampled, "logprobs": q.LogProbs})
			for _, s := range q.Sampled {
				if s {
					recorded++
				}
			}
		}
		line, err := json.Marshal(map[string]any{"id": r.ID, "messages": messages, "tools": tools, "sequences": sequences, "retells": retells})
		if err != nil {
			t.Fatal(err)
		}
		j.lines = append(j.lines, line)
	}
	missing := 0
	for _, s := range served {
		j.turns++
		why := unseen
		if slices.ContainsFunc(all, func(q columns.Sequence) bool { return s.within(q, masked, &why) }) {
			j.tokens += len(s.tokens) - s.from
			continue
		}
		missing++ // a rejected sample may have sampled what another one did, with sums in another order
		t.Logf("an answer of %d tokens behind a prompt of %d: %s", len(s.tokens)-s.from, s.from, why)
	}
	if missing > elsewhere {
		t.Errorf("%d answers of the server are not in the record as they are, want the %d of the probe and of rejected samples", missing, elsewhere)
	}
	if recorded > j.tokens { // a rejected sample may have begun like one of the rows
		t.Errorf("%d sampled tokens in the record, the server sampled %d", recorded, j.tokens)
	}
	return j
}

// unseen is why an answer of a server is not in the record, where nothing more is known.
const unseen = "it is not in the record"

// within reports whether q holds the answer with its log-probs; where only those differ, why
// says so. Two rollouts may have sampled the same tokens, with sums in another order.
func (s sampled) within(q columns.Sequence, masked bool, why *string) bool {
	if len(q.Tokens) < len(s.tokens) || !slices.Equal(q.Tokens[:len(s.tokens)], s.tokens) || slices.Contains(q.Sampled[s.from:len(s.tokens)], false) {
		return false
	}
	for i := s.from; i < len(s.tokens); i++ {
		p, given := s.logProbs[i]
		if given != (q.Mask[i] == 1) || given && math.Abs(float64(q.LogProbs[i])-p) > 1e-5 || !given && !masked {
			*why = fmt.Sprintf("token %d: mask %d, log-prob %g; the server gave %g (%v)", i, q.Mask[i], q.LogProbs[i], p, given)
			return false
		}
	}
	return true
}

// TestServersChat: text mode with tools, in one piece and streamed.
func TestServersChat(t *testing.T) {
	s := servers(t)
	for _, server := range []string{"vllm", "llamacpp", "transformers"} {
		for _, stream := range []string{"--stream", "--no-stream"} {
			t.Run(server+stream, func(t *testing.T) {
				dir := t.TempDir()
				mid := listenBetween(t, s.say(t, server+".url"))
				model := "tiny"
				n := 6
				if server == "transformers" {
					model, n = s.say(t, "model"), 2 // it calls a model by its folder, and it is slow
				}
				out := rollOut(t, dir, countedTasks(t, dir, n), model, mid.url, "--run", "chat", stream)
				calls, answered := 0, 0
				for _, r := range readParts(t, filepath.Join(dir, "runs", "chat", "parquet")) {
					if strings.HasPrefix(r.Outcome, "failed") {
						t.Errorf("%s: %s, %s", r.ID, r.Outcome, r.Reason)
					}
					if r.Outcome == "answered" {
						answered++
					}
					for _, m := range r.Messages {
						if m.Role == "tool" {
							calls++
						}
						if m.Role == "assistant" && (strings.Contains(m.Content, "<tool_call>") && len(m.Calls) > 0 || strings.Contains(m.Content, "<|im_")) {
							t.Errorf("%s: tags in %q", r.ID, m.Content)
						}
					}
				}
				t.Logf("%s %s: %d of %d answered, %d calls", server, stream, answered, n, calls)
				if calls < n || answered == 0 {
					t.Errorf("%d calls, %d answered\n%s", calls, answered, out)
				}
			})
		}
	}
}

// TestServersAbort: vLLM drops what it is writing, as for new weights. Exact runs go on
// behind their tokens; text runs ask again.
func TestServersAbort(t *testing.T) {
	s := servers(t)
	base := s.say(t, "vllm.url")
	root := strings.TrimSuffix(base, "/v1")
	post := func(path string) {
		t.Helper()
		resp, err := http.Post(root+path, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("POST %s: %s", path, resp.Status)
		}
	}
	tests := []struct {
		wire  string
		exact bool
		extra string
	}{
		{"vllm", true, `{"sampling_params":{"ignore_eos":true,"stop_token_ids":[]}}`},
		{"vllm-completions", true, `{"ignore_eos":true,"stop_token_ids":[]}`},
		{"chat", false, `{"ignore_eos":true,"stop_token_ids":[],"tool_choice":"none"}`},
	}
	for _, tt := range tests {
		t.Run(tt.wire, func(t *testing.T) {
			dir, mid := t.TempDir(), listenBetween(t, base)
			more := []string{"--run", "abort", "--max-tokens", "1000", "--max-turns", "1", "--extra-body", tt.extra, "--no-stream"}
			if tt.exact {
				more = append(more, "--exact", "--wire", tt.wire, "--model-files", s.say(t, "model"))
			}
			rows := countedTasks(t, dir, 2)
			before, c := writtenTokens(t, root), batchOf(t, dir, rows, "tiny", mid.url, more...)
			var out bytes.Buffer
			c.Stdout, c.Stderr = &out, &out
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for limit := time.Now().Add(time.Minute); writtenTokens(t, root) < before+60; <-tick.C {
				if time.Now().After(limit) {
					t.Errorf("vLLM writes nothing: %g tokens, now %g", before, writtenTokens(t, root))
					break
				}
			}
			post("/pause?mode=abort")
			post("/resume")
			if err := c.Wait(); err != nil {
				t.Errorf("%v\n%s", err, out.Bytes())
			}
			aborted := 0
			mid.mu.Lock()
			for _, x := range mid.all {
				if bytes.Contains(x.answer, []byte(`"finish_reason":"abort"`)) {
					aborted++
				}
			}
			mid.mu.Unlock()
			if aborted == 0 {
				t.Fatalf("no answer was aborted\n%s", out.Bytes())
			}
			for _, r := range readParts(t, filepath.Join(dir, "runs", "abort", "parquet")) {
				if strings.HasPrefix(r.Outcome, "failed") || r.Usage.Completion < 900 {
					t.Errorf("%s: %s after %d tokens: %s", r.ID, r.Outcome, r.Usage.Completion, r.Reason)
				}
				for _, q := range r.Sequences {
					n := 0
					for _, m := range q.Mask {
						n += int(m)
					}
					if n < 900 {
						t.Errorf("%s: %d sampled tokens of 900 to 1000 in one answer", r.ID, n)
					}
				}
			}
			t.Logf("%s: %d answers aborted by the server", tt.wire, aborted)
		})
	}
}

// writtenTokens is how many tokens vLLM has written so far.
func writtenTokens(t *testing.T, root string) float64 {
	t.Helper()
	resp, err := http.Get(root + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		name, value, ok := strings.Cut(sc.Text(), "} ")
		if !ok || !strings.HasPrefix(name, "vllm:generation_tokens_total{") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatal("vLLM counts no tokens")
	return 0
}

// TestServersSGLang: SGLang's own classes take what we send and write what we read: here
// our own server takes the place of its engine, which has no build for CPUs.
func TestServersSGLang(t *testing.T) {
	s := servers(t)
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	words, err := build.FakeTokens(tok, fakellm.ChatML.End)
	if err != nil {
		t.Fatal(err)
	}
	_, url := server(t, fakellm.Options{Like: "sglang", Tokenizer: words, Seed: 5})
	dir, mid := t.TempDir(), listenBetween(t, url)
	for _, more := range [][]string{
		{"--run", "plain"},
		{"--run", "sampled", "--temperature", "1", "--top-p", "0.9", "--top-k", "40", "--min-p", "0.01", "--stop", "END"},
		{"--run", "captured", "--capture", "topk=3,routed_experts", "--cache-salt", "v1"},
	} {
		c := hermes(t, dir, append([]string{
			"batch", tasks(t, dir, 4), "--model", "fake", "--base-url", mid.url, "--send-scripts", "--exact", "--wire", "sglang",
			"--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "4000", "--backend", "local", "--toolsets", "terminal,file", "--progress", "none",
		}, more...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var lines [][]byte
	for _, x := range mid.all {
		if x.path == "/generate" && x.status == http.StatusOK {
			line, err := json.Marshal(map[string]json.RawMessage{"request": x.request, "answer": x.answer})
			if err != nil {
				t.Fatalf("%v: %s", err, x.answer)
			}
			lines = append(lines, line)
		}
	}
	var got struct {
		Requests, Answers int
		Refused           []string
	}
	s.judge(t, "sglang.py", s.say(t, "sglang"), lines, &got)
	t.Logf("%d requests, %d answers, %d refused", got.Requests, got.Answers, len(got.Refused))
	if got.Requests < 12 || len(got.Refused) > 0 {
		t.Errorf("%d requests, %d refused: %s", got.Requests, len(got.Refused), strings.Join(got.Refused[:min(3, len(got.Refused))], "\n"))
	}
}

// TestServersCheck: what `hermes model check` finds out about a real server, and that the
// lines which it prints are a run file that works.
func TestServersCheck(t *testing.T) {
	s := servers(t)
	tests := []struct {
		server, wire string
		says         []string
	}{
		{"vllm",
			"vllm",
			[]string{
				"chat yes", "streaming yes", "tools yes", "token ids yes", "/inference/v1/generate yes", "/v1/completions yes",
				"/generate no", "proved with a tool: answer",
			}},
		{"llamacpp", "llamacpp", []string{"chat yes", "streaming yes", "tools yes", "/completion yes", "/inference/v1/generate no"}},
		{"transformers", "", []string{"chat yes", "streaming yes", "tools yes", "token ids no", "/inference/v1/generate no"}},
	}
	for _, tt := range tests {
		t.Run(tt.server, func(t *testing.T) {
			dir, files := t.TempDir(), s.say(t, "model")
			args := []string{"model", "check", "--base-url", s.say(t, tt.server+".url"), "--model", "tiny"}
			if tt.server == "transformers" {
				args[5] = files
			} else {
				args = append(args, "--model-files", files)
			}
			out, err := hermes(t, dir, args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			flat := strings.Join(strings.Fields(string(out)), " ")
			for _, want := range tt.says {
				if !strings.Contains(flat, want) {
					t.Errorf("%q is missing in\n%s", want, out)
				}
			}
			_, file, _ := strings.Cut(string(out), "run file:\n")
			if tt.wire != "" && !strings.Contains(file, "wire: "+tt.wire+"\n") {
				t.Errorf("run file:\n%s", file)
			}
			lines := strings.ReplaceAll(file, "\n  ", "\n")
			if err := os.WriteFile(filepath.Join(dir, "run.yaml"), []byte(strings.TrimPrefix(lines, "  ")), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err = hermes(t, dir, "batch", countedTasks(t, dir, 2), "--config", "run.yaml", "--toolsets", "terminal", "--backend", "local",
				"--max-tokens", "100", "--max-turns", "2", "--progress", "none", "--fail-on-error", "1").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "2 planned") || strings.Contains(string(out), "failed") {
				t.Errorf("the run file\n%s%v\n%s", lines, err, out)
			}
		})
	}
}
