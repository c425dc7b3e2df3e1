package fakellm

import (
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"

	"hermes/internal/fakellm/model"
	"hermes/internal/fakellm/rawjson"
)

// Layers and experts of a token that the server makes up.
const (
	expertLayers = 2
	expertTopK   = 2
)

// routed are the experts of every token of prompt and answer but the last, as SGLang
// sends them: raw int32 of shape (tokens, layers, k). They depend on the token alone.
func (x *exchange) routed() []byte {
	var b []byte
	for _, ids := range [][]int32{x.a.PromptIDs, x.a.IDs} {
		for _, id := range ids {
			for i := range expertLayers * expertTopK {
				b = binary.LittleEndian.AppendUint32(b, uint32(model.Mix(uint64(id)<<8|uint64(i))%64))
			}
		}
	}
	return b[:len(b)-4*expertLayers*expertTopK]
}

// llamacppBody is the answer of llama.cpp's /completion.
func (x *exchange) llamacppBody(b []byte) []byte {
	b = rawjson.Quote(append(b, `{"index":0,"content":`...), x.a.Text)
	b = rawjson.Quote(append(b, `,"model":`...), x.s.names()[0])
	if x.q.returnIDs && x.entry.Fault != FaultNoIDs {
		b = appendIDs(append(b, `,"tokens":`...), x.a.IDs)
	}
	stop := map[string]string{"stop": "eos", "length": "limit"}[x.a.Finish]
	if stop == "" {
		stop = x.a.Finish
	}
	b = rawjson.Quote(append(b, `,"stop":true,"stop_type":`...), stop)
	b = strconv.AppendInt(append(b, `,"truncated":false,"tokens_cached":0,"tokens_evaluated":`...), int64(x.a.Prompt), 10)
	b = strconv.AppendInt(append(b, `,"tokens_predicted":`...), int64(x.a.Out), 10)
	if x.q.logprobs {
		begun := false // a list without entries is left out
		for k, id := range x.a.IDs {
			if x.partial(k) {
				continue // no entry, as in the real server
			}
			if !begun {
				b = append(b, `,"completion_probabilities":[`...)
			} else {
				b = append(b, ',')
			}
			begun = true
			b = strconv.AppendInt(append(b, `{"id":`...), int64(id), 10)
			b = x.appendLogProb(append(b, `,"logprob":`...), k)
			b = append(b, `,"top_logprobs":[`...)
			for i := range x.q.top {
				if i > 0 {
					b = append(b, ',')
				}
				b = strconv.AppendInt(append(b, `{"id":`...), int64(id)+int64(i), 10)
				b = append(appendFloat(append(b, `,"logprob":`...), x.logProb(k)-float64(i)), '}')
			}
			b = append(b, "]}"...)
		}
		if begun {
			b = append(b, ']')
		}
	}
	return append(b, '}')
}

// partial reports whether a character of the answer is not complete with its k-th token.
func (x *exchange) partial(k int) bool {
	text := x.s.opt.Tokenizer.Decode(x.a.IDs[max(0, k-utf8.UTFMax+1) : k+1])
	if strings.HasSuffix(text, "\ufffd") {
		return true // of a tokenizer whose texts are always whole characters
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			return c >= utf8.RuneSelf && !utf8.FullRuneInString(text[len(text)-n:])
		}
	}
	return false
}

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
	b = rawjson.Quote(append(b, `{"text":`...), x.a.Text)
	if x.entry.Fault != FaultNoIDs {
		b = appendIDs(append(b, `,"output_ids":`...), x.a.IDs)
	}
	b = rawjson.Quote(append(b, `,"meta_info":{"id":`...), x.dig.String()+"-"+strconv.Itoa(i))
	b = append(b, `,"finish_reason":`...)
	switch x.a.Finish {
	case "length":
		b = append(strconv.AppendInt(append(b, `{"type":"length","length":`...), int64(len(x.a.IDs)), 10), '}')
	case "stop":
		b = append(strconv.AppendInt(append(b, `{"type":"stop","matched":`...), int64(x.s.opt.Tokenizer.End()), 10), '}')
	default:
		b = rawjson.Quote(append(b, `{"type":"abort","message":"Aborted","status_code":null,"err_type":`...), x.a.Finish)
		b = append(b, '}')
	}
	b = strconv.AppendInt(append(b, `,"prompt_tokens":`...), int64(x.a.Prompt), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(x.a.Out), 10)
	b = rawjson.Quote(append(b, `,"cached_tokens":0,"weight_version":`...), x.version)
	if x.q.experts {
		b = rawjson.Quote(append(b, `,"routed_experts":`...), base64.StdEncoding.EncodeToString(x.routed()))
	}
	if x.q.logprobs && x.q.top > 0 {
		b = append(b, `,"output_top_logprobs":[`...)
		for k, id := range x.a.IDs {
			if k > 0 {
				b = append(b, ',')
			}
			b = append(b, '[')
			for i := range x.q.top {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendFloat(append(b, '['), x.logProb(k)-float64(i))
				b = append(strconv.AppendInt(append(b, ','), int64(id)+int64(i), 10), ",null]"...)
			}
			b = append(b, ']')
		}
		b = append(b, ']')
	}
	if x.q.logprobs && x.entry.Fault != FaultNoIDs {
		b = append(b, `,"input_token_logprobs":[],"output_token_logprobs":[`...)
		for k, id := range x.a.IDs {
			if k > 0 {
				b = append(b, ',')
			}
			b = x.appendLogProb(append(b, '['), k)
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
	b = many(append(b, `{"text":`...), func(b []byte) []byte { return rawjson.Quote(b, x.a.Text) })
	b = rawjson.Quote(append(b, `,"prompt":`...), x.q.prompt)
	b = many(append(b, `,"finish_reasons":`...), func(b []byte) []byte { return rawjson.Quote(b, x.a.Finish) })
	if x.q.logprobs {
		b = many(append(b, `,"logprobs":`...), func(b []byte) []byte {
			b = append(b, '[')
			for k, id := range x.a.IDs {
				if k > 0 {
					b = append(b, ',')
				}
				b = strconv.AppendInt(append(b, `[{"`...), int64(id), 10)
				b = append(x.appendLogProb(append(b, `":`...), k), "}]"...)
			}
			return append(b, ']')
		})
		b = appendIDs(append(b, `,"prompt_token_ids":`...), x.a.PromptIDs)
		b = many(append(b, `,"token_ids":`...), func(b []byte) []byte { return appendIDs(b, x.a.IDs) })
	}
	if x.q.promptTop >= 0 {
		b = x.promptLogprobs(append(b, `,"prompt_logprobs":`...))
	}
	return append(b, '}')
}

// inferenceBody is the answer of vLLM's /inference/v1/generate.
func (x *exchange) inferenceBody(b []byte) []byte {
	b = rawjson.Quote(append(b, `{"request_id":`...), "generate-tokens-"+x.dig.String()[:16])
	b = append(b, `,"choices":[`...)
	for i := range x.q.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
		b = append(b, `,"logprobs":`...)
		if x.q.logprobs {
			b = x.tokenLogprobs(b)
		} else {
			b = append(b, "null"...)
		}
		b = rawjson.Quote(append(b, `,"finish_reason":`...), x.a.Finish)
		if x.entry.Fault != FaultNoIDs {
			b = appendIDs(append(b, `,"token_ids":`...), x.a.IDs)
		}
		b = append(x.versions(append(b, ',')), '}')
	}
	b = x.usage(append(b, `],"usage":`...))
	b = append(b, `,"prompt_logprobs":`...)
	if x.q.promptTop >= 0 {
		b = x.promptLogprobs(b)
	} else {
		b = append(b, "null"...)
	}
	return append(b, '}')
}

// tokenLogprobs appends the log-probs of vLLM's /inference/v1/generate: tokens by id.
func (x *exchange) tokenLogprobs(b []byte) []byte {
	b = append(b, `{"content":[`...)
	for k, id := range x.a.IDs {
		if k > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"token_id":`...), int64(id), 10)
		b = append(x.appendLogProb(append(b, `,"logprob":`...), k), `,"rank":1,"top_logprobs":[`...)
		for i := range x.q.top {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, `{"token_id":`...), int64(id)+int64(i), 10)
			b = appendFloat(append(b, `,"logprob":`...), x.logProb(k)-float64(i))
			b = append(strconv.AppendInt(append(b, `,"rank":`...), int64(i+1), 10), '}')
		}
		b = append(b, "]}"...)
	}
	return append(b, "]}"...)
}
