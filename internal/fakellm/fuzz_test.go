package fakellm_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"hermes/internal/fakellm"
)

// requestFuzz checks that whatever is asked is answered with valid JSON, that a body which
// encoding/json takes is not refused as unreadable JSON, and that one without an object is.
func requestFuzz(t *testing.T, body []byte) {
	s, err := fakellm.New(fakellm.Options{MaxBody: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/generate", "/inference/v1/generate"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", path, bytes.NewReader(body)))
		streamed := bytes.HasPrefix(w.Body.Bytes(), []byte("data: "))
		if !streamed && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %q: answer %q", path, body, w.Body)
		}
		var o map[string]json.RawMessage
		if json.Unmarshal(body, &o) == nil && bytes.Contains(w.Body.Bytes(), []byte("not a valid JSON object")) && o != nil &&
			o["messages"] == nil && o["hermes_script"] == nil && o["sampling_params"] == nil && o["stop"] == nil &&
			o["prompt"] == nil && o["input_ids"] == nil && o["token_ids"] == nil && o["text"] == nil {
			t.Fatalf("%s: valid JSON %q was refused: %s", path, body, w.Body)
		}
		if w.Code == 200 && !bytes.Contains(body, []byte("{")) {
			t.Fatalf("%s: %q was answered", path, body)
		}
	}
}

// BenchmarkPlain is one plain request with 12 kB of messages, without the network.
func BenchmarkPlain(b *testing.B) {
	s, err := fakellm.New(fakellm.Options{Default: []fakellm.Turn{{Content: "fine", Repeat: true}}})
	if err != nil {
		b.Fatal(err)
	}
	var msgs []any
	for range 24 {
		msgs = append(msgs, obj{"role": "user", "content": string(bytes.Repeat([]byte("some words\n"), 44))})
	}
	body, err := json.Marshal(obj{"model": "m", "messages": msgs})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(body)))
	}
}
