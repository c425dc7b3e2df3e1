package fakellm

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"strconv"

	"hermes/internal/fakellm/model"
	"hermes/internal/fakellm/rawjson"
)

// form is one of the HTTP forms that the server speaks.
type form int

const (
	formChat       form = iota // POST /v1/chat/completions
	formCompletion             // POST /v1/completions
	formSGLang                 // POST /generate with text or input_ids
	formAtropos                // POST /generate with prompt
	formInference              // POST /inference/v1/generate
	formLlamacpp               // POST /completion, llama.cpp's own
)

// request is what the server reads from a body. Slices point into the body.
type request struct {
	model.Ask

	form      form
	path      string
	name      string // of the model
	promptRaw []byte
	prompt    string     // forms that bring a prompt
	echo      bool       // the prompt comes before the answer's text
	more      []*request // the other prompts of a list
	oldMax    bool       // the limit came as max_tokens
	conv      string
	seed      []byte

	n           int
	stream      bool
	streamUsage bool
	logprobs    bool
	top         int
	returnIDs   bool
	idNames     bool // token texts as token_id:N
	versions    bool // which weights sampled which tokens
	promptTop   int  // prompt log-probs by position; -1: none
	experts     bool // the experts of each token
}

// parse reads the body of a request of form f.
func (s *Server) parse(f form, body []byte, r *http.Request) (*request, error) {
	q := &request{form: f, path: r.URL.Path, n: 1, promptTop: -1, conv: r.Header.Get("X-Hermes-Conversation")}
	q.Chat = f == formChat
	q.MaxTokens = -1
	var bad error
	err := rawjson.Fields(body, func(key, val []byte) {
		if e := q.field(string(key), val); e != nil && bad == nil {
			bad = fmt.Errorf("%s: %w", key, e)
		}
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	if q.Chat {
		q.Exact = q.returnIDs || q.logprobs
		return q, q.readChat()
	}
	return q, q.readPrompt(s)
}

// field takes one field of the body or of its sampling parameters.
func (q *request) field(key string, val []byte) error {
	if string(val) == "null" {
		return nil
	}
	if flag := q.flag(key); flag != nil {
		*flag = string(val) == "true"
		return nil
	}
	switch key {
	case "model":
		q.name = rawjson.Text(val)
	case "messages":
		q.Messages = val
	case "prompt", "input_ids", "token_ids", "text":
		q.promptRaw = val
		if key == "prompt" && q.form == formSGLang {
			q.form = formAtropos
		}
	case "tools":
		q.Tools = val
	case "tool_choice":
		q.NoTools = string(val) == `"none"`
		switch {
		case string(val) == `"required"`:
			q.Must = "*"
		case val[0] == '{':
			q.Must = rawjson.Text(rawjson.Field(rawjson.Field(val, "function"), "name"))
		}
	case "echo":
		q.echo = string(val) == "true" && q.form == formCompletion
	case "hermes_script":
		q.Script = val
	case "hermes_conversation":
		q.conv = rawjson.Text(val)
	case "seed", "sampling_seed":
		q.seed = val
	case "stop":
		return q.stops(val)
	case "stream_options":
		q.streamUsage = string(rawjson.Field(val, "include_usage")) == "true"
	case "sampling_params":
		var bad error
		err := rawjson.Fields(val, func(k, v []byte) {
			if e := q.field(string(k), v); e != nil {
				bad = e
			}
		})
		return cmp.Or(err, bad)
	}
	return q.amount(key, val)
}

// flag is where a field that is true or false belongs; nil for others.
func (q *request) flag(key string) *bool {
	switch key {
	case "stream":
		return &q.stream
	case "return_logprob":
		return &q.logprobs
	case "return_tokens", "return_token_ids":
		return &q.returnIDs
	case "return_tokens_as_token_ids":
		return &q.idNames
	case "return_weight_versions":
		return &q.versions
	case "return_routed_experts":
		return &q.experts
	}
	return nil
}

// amount takes a field that is a number.
func (q *request) amount(key string, val []byte) (err error) {
	switch key {
	case "max_tokens", "max_completion_tokens", "max_new_tokens":
		q.MaxTokens, err = number(val)
		q.oldMax = key == "max_tokens"
	case "n_predict":
		if string(val) == "-1" {
			q.MaxTokens = -1
			return nil
		}
		q.MaxTokens, err = number(val)
	case "n":
		q.n, err = number(val)
		if err == nil && (q.n < 1 || q.n > 128) {
			err = fmt.Errorf("%d is not between 1 and 128", q.n)
		}
	case "logprobs":
		q.logprobs = string(val) == "true"
		if !q.logprobs && string(val) != "false" {
			q.logprobs = true
			q.top, err = number(val)
		}
	case "n_probs":
		q.top, err = number(val)
		q.logprobs = q.top > 0
	case "top_logprobs", "top_logprobs_num":
		q.top, err = number(val)
	case "prompt_logprobs":
		q.promptTop, err = number(val)
	}
	return err
}

// stops takes the texts that end an answer: one, or a list.
func (q *request) stops(val []byte) error {
	if val[0] == '"' {
		q.Stop = []string{rawjson.Text(val)}
		return nil
	}
	return rawjson.Elems(val, func(e []byte) bool {
		q.Stop = append(q.Stop, rawjson.Text(e))
		return true
	})
}

// number reads a whole number that is not negative.
func number(raw []byte) (int, error) {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%.40q is not a whole number from 0", raw)
	}
	return n, nil
}

func (q *request) readChat() (err error) {
	if q.Messages == nil {
		return fmt.Errorf("messages: field required")
	}
	if inner := rawjson.SkipSpace(q.Messages, 1); q.Messages[0] == '[' && q.Messages[inner] == ']' {
		return fmt.Errorf("messages: the list is empty, want at least one message")
	}
	q.Talk, err = model.ReadMessages(q.Messages)
	if err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	if !q.NoTools {
		q.Talk.Tools = q.Tools
	}
	return nil
}

// readPrompt decodes the prompt, which is text, a list of ids, a list of one of these,
// or {"prompt_token_ids": […]}.
func (q *request) readPrompt(s *Server) error {
	raw := q.promptRaw
	if len(raw) > 0 && raw[0] == '{' {
		raw = rawjson.Field(raw, "prompt_token_ids")
	}
	if q.form == formCompletion {
		if list := prompts(raw); len(list) > 1 {
			for _, p := range list[1:] {
				one := *q
				one.promptRaw = p
				if err := one.readPrompt(s); err != nil {
					return err
				}
				q.more = append(q.more, &one)
			}
			raw = list[0]
		}
	}
	if len(raw) > 0 && raw[0] == '[' {
		if inner := only(raw); len(inner) > 0 && (inner[0] == '[' || inner[0] == '"') {
			raw = inner
		}
	}
	switch {
	case len(raw) == 0:
		return fmt.Errorf("prompt: field required")
	case raw[0] == '"':
		q.prompt = rawjson.Text(raw)
		q.IDs = s.opt.Tokenizer.Encode(q.prompt)
	default:
		var err error
		q.IDs, err = readIDs(raw)
		if err != nil {
			return fmt.Errorf("prompt: %w", err)
		}
		q.prompt = s.opt.Tokenizer.Decode(q.IDs)
	}
	q.Talk = s.markup.Read(q.prompt)
	if q.MaxTokens < 0 && q.form != formLlamacpp { // the defaults of vLLM and SGLang
		q.MaxTokens = 16
		if q.form == formSGLang {
			q.MaxTokens = 128
		}
	}
	return nil
}

// prompts are the prompts of a list of texts or of lists of ids; nil where it is none.
func prompts(raw []byte) (list [][]byte) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	many := true
	err := rawjson.Elems(raw, func(e []byte) bool {
		many = e[0] == '"' || e[0] == '['
		list = append(list, e)
		return many
	})
	if err != nil || !many {
		return nil
	}
	return list
}

// only returns the element of a list of one, or nil.
func only(raw []byte) (out []byte) {
	n := 0
	err := rawjson.Elems(raw, func(e []byte) bool { n++; out = e; return n < 2 })
	if err != nil || n != 1 {
		return nil
	}
	return out
}

// readIDs reads a list of ids in one go: a prompt has thousands, and comes again with each
// turn.
func readIDs(raw []byte) ([]int32, error) {
	if raw[0] != '[' {
		return nil, rawjson.ErrSyntax
	}
	ids := make([]int32, 0, len(raw)/4)
	i := rawjson.SkipSpace(raw, 1)
	if i < len(raw) && raw[i] == ']' {
		return ids, nil
	}
	for {
		start, n := i, int64(0)
		for i < len(raw) && '0' <= raw[i] && raw[i] <= '9' && n <= math.MaxInt32 {
			n = 10*n + int64(raw[i]-'0')
			i++
		}
		switch end := rawjson.SkipSpace(raw, i); {
		case i == start || n > math.MaxInt32 || end == len(raw) || raw[end] != ',' && raw[end] != ']':
			return nil, fmt.Errorf("%.40q is not a list of token ids from there on", raw[start:])
		case raw[end] == ']':
			return append(ids, int32(n)), nil
		default:
			ids, i = append(ids, int32(n)), rawjson.SkipSpace(raw, end+1)
		}
	}
}

// castagnoli is read only.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digest identifies what is asked: the messages or the prompt, the seed, the conversation.
// Two CRCs and the length are enough for a log in a test, at a tenth of SHA-256's price.
func (q *request) digest() (d digest) {
	var c, i uint32
	size := 0
	for _, part := range [...][]byte{q.Messages, q.promptRaw, {0}, q.seed, {0}, []byte(q.conv)} {
		c, i = crc32.Update(c, castagnoli, part), crc32.Update(i, crc32.IEEETable, part)
		size += len(part)
	}
	sum := model.Mix(uint64(c)<<32 | uint64(i))
	binary.LittleEndian.PutUint64(d[:8], sum)
	binary.LittleEndian.PutUint64(d[8:], model.Mix(sum^uint64(size)<<32))
	return d
}

// conversation names the conversation: as the request does, else by its first user message
// and seed.
func (q *request) conversation() string {
	if q.conv != "" {
		return q.conv
	}
	h := sha256.New()
	h.Write(q.Talk.First())
	h.Write([]byte{0})
	h.Write(q.seed)
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// tokens reports whether the form takes and returns tokens.
func (q *request) tokens() bool { return !q.Chat }
