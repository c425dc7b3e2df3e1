package servers

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hermes/rollout/policy"
	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/finish"
	"hermes/rollout/policy/scan"
	"hermes/trajectory"
)

// vllmForm is vLLM's POST /inference/v1/generate (since November 2025). Log-probs are
// raw unless the server was started with --logprobs-mode processed_logprobs.
func vllmForm() *form {
	return &form{
		name: VLLM, path: "//inference/v1/generate", prompt: "token_ids", limit: "max_tokens", nested: true,
		seed: "seed", stops: "stop_token_ids", salt: "cache_salt", model: true,
		fixed: `"stream":false`, sampling: `"logprobs":0,"skip_special_tokens":false`, neutral: Neutral,
		capture: func(c Capture, _, sampling *encode.Object) error { return sampling.Set("logprobs", c.TopK) },
		read:    readInference,
		start:   "use a vLLM with POST /inference/v1/generate (vllm serve --enable-scale-out), or --wire vllm-completions",
	}
}

// neutral are the options of vLLM and SGLang that change no distribution.
const Neutral = `"temperature":1,"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0`

// vllmCompletionsForm is POST /v1/completions with token prompts: every vLLM since
// 0.10.2, and other servers that know return_token_ids.
func vllmCompletionsForm() *form {
	return &form{
		name: VLLMCompletions, path: "/completions", prompt: "prompt", limit: "max_tokens",
		seed: "seed", stops: "stop_token_ids", salt: "cache_salt", model: true,
		fixed:    `"stream":false,"return_token_ids":true,"return_tokens_as_token_ids":true,"return_weight_versions":true`,
		sampling: `"logprobs":0,"skip_special_tokens":false,"add_special_tokens":false`, neutral: Neutral,
		capture: func(c Capture, body, _ *encode.Object) error { return body.Set("logprobs", c.TopK) },
		read:    readCompletions,
		start:   "start vLLM 0.10.2 or later, which knows return_token_ids",
	}
}

type inferenceAnswer struct {
	Model   string          `json:"model"`
	Prompt  IDs             `json:"prompt_token_ids"`
	Usage   json.RawMessage `json:"usage"`
	Choices []struct {
		IDs      IDs             `json:"token_ids"`
		Prompt   IDs             `json:"prompt_token_ids"`
		Finish   finish.Word     `json:"finish_reason"`
		LogProbs *ChatLogProbs   `json:"logprobs"`
		Experts  string          `json:"routed_experts"`
		Versions json.RawMessage `json:"weight_versions"`
	} `json:"choices"`
}

// ChatLogProbs are log-probs in the style of chat completions.
type ChatLogProbs struct {
	Content chatProbs `json:"content"`
}

type chatProbs []chatProb

// chatProb is that of one token, which is there as its id, or as text: token_id:N where that
// was asked for.
type chatProb struct {
	ID      *trajectory.Token `json:"token_id"`
	Token   spelledID         `json:"token"`
	LogProb *float32          `json:"logprob"`
	Top     []chatTop         `json:"top_logprobs"`
}

type chatTop struct {
	ID      *trajectory.Token `json:"token_id"`
	Token   string            `json:"token"`
	LogProb *float32          `json:"logprob"`
}

// UnmarshalJSON reads the usual list in one walk, and leaves others to the library.
func (l *chatProbs) UnmarshalJSON(raw []byte) error {
	if list, ok := scanChatProbs(raw); ok {
		*l = list
		return nil
	}
	return json.Unmarshal(raw, (*[]chatProb)(l))
}

// scanChatProbs reads log-probs without the likeliest tokens beside them.
func scanChatProbs(raw []byte) (list chatProbs, ok bool) {
	s := scan.New(raw)
	members := []string{"token_id", "token", "logprob", "top_logprobs"}
	ok = s.List(func() bool {
		var p chatProb
		ok := s.Object(members, func(i int) (ok bool) {
			switch {
			case i == 1:
				var text []byte
				text, ok = s.Raw()
				return ok && p.Token.UnmarshalJSON(text) == nil
			case s.Null():
				return true
			case i == 0:
				var id trajectory.Token
				id, ok = s.Token()
				p.ID = &id
			case i == 2:
				var v float32
				v, ok = s.LogProb()
				p.LogProb = &v
			default:
				ok = s.Next('[') && s.Next(']')
				p.Top = []chatTop{}
			}
			return ok
		})
		list = append(list, p)
		return ok
	})
	return list, ok && s.End()
}

func readInference(raw []byte, want Capture) (Completion, error) {
	var a inferenceAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return Completion{}, policy.Malformedf("vllm: %v", err)
	}
	if len(a.Choices) != 1 {
		return Completion{}, policy.Malformedf("vllm: %d choices, want one", len(a.Choices))
	}
	one := a.Choices[0]
	c := Completion{Prompt: -1, Model: a.Model, Tokens: one.IDs, Echo: a.Prompt}
	c.books(a.Usage)
	if one.Prompt != nil {
		c.Echo = one.Prompt
	}
	var err error
	c.Finish, err = finish.Parse(string(one.Finish))
	if err != nil {
		return c, err
	}
	if one.IDs == nil && c.Finish != trajectory.FinishAborted {
		return c, policy.Inexactf("vllm: the answer has no token_ids")
	}
	c.Versions, err = ReadVersions(one.Versions, len(one.IDs))
	if err != nil {
		return c, err
	}
	if one.LogProbs != nil {
		if err := one.LogProbs.Read(&c, want); err != nil {
			return c, err
		}
	}
	if want.Experts && one.Experts != "" {
		c.Experts, err = readNPY(one.Experts)
	}
	return c, err
}

// books takes over what an answer says about its prompt.
func (c *Completion) books(raw json.RawMessage) {
	u := ReadUsage(raw)
	if u == nil {
		return
	}
	c.Cached = u.Total().Cached
	if u.Prompt > 0 {
		c.Prompt = int(u.Prompt)
	}
}

// Read gives the tokens of c their log-probs, and what want asks for.
func (l *ChatLogProbs) Read(c *Completion, want Capture) error {
	c.LogProbs = make([]float32, 0, len(l.Content))
	for i, p := range l.Content {
		if p.ID != nil && (i >= len(c.Tokens) || *p.ID != c.Tokens[i]) || p.Token.other(c.Tokens, i) {
			return policy.Inexactf("vllm: token_ids and logprobs differ at token %d", i)
		}
		c.LogProbs = append(c.LogProbs, known(p.LogProb))
		if want.TopK == 0 {
			continue
		}
		var list []top
		for _, t := range p.Top {
			id, ok := tokenID(t.Token)
			if t.ID != nil {
				id, ok = *t.ID, *t.ID >= 0
			}
			if !ok {
				return policy.Inexactf("vllm: the likeliest token %.40q at place %d has no token_id and is not spelled token_id:N", t.Token, i)
			}
			list = append(list, top{id, known(t.LogProb)})
		}
		c.Top = append(c.Top, best(list, want.TopK)...)
	}
	return nil
}

// known is a log-prob, or NaN where vLLM has none: it then says -9999.
func known(p *float32) float32 {
	if p == nil || *p <= -9999 {
		return float32(math.NaN())
	}
	return *p
}

// tokenID reads token_id:N.
func tokenID(text string) (trajectory.Token, bool) {
	digits, ok := strings.CutPrefix(text, "token_id:")
	n, err := strconv.ParseInt(digits, 10, 32)
	return trajectory.Token(n), ok && err == nil && n >= 0
}

// spelledID is the id of a token that is spelled token_id:N; unknown for a token's text.
type spelledID struct {
	id    trajectory.Token
	known bool
}

// UnmarshalJSON reads it.
func (s *spelledID) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte(`"token_id:`)) {
		s.id, s.known = tokenID(string(raw[1 : len(raw)-1]))
	}
	return nil
}

// spelledIDs are those of an answer's tokens.
type spelledIDs []spelledID

// UnmarshalJSON reads a list in one walk, and leaves what is none to the library.
func (l *spelledIDs) UnmarshalJSON(raw []byte) error {
	s := scan.New(raw)
	var list spelledIDs
	if s.List(func() bool {
		text, ok := s.Raw()
		var id spelledID
		if ok && id.UnmarshalJSON(text) == nil {
			list = append(list, id)
		}
		return ok
	}) && s.End() {
		*l = list
		return nil
	}
	return json.Unmarshal(raw, (*[]spelledID)(l))
}

// other reports whether it is known and not the i-th of list.
func (s spelledID) other(list []trajectory.Token, i int) bool {
	return s.known && (i >= len(list) || list[i] != s.id)
}

// best are the k likeliest, in their order: servers add the sampled token at the end.
func best(list []top, k int) []top {
	slices.SortStableFunc(list, func(a, b top) int {
		return cmp.Or(cmp.Compare(b.logProb, a.logProb), cmp.Compare(a.id, b.id))
	})
	return list[:min(k, len(list))]
}

type completionsAnswer struct {
	Model   string `json:"model"`
	Choices []struct {
		IDs      IDs         `json:"token_ids"`
		Prompt   IDs         `json:"prompt_token_ids"`
		Finish   finish.Word `json:"finish_reason"`
		LogProbs *struct {
			LogProbs []*float32            `json:"token_logprobs"`
			Tokens   spelledIDs            `json:"tokens"`
			Top      []map[string]*float32 `json:"top_logprobs"`
		} `json:"logprobs"`
		Experts  string          `json:"routed_experts"`
		Versions json.RawMessage `json:"weight_versions"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
}

func readCompletions(raw []byte, want Capture) (Completion, error) {
	var a completionsAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return Completion{}, policy.Malformedf("completions: %v", err)
	}
	if len(a.Choices) != 1 {
		return Completion{}, policy.Malformedf("completions: %d choices, want one", len(a.Choices))
	}
	one := a.Choices[0]
	c := Completion{Prompt: -1, Model: a.Model, Tokens: one.IDs, Echo: one.Prompt}
	c.books(a.Usage)
	var err error
	c.Finish, err = finish.Parse(string(one.Finish))
	if err != nil {
		return c, err
	}
	if one.IDs == nil && c.Finish != trajectory.FinishAborted {
		return c, policy.Inexactf("completions: the answer has no token_ids; start a server that knows return_token_ids (vLLM 0.10.2 or later)")
	}
	c.Versions, err = ReadVersions(one.Versions, len(one.IDs))
	if err != nil {
		return c, err
	}
	if one.LogProbs != nil {
		for i, t := range one.LogProbs.Tokens {
			if t.other(c.Tokens, i) {
				return c, policy.Inexactf("completions: token_ids and logprobs differ at token %d", i)
			}
		}
		for _, p := range one.LogProbs.LogProbs {
			c.LogProbs = append(c.LogProbs, known(p))
		}
		for i, place := range one.LogProbs.Top {
			if want.TopK == 0 {
				break
			}
			var list []top
			for text, p := range place {
				id, ok := tokenID(text)
				if !ok {
					return c, policy.Inexactf("completions: the likeliest token %.40q at place %d is not spelled token_id:N", text, i)
				}
				list = append(list, top{id, known(p)})
			}
			c.Top = append(c.Top, best(list, want.TopK)...)
		}
	}
	if want.Experts && one.Experts != "" {
		c.Experts, err = readNPY(one.Experts)
	}
	return c, err
}

// readNPY reads an array of shape (tokens, layers, k) in NumPy's format, in base64.
func readNPY(text string) (experts, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) < 10 || !bytes.HasPrefix(b, []byte("\x93NUMPY")) {
		return experts{}, policy.Inexactf("routed_experts is not an array in base64: %.40q", text)
	}
	n, from := int(b[8])|int(b[9])<<8, 10
	if b[6] > 1 { // versions 2 and 3 have a longer length
		if len(b) < 12 {
			return experts{}, policy.Inexactf("routed_experts: an array of %d bytes", len(b))
		}
		n, from = n|int(b[10])<<16|int(b[11])<<24, 12
	}
	if n < 0 || from+n > len(b) {
		return experts{}, policy.Inexactf("routed_experts: a header of %d bytes in %d", n, len(b))
	}
	head := string(b[from : from+n])
	dtypes := map[string]string{"|u1": "uint8", "<u2": "uint16", "<i2": "int16", "<i4": "int32", "<u4": "uint32", "<i8": "int64", "|i1": "int8"}
	code := between(head, "'descr': '", "'")
	var shape []int
	for s := range strings.SplitSeq(between(head, "'shape': (", ")"), ",") {
		if v, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
			shape = append(shape, v)
		}
	}
	if dtypes[code] == "" || strings.Contains(head, "'fortran_order': True") || len(shape) < 2 {
		return experts{}, policy.Inexactf("routed_experts: an array %s cannot be read", fmt.Sprintf("%.120q", head))
	}
	return experts{raw: b[from+n:], dtype: dtypes[code], row: shape[1:]}, nil
}

func between(s, a, b string) string {
	_, s, _ = strings.Cut(s, a)
	s, _, _ = strings.Cut(s, b)
	return s
}
