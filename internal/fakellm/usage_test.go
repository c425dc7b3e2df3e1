package fakellm_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hermes/internal/fakellm"
)

// pairs is a tokenizer with one id for two bytes, an odd one at the end, and 1<<17 as end.
type pairs struct{}

func (pairs) Encode(text string) (ids []int32) {
	for len(text) > 0 {
		if rest, ok := strings.CutPrefix(text, fakellm.ChatML.End); ok {
			ids, text = append(ids, 1<<17), rest
			continue
		}
		n := min(2, len(text))
		if i := strings.Index(text, fakellm.ChatML.End); i > 0 {
			n = min(n, i)
		}
		id := int32(text[0]) << 8
		if n == 2 {
			id |= int32(text[1])
		}
		ids, text = append(ids, id), text[n:]
	}
	return ids
}

func (pairs) Decode(ids []int32) string {
	var b []byte
	for _, id := range ids {
		switch {
		case id == 1<<17:
			b = append(b, fakellm.ChatML.End...)
		case id&255 == 0:
			b = append(b, byte(id>>8))
		default:
			b = append(b, byte(id>>8), byte(id))
		}
	}
	return string(b)
}

func (pairs) End() int32 { return 1 << 17 }

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// usageOf is the usage of an answer, plain or streamed, and the ids that it brought.
func usageOf(t *testing.T, raw []byte) (u usage, prompt, ids []int32) {
	t.Helper()
	found := false
	for line := range strings.SplitSeq(string(raw), "\n") {
		line = strings.TrimPrefix(line, "data: ")
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var a struct {
			Usage     *usage
			PromptIDs []int32 `json:"prompt_token_ids"`
			Choices   []struct {
				IDs       []int32 `json:"token_ids"`
				PromptIDs []int32 `json:"prompt_token_ids"`
			}
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if a.Usage != nil {
			u, found = *a.Usage, true
		}
		prompt = append(prompt, a.PromptIDs...)
		for _, c := range a.Choices {
			ids, prompt = append(ids, c.IDs...), append(prompt, c.PromptIDs...)
		}
	}
	if !found {
		t.Fatalf("no usage: %s", raw)
	}
	return u, prompt, ids
}

// The same answer has the same usage however it is asked for, and it counts the ids.
func TestUsageIsOne(t *testing.T) {
	tools := []obj{{"type": "function", "function": obj{"name": "add", "description": "a \"sum\" <b>é", "parameters": obj{"type": "object"}}},
		{"type": "function", "function": obj{"name": "now"}}}
	talk := []obj{
		{"role": "system", "content": "Be brief.\tAlways \\ and \u2028 \"quoted\"."},
		{"role": "user", "content": []obj{{"type": "text", "text": "add 日本\n"}, {"type": "text", "text": "😀 <|im_end|>"}}},
		{"role": "assistant", "content": nil, "reasoning_content": "so\nhm", "tool_calls": []obj{
			{"id": "1", "type": "function", "function": obj{"name": "add", "arguments": "{\"a\": \"x\\n\"}"}},
			{"id": "2", "type": "function", "function": obj{"name": "now", "arguments": "{}"}}}},
		{"role": "tool", "tool_call_id": "1", "content": "3\n"},
		{"role": "assistant", "content": "It is 3.\n", "tool_calls": []obj{{"id": "3", "type": "function", "function": obj{"name": "now", "arguments": "{}"}}}},
		{"role": "tool", "tool_call_id": "3", "content": json.RawMessage(`"\ud83d\ude00 \ud83d \u0007\\\\n \u003c|im_end|>"`)},
		{
			"role":       "assistant",
			"content":    json.RawMessage(`[{"text": "a\n", "type": "text"}]`),
			"tool_calls": []obj{{"function": obj{"name": "nöw", "arguments": "{}"}}},
		},
		{"role": "assistant", "content": json.RawMessage(`"\ude00"`), "tool_calls": []obj{}},
		{"role": "assistant", "content": "ok", "tool_calls": []obj{{"function": obj{"name": "n<w", "arguments": "{}"}}}},
		{"role": "developer", "content": ""},
		{"role": "user", "content": "und nochmal ü"},
	}
	said := fakellm.Turn{
		Reasoning: "Let me see: é",
		Content:   "Ich rechne \"nach\".\n",
		Calls:     []fakellm.Call{{Name: "add", Arguments: json.RawMessage(`{"a":"ü\n"}`)}},
		Repeat:    true,
	}
	plain := fakellm.Turn{Content: "fine, thanks", Repeat: true}
	for _, like := range append([]string{""}, fakellm.LikeNames()...) {
		for name, tok := range map[string]fakellm.Tokenizer{"bytes": nil, "pairs": pairs{}} {
			for i, turn := range []fakellm.Turn{said, plain} {
				for _, limit := range []int{0, 1, 7, 30, 60, 1000} {
					t.Run(fmt.Sprint(like, "/", name, "/", i, "/", limit), func(t *testing.T) {
						url, _ := start(t, fakellm.Options{Like: like, Tokenizer: tok, Default: []fakellm.Turn{turn}})
						var first usage
						var sent []byte
						for _, stream := range []bool{false, true} {
							for _, more := range []obj{{"return_token_ids": true},
								{},
								{"logprobs": true},
								{"logprobs": true, "return_token_ids": true},
								{"n": 2}} {
								body := obj{"model": "m", "messages": talk, "tools": tools, "stream": stream, "stream_options": obj{"include_usage": true}}
								if limit < 1000 {
									body["max_completion_tokens"] = limit
								}
								for k, v := range more {
									body[k] = v
								}
								code, raw := post(t, url+"/v1/chat/completions", body)
								if code != 200 {
									t.Fatalf("%d %s", code, raw)
								}
								u, prompt, ids := usageOf(t, raw)
								if more["return_token_ids"] == true && (u.Prompt != len(prompt) || u.Completion != len(ids)) {
									t.Errorf("%v, stream %v: usage %+v for %d and %d ids", more, stream, u, len(prompt), len(ids))
								}
								if more["n"] == 2 {
									u.Completion, u.Details.Reasoning = u.Completion/2, u.Details.Reasoning/2
									u.Total = u.Prompt + u.Completion
								}
								if sent == nil {
									first, sent = u, raw
								}
								if u != first || u.Total != u.Prompt+u.Completion || u.Completion > limit {
									t.Errorf("%v, stream %v: usage %+v, want %+v at most %d", more, stream, u, first, limit)
								}
							}
						}
					})
				}
			}
		}
	}
}

// What is said of a text counts alike as a chat and as a completion.
func TestUsageOfCompletions(t *testing.T) {
	for name, tok := range map[string]fakellm.Tokenizer{"bytes": fakellm.Bytes{}, "pairs": pairs{}} {
		url, _ := start(t, fakellm.Options{Tokenizer: tok, Default: []fakellm.Turn{{Content: "fine, thanks", Repeat: true}}})
		prompt := "<|im_start|>user\nwie geht's?<|im_end|>\n<|im_start|>assistant\n"
		want := usage{Prompt: len(tok.Encode(prompt)), Completion: len(tok.Encode("fine, thanks<|im_end|>"))}
		want.Total = want.Prompt + want.Completion
		for _, stream := range []bool{false, true} {
			for _, ids := range []bool{false, true} {
				more := obj{"stream": stream, "stream_options": obj{"include_usage": true}, "return_token_ids": ids, "max_tokens": 99, "model": "m"}
				for path, key := range map[string]string{"/v1/chat/completions": "messages", "/v1/completions": "prompt"} {
					body := obj{key: any(prompt)}
					if key == "messages" {
						body[key] = user("wie geht's?")
					}
					for k, v := range more {
						body[k] = v
					}
					code, raw := post(t, url+path, body)
					if code != 200 {
						t.Fatalf("%d %s", code, raw)
					}
					u, prompts, out := usageOf(t, raw)
					if u != want || ids && (!slices.Equal(out, tok.Encode("fine, thanks<|im_end|>")) || len(prompts) != want.Prompt) {
						t.Errorf("%s %s, stream %v, ids %v: %+v, want %+v (%d and %d ids)", name, path, stream, ids, u, want, len(prompts), len(out))
					}
				}
			}
		}
	}
}
