package chat

import (
	"encoding/json"
	"reflect"
	"testing"
)

const usualPiece = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" all work and no play "},"logprobs":null,"finish_reason":null}]}`

// FuzzScanReply: what the scanner reads is what the library reads.
func FuzzScanReply(f *testing.F) {
	for _, s := range []string{usualPiece,
		`{"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"extra_content":{"a":1},"function":null}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"name":"f","arguments":{}}]}}]}`,
		`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":"4"}}`, `{"choices":[{"delta":null,"message":{"content":null,"refusal":null}}]}`,
		`{"choices":null,"error":{"message":"x"}}`, `{"choices":[{"text":"a","index":"1","finish_reason":{"type":"stop"}}]}`, `{"Choices":[]}`, `{"choices":[{"delta":{"content":"a","content":"b"}}]}`,
		`{"choices":[{"delta":{"reasoning":"a","reasoning_details":[{"type":"t"}]},"finish_reason":"stop","native_finish_reason":1}],"x_groq":{}}`,
		"{\"choices\":[{\"delta\":{\"content\":\"\xff\\ud83d\"}}]}", `{"model":1,"choices":[{"usage":{},"tool_calls":[],"error":null}]} x`, `{"choices":[null]}`, `[]`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := scanReply(raw)
		if !ok {
			return
		}
		var want reply
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("%q: the library: %v", raw, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, the library reads %+v", raw, got, want)
		}
	})
}

// TestUsualPiecesAreScanned: pieces as servers send them are not left to the library.
func TestUsualPiecesAreScanned(t *testing.T) {
	for _, s := range []string{
		usualPiece,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]},"finish_reason":null}],"usage":null}`,
	} {
		if _, ok := scanReply([]byte(s)); !ok {
			t.Errorf("left to the library: %s", s)
		}
	}
}

func BenchmarkReadPiece(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readReply([]byte(usualPiece)); err != nil {
			b.Fatal(err)
		}
	}
}
