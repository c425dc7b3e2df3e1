package fakellm

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"strconv"
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
	form      form
	path      string
	model     string
	messages  []byte
	promptRaw []byte
	prompt    string  // forms that bring a prompt
	ids       []int32 // likewise
	tools     []byte
	noTools   bool       // tool_choice "none"
	must      string     // tool_choice: the function that is to be called; "*": any; empty: as the model likes
	echo      bool       // the prompt comes before the answer's text
	more      []*request // the other prompts of a list
	oldMax    bool       // the limit came as max_tokens
	script    []byte
	conv      string
	seed      []byte
	stop      []string

	maxTokens   int // -1: not limited
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

	talk talk
}

// parse reads the body of a request of form f.
func (s *Server) parse(f form, body []byte, r *http.Request) (*request, error) {
	q := &request{form: f, path: r.URL.Path, maxTokens: -1, n: 1, promptTop: -1, conv: r.Header.Get("X-Hermes-Conversation")}
	var bad error
	err := eachField(body, func(key, val []byte) {
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
	if q.form == formChat {
		return q, q.readChat()
	}
	return q, q.readPrompt(s)
}

// field takes one field of the body or of its sampling parameters.
func (q *request) field(key string, val []byte) (err error) {
	if string(val) == "null" {
		return nil
	}
	switch key {
	case "model":
		q.model = text(val)
	case "messages":
		q.messages = val
	case "prompt", "input_ids", "token_ids", "text":
		q.promptRaw = val
		if key == "prompt" && q.form == formSGLang {
			q.form = formAtropos
		}
	case "tools":
		q.tools = val
	case "tool_choice":
		q.noTools = string(val) == `"none"`
		switch {
		case string(val) == `"required"`:
			q.must = "*"
		case val[0] == '{':
			q.must = text(field(field(val, "function"), "name"))
		}
	case "echo":
		q.echo = string(val) == "true" && q.form == formCompletion
	case "return_weight_versions":
		q.versions = string(val) == "true"
	case "hermes_script":
		q.script = val
	case "hermes_conversation":
		q.conv = text(val)
	case "seed", "sampling_seed":
		q.seed = val
	case "max_tokens", "max_completion_tokens", "max_new_tokens":
		q.maxTokens, err = number(val)
		q.oldMax = key == "max_tokens"
	case "n_predict":
		q.maxTokens, err = number(val)
		if string(val) == "-1" {
			q.maxTokens, err = -1, nil
		}
	case "n_probs":
		q.top, err = number(val)
		q.logprobs = q.top > 0
	case "return_tokens":
		q.returnIDs = string(val) == "true"
	case "return_routed_experts":
		q.experts = string(val) == "true"
	case "n":
		q.n, err = number(val)
		if err == nil && (q.n < 1 || q.n > 128) {
			err = fmt.Errorf("%d is not between 1 and 128", q.n)
		}
	case "stop":
		if val[0] == '"' {
			q.stop = []string{text(val)}
			return nil
		}
		return eachElem(val, func(e []byte) bool { q.stop = append(q.stop, text(e)); return true })
	case "stream":
		q.stream = string(val) == "true"
	case "stream_options":
		q.streamUsage = string(field(val, "include_usage")) == "true"
	case "logprobs":
		q.logprobs = string(val) == "true"
		if !q.logprobs && string(val) != "false" {
			q.logprobs = true
			q.top, err = number(val)
		}
	case "top_logprobs", "top_logprobs_num":
		q.top, err = number(val)
	case "return_logprob":
		q.logprobs = string(val) == "true"
	case "prompt_logprobs":
		q.promptTop, err = number(val)
	case "return_token_ids":
		q.returnIDs = string(val) == "true"
	case "return_tokens_as_token_ids":
		q.idNames = string(val) == "true"
	case "sampling_params":
		var bad error
		err = eachField(val, func(k, v []byte) {
			if e := q.field(string(k), v); e != nil {
				bad = e
			}
		})
		if err == nil {
			err = bad
		}
	}
	return err
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
	if q.messages == nil {
		return fmt.Errorf("messages: field required")
	}
	if inner := skipSpace(q.messages, 1); q.messages[0] == '[' && q.messages[inner] == ']' {
		return fmt.Errorf("messages: the list is empty, want at least one message")
	}
	q.talk, err = readMessages(q.messages)
	if err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	if !q.noTools {
		q.talk.tools = q.tools
	}
	return nil
}

// readPrompt decodes the prompt, which is text, a list of ids, a list of one of these,
// or {"prompt_token_ids": […]}.
func (q *request) readPrompt(s *Server) error {
	raw := q.promptRaw
	if len(raw) > 0 && raw[0] == '{' {
		raw = field(raw, "prompt_token_ids")
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
		q.prompt = text(raw)
		q.ids = s.opt.Tokenizer.Encode(q.prompt)
	default:
		var err error
		q.ids, err = readIDs(raw)
		if err != nil {
			return fmt.Errorf("prompt: %w", err)
		}
		q.prompt = s.opt.Tokenizer.Decode(q.ids)
	}
	q.talk = s.markup.read(q.prompt)
	if q.maxTokens < 0 && q.form != formLlamacpp { // the defaults of vLLM and SGLang
		q.maxTokens = 16
		if q.form == formSGLang {
			q.maxTokens = 128
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
	err := eachElem(raw, func(e []byte) bool {
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
	err := eachElem(raw, func(e []byte) bool { n++; out = e; return n < 2 })
	if err != nil || n != 1 {
		return nil
	}
	return out
}

// readIDs reads a list of ids in one go: a prompt has thousands, and comes again with each
// turn.
func readIDs(raw []byte) ([]int32, error) {
	if raw[0] != '[' {
		return nil, errJSON
	}
	ids := make([]int32, 0, len(raw)/4)
	i := skipSpace(raw, 1)
	if i < len(raw) && raw[i] == ']' {
		return ids, nil
	}
	for {
		start, n := i, int64(0)
		for i < len(raw) && '0' <= raw[i] && raw[i] <= '9' && n <= math.MaxInt32 {
			n = 10*n + int64(raw[i]-'0')
			i++
		}
		switch end := skipSpace(raw, i); {
		case i == start || n > math.MaxInt32 || end == len(raw) || raw[end] != ',' && raw[end] != ']':
			return nil, fmt.Errorf("%.40q is not a list of token ids from there on", raw[start:])
		case raw[end] == ']':
			return append(ids, int32(n)), nil
		default:
			ids, i = append(ids, int32(n)), skipSpace(raw, end+1)
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
	for _, part := range [...][]byte{q.messages, q.promptRaw, {0}, q.seed, {0}, []byte(q.conv)} {
		c, i = crc32.Update(c, castagnoli, part), crc32.Update(i, crc32.IEEETable, part)
		size += len(part)
	}
	sum := mix(uint64(c)<<32 | uint64(i))
	binary.LittleEndian.PutUint64(d[:8], sum)
	binary.LittleEndian.PutUint64(d[8:], mix(sum^uint64(size)<<32))
	return d
}

// conversation names the conversation: as the request does, else by its first user message
// and seed.
func (q *request) conversation() string {
	if q.conv != "" {
		return q.conv
	}
	h := sha256.New()
	if q.talk.plain {
		h.Write([]byte(q.talk.task()))
	} else {
		h.Write(q.talk.firstUser)
	}
	h.Write([]byte{0})
	h.Write(q.seed)
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// tokens reports whether the form takes and returns tokens.
func (q *request) tokens() bool { return q.form != formChat }
