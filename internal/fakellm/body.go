package fakellm

import (
	"strconv"

	"hermes/internal/fakellm/rawjson"
)

// body writes the plain answer in the form of the request.
func (x *exchange) body() []byte {
	b := make([]byte, 0, 512+len(x.a.Content)+len(x.a.Reasoning)+8*len(x.a.IDs)+8*len(x.a.PromptIDs))
	switch x.q.form {
	case formChat:
		return x.chatBody(b)
	case formCompletion:
		return x.completionBody(b)
	case formSGLang:
		return x.sglangBody(b)
	case formAtropos:
		return x.atroposBody(b)
	case formLlamacpp:
		return x.llamacppBody(b)
	}
	return x.inferenceBody(b)
}

// head appends the begin of an OpenAI answer up to the model's name.
func (x *exchange) head(b []byte, prefix, object string) []byte {
	b = append(append(b, `{"id":"`...), prefix...)
	b = append(b, x.dig.String()[:16]...)
	b = strconv.AppendUint(append(b, '-'), uint64(x.entry.Ask), 10)
	b = append(append(b, `","object":"`...), object...)
	b = strconv.AppendInt(append(b, `","created":`...), x.s.opt.Now().Unix(), 10)
	name := x.q.name
	if name == "" {
		name = x.s.names()[0]
	}
	return rawjson.Quote(append(b, `,"model":`...), name)
}

func (x *exchange) chatBody(b []byte) []byte {
	b = x.head(b, "chatcmpl-", "chat.completion")
	b = append(b, `,"choices":[`...)
	for i := range x.q.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
		b = x.message(append(b, `,"message":`...))
		b = append(b, `,"logprobs":`...)
		if x.q.logprobs {
			b = x.chatLogprobs(b, x.a.IDs, 0)
		} else {
			b = append(b, "null"...)
		}
		b = rawjson.Quote(append(b, `,"finish_reason":`...), x.s.ways.finish(x.a))
		if x.q.returnIDs {
			b = appendIDs(append(b, `,"stop_reason":null,"token_ids":`...), x.a.IDs)
		}
		if x.q.versions {
			b = x.versions(append(b, ','))
		}
		b = append(b, '}')
	}
	b = x.usage(append(b, `],"usage":`...))
	if x.q.returnIDs {
		b = appendIDs(append(b, `,"prompt_token_ids":`...), x.a.PromptIDs)
	}
	return append(b, '}')
}

func (x *exchange) message(b []byte) []byte {
	field, reasoning, content := x.shown()
	b = append(b, `{"role":"assistant","content":`...)
	if content == "" && len(x.a.Calls) > 0 && !x.s.ways.empty {
		b = append(b, "null"...)
	} else {
		b = rawjson.Quote(b, content)
	}
	if reasoning != "" {
		b = append(append(append(b, `,"`...), field...), `":`...)
		b = rawjson.Quote(b, reasoning)
		if x.s.ways.details {
			b = x.reasoningDetails(append(b, ','), reasoning, true)
		}
	}
	for i, c := range x.a.Calls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(x.call(append(b, '{'), c), '}')
	}
	if len(x.a.Calls) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func (x *exchange) usage(b []byte) []byte {
	prompt, out := x.a.Prompt, x.a.Out*x.q.n
	for _, a := range x.more {
		prompt, out = prompt+a.Prompt, out+a.Out*x.q.n
	}
	b = strconv.AppendInt(append(b, `{"prompt_tokens":`...), int64(prompt), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(out), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(prompt+out), 10)
	if x.a.Thought > 0 {
		b = strconv.AppendInt(append(b, `,"completion_tokens_details":{"reasoning_tokens":`...), int64(x.a.Thought*x.q.n), 10)
		b = append(b, '}')
	}
	if x.s.ways.cached {
		b = strconv.AppendInt(append(b, `,"prompt_tokens_details":{"cached_tokens":`...), int64(x.cachedTokens()), 10)
		b = append(b, '}')
	}
	if x.s.ways.usage != nil {
		b = x.s.ways.usage(x, b)
	}
	return append(b, '}')
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

func appendFloat(b []byte, f float64) []byte { return strconv.AppendFloat(b, f, 'g', -1, 64) }

// tokenText is how a log-prob entry names the token.
func (x *exchange) tokenText(id int32) string {
	if x.q.idNames {
		return "token_id:" + strconv.Itoa(int(id))
	}
	return x.s.opt.Tokenizer.Decode([]int32{id})
}

// chatLogprobs appends log-probs in the chat style for ids, the first of which is at
// position at of the answer.
func (x *exchange) chatLogprobs(b []byte, ids []int32, at int) []byte {
	b = append(b, `{"content":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = x.oneLogprob(append(b, '{'), id, func(b []byte) []byte { return x.appendLogProb(b, at+i) })
		b = append(b, `,"top_logprobs":[`...)
		for k := range x.q.top {
			if k > 0 {
				b = append(b, ',')
			}
			b = append(x.oneLogprob(append(b, '{'), id+int32(k), func(b []byte) []byte { return appendFloat(b, x.logProb(at+i)-float64(k)) }), '}')
		}
		b = append(b, "]}"...)
	}
	return append(b, "]}"...)
}

func (x *exchange) oneLogprob(b []byte, id int32, value func([]byte) []byte) []byte {
	b = rawjson.Quote(append(b, `"token":`...), x.tokenText(id))
	b = value(append(b, `,"logprob":`...))
	b = append(b, `,"bytes":[`...)
	for i, c := range []byte(x.s.opt.Tokenizer.Decode([]int32{id})) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(c), 10)
	}
	return append(b, ']')
}

func (x *exchange) completionBody(b []byte) []byte {
	b = x.head(b, "cmpl-", "text_completion")
	b = append(b, `,"choices":[`...)
	x.each(func(x *exchange, i int) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
		b = rawjson.Quote(append(b, `,"text":`...), x.echoed()+x.a.Text)
		b = append(b, `,"logprobs":`...)
		b = x.legacyLogprobs(b, x.a.IDs, 0)
		b = rawjson.Quote(append(b, `,"finish_reason":`...), x.a.Finish)
		b = append(b, `,"stop_reason":null`...)
		if x.q.returnIDs && x.entry.Fault != FaultNoIDs {
			b = appendIDs(append(b, `,"token_ids":`...), x.a.IDs)
			b = appendIDs(append(b, `,"prompt_token_ids":`...), x.a.PromptIDs)
		}
		if x.q.versions {
			b = x.versions(append(b, ','))
		}
		if x.q.promptTop >= 0 {
			b = x.promptLogprobs(append(b, `,"prompt_logprobs":`...))
		}
		b = append(b, '}')
	})
	return append(x.usage(append(b, `],"usage":`...)), '}')
}

// legacyLogprobs appends log-probs in the style of completions, or null.
func (x *exchange) legacyLogprobs(b []byte, ids []int32, at int) []byte {
	if !x.q.logprobs {
		return append(b, "null"...)
	}
	var offsets, lps, toks, tops []byte
	offset := len(x.q.prompt) + len(x.s.opt.Tokenizer.Decode(x.a.IDs[:at]))
	if x.q.echo && at == 0 { // the first token follows nothing
		offset = 0
		for i, id := range x.a.PromptIDs {
			lp := []byte("null")
			if i > 0 {
				lp = appendFloat(nil, logprob(x.dig, -1-i))
			}
			offsets, lps = append(strconv.AppendInt(offsets, int64(offset), 10), ','), append(append(lps, lp...), ',')
			toks = append(rawjson.Quote(toks, x.tokenText(id)), ',')
			tops = append(append(append(rawjson.Quote(append(tops, '{'), x.tokenText(id)), ':'), lp...), "},"...)
			offset += len(x.s.opt.Tokenizer.Decode([]int32{id}))
		}
	}
	for i, id := range ids {
		if i > 0 {
			offsets, lps, toks, tops = append(offsets, ','), append(lps, ','), append(toks, ','), append(tops, ',')
		}
		offsets = strconv.AppendInt(offsets, int64(offset), 10)
		offset += len(x.s.opt.Tokenizer.Decode([]int32{id}))
		lps = x.appendLogProb(lps, at+i)
		toks = rawjson.Quote(toks, x.tokenText(id))
		tops = x.appendLogProb(append(rawjson.Quote(append(tops, '{'), x.tokenText(id)), ':'), at+i)
		for k := 1; k < x.q.top; k++ {
			tops = append(rawjson.Quote(append(tops, ','), x.tokenText(id+int32(k))), ':')
			tops = appendFloat(tops, x.logProb(at+i)-float64(k))
		}
		tops = append(tops, '}')
	}
	b = append(append(b, `{"text_offset":[`...), offsets...)
	b = append(append(b, `],"token_logprobs":[`...), lps...)
	b = append(append(b, `],"tokens":[`...), toks...)
	b = append(append(b, `],"top_logprobs":[`...), tops...)
	return append(b, "]}"...)
}

// echoed is the prompt where it is to come before the answer.
func (x *exchange) echoed() string {
	if !x.q.echo {
		return ""
	}
	return x.q.prompt
}

// versions appends which weights sampled which tokens, as vLLM reports it.
func (x *exchange) versions(b []byte) []byte {
	b = rawjson.Quote(append(b, `"weight_versions":[{"version":`...), x.version)
	return append(strconv.AppendInt(append(b, `,"start":0,"end":`...), int64(len(x.a.IDs)), 10), "}]"...)
}

// promptLogprobs appends vLLM's form: null, then objects by token id.
func (x *exchange) promptLogprobs(b []byte) []byte {
	b = append(b, '[')
	for i, id := range x.a.PromptIDs {
		if i == 0 {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendInt(append(b, `,{"`...), int64(id), 10)
		b = appendFloat(append(b, `":{"logprob":`...), logprob(x.dig, -1-i))
		b = rawjson.Quote(append(b, `,"rank":1,"decoded_token":`...), x.s.opt.Tokenizer.Decode([]int32{id}))
		b = append(b, "}}"...)
	}
	return append(b, ']')
}
