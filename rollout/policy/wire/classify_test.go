package wire_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"hermes/rollout/policy/wire"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		status int
		body   string
		want   wire.Kind
	}{
		{
			400,
			`{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}`,
			wire.Overlong,
		},
		{
			400,
			`{"object":"error","message":"The decoder prompt (length 40000) is longer than the maximum model length of 32768.","type":"BadRequestError","code":400}`,
			wire.Overlong,
		},
		{400, `{"object":"error","message":"The input (33000 tokens) is longer than the model's context length (32768 tokens).","code":400}`, wire.Overlong},
		{
			400,
			`{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}`,
			wire.Overlong,
		},
		{500, `{"error":"prompt too long; exceeded max context length by 20 tokens"}`, wire.Overlong},
		{
			400,
			`{"error":"Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Tokens to keep from the initial prompt is greater than the context length"}`,
			wire.Overlong,
		},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, wire.Overlong},
		{400, `{"error":{"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","code":400}}`, wire.Overlong},
		{400, `{"error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, wire.Overlong},
		{400, `{"error":{"message":"Please reduce the length of the messages or completion."}}`, wire.Overlong},
		{400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 131072"}}`, wire.Overlong},
		{400, `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"}}`, wire.Overlong},
		{413, `Request Entity Too Large`, wire.Overlong},
		{
			429,
			`{"error":{"message":"Rate limit reached for gpt in organization: Limit 30000 tokens per min. Please reduce the length of the messages"}}`,
			wire.Limited,
		},
		{200, `{"error":{"message":"Rate limit exceeded","code":429}}`, wire.Limited},
		{200, `{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"boom"}}}`, wire.Unavailable},
		{200, `{"error":"something broke"}`, wire.Unavailable},
		{200, `{"error":{"message":"This endpoint's maximum context length is 10 tokens","code":400}}`, wire.Overlong},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, wire.Limited},
		{503, ``, wire.Unavailable},
		{503, `{"error":{"message":"The server is overloaded"}}`, wire.Limited},
		{502, `<html><body><h1>502 Bad Gateway</h1></body></html>`, wire.Unavailable},
		{408, ``, wire.Unavailable},
		{401, `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`, wire.Auth},
		{403, `forbidden`, wire.Auth},
		{
			403,
			`{"error":{"message":"Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out","type":"Forbidden","code":403}}`,
			wire.Rejected,
		},
		{403, `{"detail":"This endpoint is disabled"}`, wire.Rejected},
		{403, `{"error":{"message":"Your account is disabled"}}`, wire.Auth},
		{
			501,
			`{"error":{"code":501,"message":"This server does not support completions. Start it with --completions","type":"not_supported_error"}}`,
			wire.Rejected,
		},
		{405, `{"detail":"Method Not Allowed"}`, wire.Rejected},
		{403, `{"error":{"message":"Your input was flagged","code":403}}`, wire.Rejected},
		{402, `{"error":{"message":"Insufficient credits"}}`, wire.Auth},
		{429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, wire.Auth},
		{404, `{"error":{"message":"The model 'x' does not exist.","code":"model_not_found"}}`, wire.NoModel},
		{404, `{"error":{"message":"model \"x\" not found, try pulling it first"}}`, wire.NoModel},
		{400, `{"error":{"message":"x is not a valid model ID","code":400}}`, wire.NoModel},
		{404, `404 page not found`, wire.Rejected},
		{400, `{"error":{"message":"Invalid 'temperature'"}}`, wire.Rejected},
		{422, `{"detail":[{"msg":"field required"}]}`, wire.Rejected},
		{301, ``, wire.Rejected},
	}
	for _, tt := range tests {
		e := wire.Classify(tt.status, nil, []byte(tt.body), time.Time{})
		if e.Kind != tt.want || e.Err == nil || len(e.Err.Error()) < 10 {
			t.Errorf("%d %s: %v, want %s", tt.status, tt.body, e, tt.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "-3", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After", "soon", 0},
		{"Retry-After", now.Add(time.Minute).Format(http.TimeFormat), time.Minute},
		{"Retry-After", now.Add(-time.Minute).Format(http.TimeFormat), 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"X-Ratelimit-Reset", fmt.Sprint(now.Add(5 * time.Second).UnixMilli()), 5 * time.Second},
		{"X-Ratelimit-Reset", "30", 0},
	}
	for _, tt := range tests {
		if got := wire.RetryAfter(http.Header{tt.name: {tt.value}}, now); got != tt.want {
			t.Errorf("%s: %s is %s, want %s", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestEvents(t *testing.T) {
	tests := []struct {
		in, want string
		err      bool
	}{
		{in: "data: a\n\ndata:b\r\n\r\n", want: "a|b|"},
		{in: ": c\nevent: x\ndata: a\ndata: b\n\n: ping\n\n", want: "a\nb|"},
		{in: "data: a\n\ndata: [DONE]\n\ndata: b\n\n", want: "a|"},
		{in: "data: a\n", want: "a|"},
		{in: "data: a\n\ndata: cut", want: "a|", err: true},
		{in: strings.Repeat("x", 5000), err: true},
		{in: "", want: ""},
		{in: "\ufeffdata: a\n\n", want: "a|"},
		{in: "\ufeff\ufeffdata: a\n\n", err: true},
		{in: "data: a\rdata: b\r\rdata: c\n\rdata: d\r\n\r\n", want: "a\nb|c|d|"},
		{in: "data:\n\ndata\n\ndata: \n\ndata: a\n\n", want: "a|"},
		{in: "data:\ndata:\n\ndata: a\n\n", want: "\n|a|"},
		{in: "data: a\n\ndata: [DONE]", want: "a|"},
		{in: "data: a\n{\"error\":1}\n\n", want: "a|{\"error\":1}|"},
		{in: "data: a\n\ndata:  [DONE]\t\n\ndata: b\n\n", want: "a|"},
		{in: "data: a\n\ndata: \"[DONE]\"\n\ndata: b\n\n", want: "a|"},
		{in: "event: error\ndata: {\"message\":\"x\"}\n\ndata: b\n\n", err: true},
		{in: "event: error\ndata: {\"choices\":[]}\n\ndata: b\n\n", want: "{\"choices\":[]}|b|"},
		{in: "event: error\n\ndata: b\n\n", want: "b|"},
		{in: "data: a\n\nwhat is this\n\n", want: "a|", err: true},
		{in: "DATA: a\n\nData: b\ndaTa:c\n\nDATA\n\n", want: "a|b\nc|"},
		{in: "data: a\n\nfoo: {\"choices\":[]}\n\n", want: "a|", err: true},
		{in: "event: {\"choices\":[]}\n\n", err: true},
		{in: "foo: {\"x\":1}\n: {\"choices\":[]}\ndata: a\n\n", want: "a|"},
		{in: "data: {\"a\":1}\ndata: {\"b\":\ndata: 2}\ndata: \ndata: {\"c\":3}\ndata: [DONE]\n", want: "{\"a\":1}|{\"b\":\n2}\n|{\"c\":3}|"},
		{in: "data: [\ndata: {}\ndata: {}\n\n", want: "[\n{}\n{}|"},
		{in: "event: ping\ndata: ping\n\ndata: a\n\nevent: Heartbeat\ndata: at 12:00\n\nevent: keep-alive\n\ndata: b\n\ndata: ping\n\n", want: "a|b|"},
		{in: "event: ping\ndata: {\"a\":1}\n\nevent: ping\ndata: [DONE]\n\ndata: b\n\n", want: "{\"a\":1}|"},
		{in: "event: ping\ndata: ping\ndata: {\"a\":1}\n\n", want: "{\"a\":1}|"},
		{in: "data: a\n\ndata: {\"x\":1}", want: "a|{\"x\":1}|"},
		{in: "data: {\"x\":\ndata: 1}", want: "{\"x\":\n1}|"},
		{in: "data: a\n\n: by", want: "a|"},
		{in: "data: a\n\n{\"x\":1}", want: "a|{\"x\":1}|"},
		{in: "data: a\n\ndata: {\"x\":", want: "a|", err: true},
		{in: "data: a\n\nda", want: "a|", err: true},
		{in: "data: a\n\n\ufeffdata: b\n\ufeff\n\ufeffdata: [DONE]", want: "a|b|"},
	}
	for _, tt := range tests {
		var got strings.Builder
		failed := false
		for data, err := range wire.Events(strings.NewReader(tt.in), 4096) {
			failed = err != nil
			if !failed {
				got.WriteString(string(data) + "|")
			}
		}
		if got.String() != tt.want || failed != tt.err {
			t.Errorf("%.40q: %q, failed %v; want %q, %v", tt.in, got.String(), failed, tt.want, tt.err)
		}
	}
}

// plainEvents reads a whole stream as the standard says, slowly, and then as Events goes
// beyond it; ok is false where it holds what Events refuses, or takes as no field.
func plainEvents(s string) (list []string, ok bool) {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	lines := strings.Split(s, "\n")
	if lines[len(lines)-1] != "" {
		return nil, false
	}
	var data []string
	kind := ""
	for i, line := range lines {
		line = strings.TrimPrefix(line, "\ufeff")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case strings.ContainsFunc(name, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r)
		}), len(name) > 40:
			return nil, false
		case line == "" || i == len(lines)-1:
			for _, text := range plainSplit(data, kind) {
				if plainDone(text) {
					return list, true
				}
				list = append(list, text)
			}
			data, kind = nil, ""
		case strings.ToLower(name) == "data":
			data = append(data, value)
			if len(plainSplit(data, kind)) > 1 { // what came before had its own type
				first := plainSplit(data[:len(data)-1], kind)
				list, data, kind = append(list, first...), data[len(data)-1:], ""
			} else if value != "" && (value[0] == '{' || plainDone(value)) && len(data) > 1 && plainSplit(data[:len(data)-1], kind) == nil &&
				strings.Join(data[:len(data)-1], "\n") != "" {
				data, kind = data[len(data)-1:], ""
			}
		case name != "" && strings.HasPrefix(strings.TrimSpace(value), "{") && strings.Contains(value, `"choices"`):
			return nil, false
		case name == "event" && strings.TrimSpace(value) == "error":
			return nil, false
		case name == "event":
			kind = value
		}
	}
	return list, true
}

// plainDone says that data is the end mark, alone but for blanks and quotes.
func plainDone(s string) bool { return len(s) <= 16 && strings.Trim(s, " \t\"") == "[DONE]" }

// plainSplit are the events of the data lines of one: without what keeps the line open,
// and with each object for itself that has another, or the end mark, behind it.
func plainSplit(data []string, kind string) (list []string) {
	idle := func(s string) bool {
		s = strings.ToLower(strings.TrimSpace(s))
		return s == "ping" || s == "keep-alive" || s == "keepalive" || s == "keep_alive" || s == "heartbeat"
	}
	text := strings.Join(data, "\n")
	if text == "" || (idle(kind) || idle(text)) && !strings.Contains(text, "{") && !plainDone(text) && !json.Valid([]byte(text)) {
		return nil
	}
	for i := 1; i < len(data); i++ {
		head := strings.Join(data[:i], "\n")
		if (strings.HasPrefix(data[i], "{") || plainDone(data[i])) && strings.HasPrefix(strings.TrimSpace(head), "{") && json.Valid([]byte(head)) {
			return append([]string{head}, plainSplit(data[i:], "")...)
		}
	}
	return []string{text}
}

// However a stream is cut into reads, its events are the same, and those of the standard.
func FuzzEvents(f *testing.F) {
	f.Add("data: a\n\ndata: {\"x\":1}\r\n\r\n: c\n\n", uint8(3))
	f.Add("\ufeffdata:\rdata:b\r\rdata\n\r\ndata: [DONE]\n\n", uint8(1))
	f.Add("event: ping\nDATA: ping\ndata: {}\ndata: {\"b\":\ndata: 1}\ndata: [DONE]\n", uint8(4))
	f.Add("\ufeffevent: heartbeat\ndata: 1\n\n\ufeffdata: ping\n\nfoo: {\"choices\":1}\n", uint8(5))
	f.Add("event: x\ndata: a\n{\"error\":1}\ndata: [DONE]", uint8(2))
	f.Fuzz(func(t *testing.T, s string, step uint8) {
		read := func(r io.Reader) string {
			var b strings.Builder
			for data, err := range wire.Events(r, 1<<16) {
				fmt.Fprintf(&b, "%q %v\n", data, err)
			}
			return b.String()
		}
		whole, pieces := read(strings.NewReader(s)), read(&slow{s, int(step%7) + 1})
		if whole != pieces {
			t.Fatalf("%q: %s but in pieces %s", s, whole, pieces)
		}
		if list, ok := plainEvents(s); ok && len(s) < 1<<16 {
			var want strings.Builder
			for _, data := range list {
				fmt.Fprintf(&want, "%q %v\n", data, nil)
			}
			if whole != want.String() {
				t.Fatalf("%q: %s, the standard says %s", s, whole, want.String())
			}
		}
	})
}

type slow struct {
	s    string
	step int
}

func (r *slow) Read(p []byte) (int, error) {
	if r.s == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.step)], r.s)
	r.s = r.s[n:]
	return n, nil
}

// No error body, however odd, breaks the classification.
func FuzzClassify(f *testing.F) {
	f.Add(400, `{"error":{"message":"x","code":400}}`)
	f.Add(200, `{"error":"x"}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		e := wire.Classify(status, nil, []byte(body), time.Time{})
		if e.Kind == "" || e.Err == nil || len(e.Error()) > 2000 {
			t.Fatalf("%d %q: %v", status, body, e)
		}
	})
}

// BenchmarkEvents reads events of one data line, as nearly all are.
func BenchmarkEvents(b *testing.B) {
	in := strings.Repeat("data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n", 1000)
	for b.Loop() {
		n := 0
		for range wire.Events(strings.NewReader(in), 1<<20) {
			n++
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
}
