package fakellm

import (
	"strconv"
)

// sglangBody is the answer of SGLang's /generate: an object, or a list for n above 1.
func (x *exchange) sglangBody(b []byte) []byte {
	if x.q.n == 1 {
		return x.sglangOne(b, 0)
	}
	b = append(b, '[')
	for i := range x.q.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = x.sglangOne(b, i)
	}
	return append(b, ']')
}

func (x *exchange) sglangOne(b []byte, i int) []byte {
	b = quote(append(b, `{"text":`...), x.a.text)
	b = appendIDs(append(b, `,"output_ids":`...), x.a.ids)
	b = quote(append(b, `,"meta_info":{"id":`...), x.dig.String()+"-"+strconv.Itoa(i))
	b = append(b, `,"finish_reason":`...)
	switch x.a.finish {
	case "length":
		b = append(strconv.AppendInt(append(b, `{"type":"length","length":`...), int64(len(x.a.ids)), 10), '}')
	case "stop":
		b = append(strconv.AppendInt(append(b, `{"type":"stop","matched":`...), int64(x.s.opt.Tokenizer.End()), 10), '}')
	default:
		b = quote(append(b, `{"type":"abort","message":"Aborted","status_code":null,"err_type":`...), x.a.finish)
		b = append(b, '}')
	}
	b = strconv.AppendInt(append(b, `,"prompt_tokens":`...), int64(x.a.prompt), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(x.a.out), 10)
	b = append(b, `,"cached_tokens":0,"weight_version":"default"`...)
	if x.q.logprobs {
		b = append(b, `,"input_token_logprobs":[],"output_token_logprobs":[`...)
		for k, id := range x.a.ids {
			if k > 0 {
				b = append(b, ',')
			}
			b = appendFloat(append(b, '['), logprob(x.dig, k))
			b = strconv.AppendInt(append(b, ','), int64(id), 10)
			b = append(b, ",null]"...)
		}
		b = append(b, ']')
	}
	return append(b, "}}"...)
}

// atroposBody is the answer of the /generate of Atropos' vLLM server.
func (x *exchange) atroposBody(b []byte) []byte {
	many := func(b []byte, one func([]byte) []byte) []byte {
		b = append(b, '[')
		for i := range x.q.n {
			if i > 0 {
				b = append(b, ',')
			}
			b = one(b)
		}
		return append(b, ']')
	}
	b = many(append(b, `{"text":`...), func(b []byte) []byte { return quote(b, x.a.text) })
	b = quote(append(b, `,"prompt":`...), x.q.prompt)
	b = many(append(b, `,"finish_reasons":`...), func(b []byte) []byte { return quote(b, x.a.finish) })
	if x.q.logprobs {
		b = many(append(b, `,"logprobs":`...), func(b []byte) []byte {
			b = append(b, '[')
			for k, id := range x.a.ids {
				if k > 0 {
					b = append(b, ',')
				}
				b = strconv.AppendInt(append(b, `[{"`...), int64(id), 10)
				b = append(appendFloat(append(b, `":`...), logprob(x.dig, k)), "}]"...)
			}
			return append(b, ']')
		})
		b = appendIDs(append(b, `,"prompt_token_ids":`...), x.a.promptIDs)
		b = many(append(b, `,"token_ids":`...), func(b []byte) []byte { return appendIDs(b, x.a.ids) })
	}
	if x.q.promptTop >= 0 {
		b = x.promptLogprobs(append(b, `,"prompt_logprobs":`...))
	}
	return append(b, '}')
}

// inferenceBody is the answer of vLLM's /inference/v1/generate.
func (x *exchange) inferenceBody(b []byte) []byte {
	b = quote(append(b, `{"request_id":`...), "generate-tokens-"+x.dig.String()[:16])
	b = append(b, `,"choices":[`...)
	for i := range x.q.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
		b = append(b, `,"logprobs":`...)
		if x.q.logprobs {
			b = x.chatLogprobs(b, x.a.ids, 0)
		} else {
			b = append(b, "null"...)
		}
		b = quote(append(b, `,"finish_reason":`...), x.a.finish)
		b = append(appendIDs(append(b, `,"token_ids":`...), x.a.ids), '}')
	}
	b = append(b, `],"prompt_logprobs":`...)
	if x.q.promptTop >= 0 {
		b = x.promptLogprobs(b)
	} else {
		b = append(b, "null"...)
	}
	return append(b, '}')
}
