package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hermes/cmd"
	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/atropos/api"
	"hermes/internal/build"
	"hermes/parsers/tokenizer"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

const buttons = 5

// press is an environment: the model must call a tool with the number in the prompt.
type press struct{}

func (press) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return envs.Made("press", split, buttons, o, func(i int) any {
		return map[string]any{"id": fmt.Sprint("press-", i), "prompt": fmt.Sprintf("Press button %d.", i), "answer": fmt.Sprint(i)}
	})
}

func (press) Task(row datasets.Row) (envs.Task, error) {
	return envs.Task{Row: row, Messages: row.Prompt, Hidden: strings.Trim(string(row.Scoring.Answer), `"`)}, nil
}

func (press) Toolsets() []string { return []string{} }

func (press) Tools(context.Context, envs.Task, envs.World) ([]tool.Def, error) {
	return []tool.Def{{Toolset: "panel", Spec: trajectory.ToolSpec{Name: "press", Description: "Presses a button.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"button":{"type":"integer"}},"required":["button"]}`)},
		Open: func(*tool.Scope) (tool.Handler, error) {
			return tool.Typed(func(_ context.Context, args struct{ Button int }) (tool.Result, error) {
				return tool.Result{Text: fmt.Sprintf("button %d is down", args.Button)}, nil
			}), nil
		}}}, nil
}

func (press) Score(_ context.Context, t envs.Task, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
	for _, m := range ep.Trace.Visible() {
		for _, c := range m.Calls {
			var args struct{ Button *int }
			if json.Unmarshal([]byte(c.Arguments), &args) == nil && args.Button != nil && fmt.Sprint(*args.Button) == t.Hidden {
				return trajectory.Score{Reward: 1}, nil
			}
		}
	}
	return trajectory.Score{}, nil
}

// pupil is a policy of 27 weights. Its words are fixed but for two choices: whether it calls
// the tool at all, and which number it gives for each number of the prompt. It is safe for
// concurrent use.
type pupil struct {
	tok                       tokenizer.Tokenizer
	assistant, before, behind []int32 // the call, around its number
	no, done                  []int32
	digits                    []int32
	start                     int32

	mu     sync.Mutex
	call   [2]float64
	number [buttons][buttons]float64
	draws  *rand.Rand
}

func newPupil(t *testing.T, seed uint64) *pupil {
	t.Helper()
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	ids := func(text string) (list []int32) {
		got, err := tok.Encode(text, tokenizer.Options{Special: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range got {
			list = append(list, int32(id))
		}
		return list
	}
	p := &pupil{tok: tok, draws: rand.New(rand.NewPCG(seed, 27)), assistant: ids("<|im_start|>assistant\n"),
		before: ids("<tool_call>\n{\"name\": \"press\", \"arguments\": {\"button\": "), behind: ids("}}\n</tool_call><|im_end|>"), no: ids("No.<|im_end|>"), done: ids("It is down.<|im_end|>")}
	p.start = p.assistant[0]
	for d := range buttons {
		p.digits = append(p.digits, ids(fmt.Sprint(d))...)
	}
	return p
}

// choices are the tokens that may follow a context, and the weights among which they are
// chosen: nil where there is one token only, which is certain.
func (p *pupil) choices(context []int32) (next []int32, weights []float64) {
	at := len(context) - 1
	for at >= 0 && context[at] != p.start {
		at--
	}
	said := context[min(max(at, 0)+len(p.assistant), len(context)):]
	text := p.text(context[:max(at, 0)])
	n := len(said)
	sure := func(words []int32, i int) ([]int32, []float64) {
		if i >= len(words) {
			return words[len(words)-1:], nil
		}
		return words[i : i+1], nil
	}
	switch _, button, ok := strings.Cut(text, "Press button "); {
	case !ok || strings.Contains(text, "<tool_response>"):
		return sure(p.done, n)
	case n == 0:
		return []int32{p.before[0], p.no[0]}, p.call[:]
	case said[0] == p.no[0]:
		return sure(p.no, n)
	case n == len(p.before):
		return p.digits, p.number[button[0]-'0'][:]
	case n < len(p.before):
		return sure(p.before, n)
	}
	return sure(p.behind, n-len(p.before)-1)
}

func (p *pupil) text(list []int32) string {
	ids := make([]trajectory.Token, len(list))
	for i, id := range list {
		ids[i] = trajectory.Token(id)
	}
	text, err := p.tok.Decode(ids)
	if err != nil {
		return ""
	}
	return text
}

func softmax(weights []float64) []float64 {
	sum, out := 0.0, make([]float64, len(weights))
	for i, w := range weights {
		out[i] = math.Exp(w)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// sample answers a prompt.
func (p *pupil) sample(prompt []int32, limit int) (ids []int32, logProbs []float64, stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	context := slices.Clone(prompt)
	end := p.done[len(p.done)-1]
	for len(ids) < limit {
		next, weights := p.choices(context)
		pick, lp := 0, 0.0
		if weights != nil {
			probs, r := softmax(weights), p.draws.Float64()
			for pick = 0; pick < len(probs)-1 && r >= probs[pick]; pick++ {
				r -= probs[pick]
			}
			lp = math.Log(probs[pick])
		}
		ids, logProbs, context = append(ids, next[pick]), append(logProbs, lp), append(context, next[pick])
		if next[pick] == end {
			return ids, logProbs, true
		}
	}
	return ids, logProbs, false
}

// expected is the reward that it earns on average.
func (p *pupil) expected() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := 0.0
	for button := range buttons {
		sum += softmax(p.call[:])[0] * softmax(p.number[button][:])[button] / buttons
	}
	return sum
}

// learn makes one step of REINFORCE: the mean score of a group is the baseline, and tokens
// count that the masks name.
func (p *pupil) learn(groups []lesson, rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range groups {
		mean := 0.0
		for _, s := range g.Scores {
			mean += s / float64(len(g.Scores))
		}
		for i, tokens := range g.Tokens {
			for k, target := range g.Masks[i] {
				if target == -100 {
					continue
				}
				next, weights := p.choices(tokens[:k])
				chosen := slices.Index(next, target)
				if weights == nil || chosen < 0 {
					continue
				}
				for j, prob := range softmax(weights) {
					if j == chosen {
						prob--
					}
					weights[j] -= rate * (g.Scores[i] - mean) * prob
				}
			}
		}
	}
}

// lesson is a group as a trainer gets it.
type lesson struct {
	Tokens, Masks [][]int32
	Scores        []float64
}

// ServeHTTP speaks SGLang's /generate and vLLM's /inference/v1/generate.
func (p *pupil) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if r.URL.Path != "/v1/models" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"pupil","object":"model","max_model_len":4096}]}`)
		return
	}
	var q struct {
		Input    []int32 `json:"input_ids"`
		Tokens   []int32 `json:"token_ids"`
		Sampling struct {
			New int `json:"max_new_tokens"`
			Max int `json:"max_tokens"`
		} `json:"sampling_params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	prompt := slices.Concat(q.Input, q.Tokens)
	ids, logProbs, stopped := p.sample(prompt, max(q.Sampling.New, q.Sampling.Max))
	var answer any
	switch finish := map[bool]string{true: "stop", false: "length"}[stopped]; r.URL.Path {
	case "/generate":
		var triples [][3]any
		for i, id := range ids {
			triples = append(triples, [3]any{logProbs[i], id, nil})
		}
		answer = map[string]any{"text": p.text(ids), "output_ids": ids, "meta_info": map[string]any{"id": "x", "finish_reason": map[string]any{"type": finish},
			"prompt_tokens": len(prompt), "completion_tokens": len(ids), "output_token_logprobs": triples, "weight_version": "1"}}
	case "/inference/v1/generate":
		var content []map[string]any
		for i, id := range ids {
			content = append(content, map[string]any{"token": fmt.Sprint("token_id:", id), "logprob": logProbs[i], "top_logprobs": []any{}})
		}
		answer = map[string]any{
			"request_id": "x",
			"choices":    []any{map[string]any{"index": 0, "finish_reason": finish, "token_ids": ids, "logprobs": map[string]any{"content": content}}},
		}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // who went away learns nothing
}

// train lets a pupil learn from the batches of a trajectory server that `hermes env serve`
// feeds, until it is good or has had so many of them. spoil may change a batch. It returns
// what the pupil earned before and earns now.
func train(t *testing.T, wire string, seed uint64, steps int, rate float64, spoil func(*lesson)) (before, after float64) {
	t.Helper()
	p := newPupil(t, seed)
	before = p.expected()
	model := httptest.NewServer(p)
	defer model.Close()
	queue, _, err := api.Open(api.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(queue)
	defer front.Close()
	ask := func(method, path, body string, into any) {
		r, err := http.NewRequest(method, front.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s, %v", method, path, resp.Status, err)
		}
	}
	ask("POST", "/register", `{"wandb_group":"","wandb_project":"","batch_size":32,"max_token_len":0,"checkpoint_dir":"","save_checkpoint_interval":0,"starting_step":0,"num_steps":-1}`,
		&struct{}{})
	ask("GET", "/batch", "", &struct{}{})

	parts := cmd.Builtin()
	parts.Envs = append(parts.Envs, envs.NewKind("press", "press a button", func(context.Context, struct{}) (envs.Bundled, error) { return press{}, nil }))
	home := t.TempDir()
	signals := make(chan os.Signal, 1)
	type end struct {
		code   int
		stderr string
	}
	ended := make(chan end, 1)
	go func() {
		code, _, stderr := cmd.Run(t.Context(), []string{"HERMES_HOME=" + home}, signals, parts, "env", "serve", "press", "--api", front.URL, "--group-size", "8",
			"--model", "pupil", "--base-url", model.URL+"/v1", "--exact", "--wire", wire, "--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "200",
			"--max-turns", "3", "--equal-scores", "send", "--backend", "local", "--concurrency", "8", "--poll", "2ms", "--max-batches-offpolicy", "1",
			"--seed", fmt.Sprint(seed), "--out", home, "--run", "learn", "--progress", "none", "--drain-timeout", "1s")
		ended <- end{code, stderr}
	}()
	for step := 0; step < steps && p.expected() < 0.85; {
		select {
		case e := <-ended:
			t.Fatalf("env serve ended with %d: %s", e.code, e.stderr)
		default:
		}
		var b struct{ Batch []lesson }
		if ask("GET", "/batch", "", &b); len(b.Batch) == 0 {
			continue
		}
		for i := range b.Batch {
			if spoil != nil {
				spoil(&b.Batch[i])
			}
		}
		p.learn(b.Batch, rate)
		step++
	}
	signals <- syscall.SIGTERM
	if e := <-ended; e.code != 143 {
		t.Errorf("env serve ended with %d: %s", e.code, e.stderr)
	}
	return before, p.expected()
}

// TestItLearns: a policy that is trained on what env serve posts learns to use a tool, over
// both wire forms; from masks that are off by one, or from rewards with the wrong sign, it
// does not.
func TestItLearns(t *testing.T) {
	seeds := uint64(2) // one over each wire form
	if *long {
		seeds = 10
	}
	for seed := range seeds {
		wire := []string{"sglang", "vllm"}[seed%2]
		before, after := train(t, wire, seed, 150, 0.3, nil)
		t.Logf("%s, seed %d: the reward went from %.2f to %.2f", wire, seed, before, after)
		if before > 0.2 || after < 0.8 {
			t.Errorf("%s, seed %d: the reward went from %.2f to %.2f", wire, seed, before, after)
		}
	}
	for name, spoil := range map[string]func(*lesson){
		"masks off by one": func(l *lesson) {
			for i, m := range l.Masks {
				l.Masks[i] = append([]int32{-100}, m[:len(m)-1]...)
			}
		},
		"the wrong sign": func(l *lesson) {
			for i := range l.Scores {
				l.Scores[i] = -l.Scores[i]
			}
		},
	} {
		if _, after := train(t, "sglang", 9, 40, 0.3, spoil); after > 0.2 {
			t.Errorf("%s: the reward went to %.2f", name, after)
		}
	}
}
