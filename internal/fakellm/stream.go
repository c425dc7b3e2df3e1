package fakellm

import (
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"hermes/internal/fakellm/rawjson"
)

// events is a server-sent stream in one buffer; ends holds where each event ends.
type events struct {
	b    []byte
	ends []int
}

func (e *events) begin() { e.b = append(e.b, "data: "...) }
func (e *events) end()   { e.b = append(e.b, "\n\n"...); e.ends = append(e.ends, len(e.b)) }

// pieceSize is how many bytes of text, and idStep how many token ids, an event carries.
const (
	pieceSize = 24
	idStep    = 8
)

// stream writes the answer as server-sent events. It returns whether all went out.
func (x *exchange) stream() bool {
	var e events
	if x.q.form == formChat {
		x.chatEvents(&e)
	} else {
		x.completionEvents(&e)
	}
	if x.q.streamUsage || x.s.ways.always {
		e.begin()
		e.b = x.headOf(e.b)
		choices := ``
		if x.s.ways.always {
			choices = `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`
		}
		e.b = append(x.usage(append(e.b, `,"choices":[`+choices+`],"usage":`...)), '}')
		e.end()
	}
	if !x.sleep(x.first) {
		return false
	}
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	switch x.entry.Fault {
	case FaultTruncated: // the last event is cut and the stream ends as if it were whole
		_, err := x.w.Write(e.b[:len(e.b)-len(e.b[e.start(len(e.ends)-1):])/2])
		return err == nil
	case FaultInvalid:
		_, err := x.w.Write(append(e.b[:e.ends[0]:e.ends[0]], "data: upstream connect error\n\n"...))
		return err == nil
	case FaultCut:
		_, _ = x.w.Write(e.b[:e.ends[(len(e.ends)-1)/2]])
		x.flush()
		panic(http.ErrAbortHandler) // closes the connection; deferred calls still book the request
	}
	e.b = append(e.b, "data: [DONE]\n\n"...)
	e.ends = append(e.ends, len(e.b))
	return x.pace(&e)
}

func (e *events) start(i int) int {
	if i == 0 {
		return 0
	}
	return e.ends[i-1]
}

// pace writes the events over the time of generation.
func (x *exchange) pace(e *events) bool {
	step := x.rest / time.Duration(len(e.ends))
	if x.entry.Fault == FaultSlow {
		step = max(step, x.s.opt.SlowStep)
	}
	if step == 0 {
		_, err := x.w.Write(e.b)
		return err == nil
	}
	for i, end := range e.ends {
		if i > 0 && !x.sleep(step) {
			return false
		}
		if _, err := x.w.Write(e.b[e.start(i):end]); err != nil {
			return false
		}
		x.flush()
	}
	return true
}

func (x *exchange) headOf(b []byte) []byte {
	if x.q.form == formChat {
		return x.head(b, "chatcmpl-", "chat.completion.chunk")
	}
	return x.head(b, "cmpl-", "text_completion")
}

// chunk appends one event with the delta of choice i. ids are the tokens that it carries.
func (x *exchange) chunk(e *events, i int, delta func([]byte) []byte, finish string, ids []int32, at int) {
	e.begin()
	b := x.headOf(e.b)
	b = strconv.AppendInt(append(b, `,"choices":[{"index":`...), int64(i), 10)
	b = append(b, `,"delta":{`...)
	if delta != nil {
		b = delta(b)
	}
	b = append(b, `},"logprobs":`...)
	if x.q.logprobs && len(ids) > 0 {
		b = x.chatLogprobs(b, ids, at)
	} else {
		b = append(b, "null"...)
	}
	b = x.finishOf(b, finish)
	if x.q.returnIDs {
		b = appendIDs(append(b, `,"token_ids":`...), ids)
	}
	b = append(b, "}]"...)
	if x.q.returnIDs && len(e.ends) == 0 {
		b = appendIDs(append(b, `,"prompt_token_ids":`...), x.a.PromptIDs)
	}
	e.b = append(b, '}')
	e.end()
}

func (x *exchange) finishOf(b []byte, finish string) []byte {
	b = append(b, `,"finish_reason":`...)
	if finish == "" {
		return append(b, "null"...)
	}
	return rawjson.Quote(b, finish)
}

// chatEvents writes role, reasoning, content, calls and finish, each in its own events.
func (x *exchange) chatEvents(e *events) {
	field, reasoning, content := x.shown()
	if x.s.ways.comments {
		e.b = append(e.b, ": OPENROUTER PROCESSING\n\n"...)
	}
	for i := range x.q.n {
		x.chunk(e, i, func(b []byte) []byte { return append(b, `"role":"assistant","content":""`...) }, "", nil, 0)
		x.textEvents(e, i, field, reasoning)
		if x.s.ways.details && reasoning != "" {
			x.chunk(e, i, func(b []byte) []byte { return x.reasoningDetails(b, "", true) }, "", nil, 0)
		}
		x.textEvents(e, i, "content", content)
		for k, c := range x.a.Calls {
			if x.s.ways.atOnce {
				x.chunk(e, i, func(b []byte) []byte {
					return append(x.call(append(b, `"tool_calls":[{"index":0,`...), c), "}]"...)
				}, "", nil, 0)
				continue
			}
			x.chunk(e, i, func(b []byte) []byte {
				b = strconv.AppendInt(append(b, `"tool_calls":[{"index":`...), int64(k), 10)
				b = rawjson.Quote(append(b, `,"id":`...), c.ID)
				b = rawjson.Quote(append(b, `,"type":"function","function":{"name":`...), c.Name)
				return append(b, `,"arguments":""}}]`...)
			}, "", nil, 0)
			for rest := c.Args; rest != ""; {
				var piece string
				piece, rest = split(rest)
				x.chunk(e, i, func(b []byte) []byte {
					b = strconv.AppendInt(append(b, `"tool_calls":[{"index":`...), int64(k), 10)
					return append(rawjson.Quote(append(b, `,"function":{"arguments":`...), piece), "}}]"...)
				}, "", nil, 0)
			}
		}
		x.chunk(e, i, nil, x.s.ways.finish(x.a), x.a.IDs, 0) // the ids stand together: vLLM promises deltas, not which
	}
}

func (x *exchange) textEvents(e *events, i int, key, s string) {
	for s != "" {
		var piece string
		piece, s = split(s)
		x.chunk(e, i, func(b []byte) []byte {
			b = append(append(append(b, '"'), key...), `":`...)
			b = rawjson.Quote(b, piece)
			if key == "reasoning" && x.s.ways.details {
				b = x.reasoningDetails(append(b, ','), piece, false)
			}
			return b
		}, "", nil, 0)
	}
}

// split cuts a piece off s between two characters.
func split(s string) (piece, rest string) {
	n := min(pieceSize, len(s))
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// completionEvents writes the sampled tokens step by step; the text follows as soon as
// its characters are complete.
func (x *exchange) completionEvents(e *events) {
	x.each(func(x *exchange, i int) {
		sent := 0 // bytes of the text that went out
		for at := 0; at == 0 || at < len(x.a.IDs); at += idStep {
			upto := min(at+idStep, len(x.a.IDs))
			last := upto == len(x.a.IDs)
			ready := min(len(x.s.opt.Tokenizer.Decode(x.a.IDs[:upto])), len(x.a.Text))
			for ready < len(x.a.Text) && ready > sent && !utf8.RuneStart(x.a.Text[ready]) {
				ready--
			}
			finish := ""
			if last {
				ready, finish = len(x.a.Text), x.a.Finish
			}
			text := x.a.Text[sent:max(ready, sent)]
			if at == 0 {
				text = x.echoed() + text
			}
			x.completionChunk(e, i, text, x.a.IDs[at:upto], at, finish)
			sent = max(ready, sent)
		}
	})
}

func (x *exchange) completionChunk(e *events, i int, text string, ids []int32, at int, finish string) {
	e.begin()
	b := x.headOf(e.b)
	b = strconv.AppendInt(append(b, `,"choices":[{"index":`...), int64(i), 10)
	b = rawjson.Quote(append(b, `,"text":`...), text)
	b = x.legacyLogprobs(append(b, `,"logprobs":`...), ids, at)
	b = append(x.finishOf(b, finish), `,"stop_reason":null`...)
	if x.q.returnIDs {
		b = appendIDs(append(b, `,"token_ids":`...), ids)
		if at == 0 {
			b = appendIDs(append(b, `,"prompt_token_ids":`...), x.a.PromptIDs)
		}
	}
	e.b = append(b, "}]}"...)
	e.end()
}
