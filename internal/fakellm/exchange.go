package fakellm

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"hermes/internal/fakellm/model"
	"hermes/internal/fakellm/rawjson"
)

// exchange is one request on its way through the server.
type exchange struct {
	s       *Server
	w       http.ResponseWriter
	ctx     context.Context
	q       *request
	dig     digest
	dice    model.Dice
	a       *model.Answer
	more    []*model.Answer // those to the other prompts of a list
	entry   Entry
	limited bool

	version string  // of the weights, as they were when the answer was written
	line    []int32 // prompt and answer, for the log-probs

	first, rest time.Duration // to the first token; of generation
}

func (x *exchange) run(before tally, flying int64) {
	s := x.s
	if s.opt.Limit > 0 && flying > int64(s.opt.Limit) {
		x.limited = true
		x.tooMany()
		return
	}
	t, err := s.model.Turn(&x.q.Ask, int(before.answered))
	if err != nil {
		x.refuse("", err.Error())
		return
	}
	x.entry.Fault = s.faults.draw(x.dice.Float())
	if t.Fault != "" {
		x.entry.Fault = ""
		if times := max(t.FaultTimes, 1); t.FaultTimes < 0 || before.asked < uint32(times) {
			x.entry.Fault = t.Fault
		}
	}
	if !x.q.tokens() && slices.Contains(TokenFaultNames(), x.entry.Fault) {
		x.entry.Fault = ""
	}
	if x.early() {
		return
	}
	x.a = s.model.Answer(&x.q.Ask, t, x.dig.low())
	for _, q := range x.q.more {
		t, err := s.model.Turn(&q.Ask, 0)
		if err != nil {
			x.refuse("", err.Error())
			return
		}
		x.more = append(x.more, s.model.Answer(&q.Ask, t, q.digest().low()))
	}
	if x.tooLong() {
		return
	}
	switch x.entry.Fault {
	case FaultEmpty:
		x.a.Content, x.a.Reasoning, x.a.Calls, x.a.Finish = "", "", nil, "stop"
		x.a.IDs, x.a.Text, x.a.Out = nil, "", 0
	case FaultFinish:
		x.a.Finish = "error"
	case FaultAbort:
		x.a.IDs, x.a.Finish = x.a.IDs[:len(x.a.IDs)/2], "abort"
		x.a.Text, x.a.Out = s.opt.Tokenizer.Decode(x.a.IDs), len(x.a.IDs)
	case FaultBadID:
		x.a.IDs = append(slices.Clone(x.a.IDs[:len(x.a.IDs)-1]), 1<<30)
	case FaultPrompt:
		x.a.PromptIDs = append([]int32{0}, x.a.PromptIDs...)
		x.a.Prompt++
	}
	x.version = *s.weights.Load()
	x.first, x.rest = s.opt.Latency.Spans(&x.dice, x.a.Prompt, x.a.Out)
	x.first += x.a.Delay
	if c := s.opt.Capacity; c > 0 && s.opt.Degrade > 0 && flying > int64(c) {
		slower := 1 + s.opt.Degrade*(float64(flying)/float64(c)-1)
		x.first, x.rest = time.Duration(float64(x.first)*slower), time.Duration(float64(x.rest)*slower)
	}
	if !x.acquire() {
		return
	}
	defer x.release()
	x.answer()
}

// early answers with the faults that come before any work.
func (x *exchange) early() bool {
	switch x.entry.Fault {
	case Fault429:
		x.tooMany()
	case Fault500:
		x.status(500, "server_error", "The server had an error while processing your request. Sorry about that!")
	case Fault503:
		x.status(503, "server_error", "The engine is currently overloaded, please try again later.")
	case Fault502:
		x.entry.Status = 502
		x.w.Header().Set("Content-Type", "text/html")
		x.w.WriteHeader(502)
		_, _ = x.w.Write([]byte("<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>\r\n"))
	case FaultReset:
		x.entry.Status = 0
		x.reset()
	case FaultStall:
		x.w.Header().Set("Content-Type", "application/json")
		x.w.WriteHeader(200)
		x.flush()
		<-x.ctx.Done()
	default:
		return false
	}
	return true
}

func (x *exchange) status(code int, kind, message string) {
	x.entry.Status = code
	x.s.fail(x.w, code, kind, "", message)
}

func (x *exchange) tooMany() {
	if d := x.s.opt.RetryAfter; d > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(int((d+time.Second-1)/time.Second)))
	}
	x.entry.Status = 429
	x.s.fail(x.w, 429, "requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again later.")
}

func (x *exchange) refuse(code, message string) {
	x.entry.Status, x.entry.Fault = 400, ""
	x.s.log.refuse()
	x.s.fail(x.w, 400, "invalid_request_error", code, message)
}

// tooLong refuses a context beyond the limit in OpenAI's words.
func (x *exchange) tooLong() bool {
	limit, want := x.s.opt.ContextLength, max(x.q.MaxTokens, 0)
	if limit == 0 || x.a.Prompt+want <= limit {
		return false
	}
	if f := x.s.ways.overlong; f != nil {
		status, kind, code, message := f(limit, x.a.Prompt, want)
		x.entry.Status, x.entry.Fault = status, ""
		x.s.log.refuse()
		x.s.fail(x.w, status, kind, code, message)
		return true
	}
	msg := fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. "+
		"Please reduce the length of the messages.", limit, x.a.Prompt)
	if want > 0 {
		msg = fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). "+
			"Please reduce the length of the messages or completion.", limit, x.a.Prompt+want, x.a.Prompt, want)
	}
	x.refuse("context_length_exceeded", msg)
	return true
}

// acquire waits for a place among those that are worked on. It returns false when the
// client gave up.
func (x *exchange) acquire() bool {
	if x.s.slots != nil {
		x.s.waiting.Add(1)
		select {
		case x.s.slots <- struct{}{}:
			x.s.waiting.Add(-1)
		case <-x.ctx.Done():
			x.s.waiting.Add(-1)
			return false
		}
	}
	x.s.running.Add(1)
	return true
}

func (x *exchange) release() {
	x.s.running.Add(-1)
	if x.s.slots != nil {
		<-x.s.slots
	}
}

// sleep waits; it returns false when the client gave up.
func (x *exchange) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.ctx.Done():
		return false
	}
}

// reset closes the connection so that the client sees a reset.
func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 and recorders: the next best
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the client sees an end, not a reset
	}
	_ = conn.Close() // nothing was sent that could be lost
}

func (x *exchange) flush() {
	_ = http.NewResponseController(x.w).Flush() // a recorder needs none
}

// answer writes the answer, plain or as a stream, with the fault that was drawn.
func (x *exchange) answer() {
	if x.entry.Fault == FaultErrorIn200 {
		if !x.sleep(x.first) {
			return
		}
		if x.q.stream {
			x.w.Header().Set("Content-Type", "text/event-stream")
			_, _ = x.w.Write([]byte("data: {\"error\":{\"message\":\"Provider returned error\",\"code\":502},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n"))
			return
		}
		send(x.w, 200, []byte(`{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"upstream overloaded"}}}`))
		return
	}
	var whole bool
	if x.q.stream && (x.q.form == formChat || x.q.form == formCompletion) {
		whole = x.stream()
	} else {
		whole = x.sleep(x.first+x.rest) && x.deliver(x.body())
	}
	x.entry.Complete = whole && x.ctx.Err() == nil && harmless(x.entry.Fault)
	if s := x.s; s.opt.KeepTokens && x.q.tokens() {
		x.entry.Prompt, x.entry.Sampled, x.entry.Finish = x.a.PromptIDs, x.a.IDs, x.a.Finish
		for k := range x.a.IDs {
			x.entry.LogProbs = append(x.entry.LogProbs, x.logProb(k))
		}
		x.entry.Version = x.version
	}
	if x.entry.Complete {
		x.s.promptTokens.Add(int64(x.a.Prompt))
		x.s.outTokens.Add(int64(x.a.Out * x.q.n))
	}
}

// deliver writes a plain body. It returns whether all of it went out.
func (x *exchange) deliver(body []byte) bool {
	if x.entry.Fault == FaultWrapped {
		body = rawjson.Quote(nil, string(rawjson.Quote(nil, string(body))))
	}
	switch x.entry.Fault {
	case FaultTruncated:
		return send(x.w, 200, body[:len(body)*2/3])
	case FaultInvalid:
		return send(x.w, 200, []byte("upstream connect error or disconnect/reset before headers"))
	case FaultCut:
		x.w.Header().Set("Content-Type", "application/json")
		x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = x.w.Write(body[:len(body)/2])
		x.flush()
		panic(http.ErrAbortHandler) // closes the connection; deferred calls still book the request
	case FaultSlow:
		x.w.Header().Set("Content-Type", "application/json")
		x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		for len(body) > 0 {
			n := min(len(body), max(64, len(body)/8))
			if _, err := x.w.Write(body[:n]); err != nil {
				return false
			}
			x.flush()
			body = body[n:]
			if len(body) > 0 && !x.sleep(x.s.opt.SlowStep) {
				return false
			}
		}
		return true
	}
	return send(x.w, 200, body)
}

// each calls write for every answer of a completion: n to each prompt, in order.
func (x *exchange) each(write func(y *exchange, index int)) {
	index := 0
	one := func(y *exchange) {
		for range x.q.n {
			write(y, index)
			index++
		}
	}
	one(x)
	for i, a := range x.more {
		y := *x
		y.q = x.q.more[i]
		y.a = a
		y.dig = x.q.more[i].digest()
		y.line = nil
		one(&y)
	}
}
