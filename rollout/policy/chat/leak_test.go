package chat_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// store is a tape that shows what was kept.
type store struct{ kept [][]byte }

func (s *store) Lookup([32]byte) ([]byte, bool) { return nil, false }

func (s *store) Store(_ [32]byte, raw []byte) error { s.kept = append(s.kept, raw); return nil }

// TestLeaked has a server that answers with the key of the request, in each place and
// spelling, whole and in pieces of each size: that is no answer. Nothing of it is kept, the key
// is never shown, and it is not asked for again. A word in the place of a key changes nothing.
func TestLeaked(t *testing.T) {
	const key = "sk-q7/Zx&k+22wt=A1b2C3"
	text := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	said := map[string]func(string) string{
		"content":       func(k string) string { return `"content":` + text("the key is "+k+" as you see") },
		"reasoning":     func(k string) string { return `"content":"x","reasoning_content":` + text("hm, "+k) },
		"thinking tags": func(k string) string { return `"content":` + text("<think>"+k+"</think>x") },
		"arguments": func(k string) string {
			return `"content":"","tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"ls","arguments":` + text(`{"a":`+text(k)+`}`) + `}}]`
		},
		"name of a call": func(k string) string {
			return `"content":"","tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":` + text(k) + `,"arguments":"{}"}}]`
		},
		"id of a call": func(k string) string {
			return `"content":"","tool_calls":[{"index":0,"id":` + text(k) + `,"type":"function","function":{"name":"ls","arguments":"{}"}}]`
		},
		"a field that is not read": func(k string) string { return `"content":"x","note":` + text(k) },
	}
	spelled := map[string]func(string) string{
		"plain":  func(k string) string { return k },
		"hex":    func(k string) string { return hex.EncodeToString([]byte(k)) },
		"base64": func(k string) string { return base64.StdEncoding.EncodeToString([]byte("xy" + k + "z")) },
	}
	for place, say := range said {
		for how, spell := range spelled {
			for _, way := range []string{"whole", "escaped", "stream", "stream of pieces"} {
				for _, k := range []string{key, "sk-no-key-required"} {
					if place == "a field that is not read" && way == "stream of pieces" {
						continue // it has none
					}
					t.Run(strings.Join([]string{place, how, way, k[:5]}, "/"), func(t *testing.T) {
						var asked atomic.Int64
						s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							asked.Add(1)
							k := spell(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
							message := say(k)
							switch way {
							case "escaped":
								message = strings.ReplaceAll(message, "/", `\/`)
								message = strings.ReplaceAll(message, "q7", `\u00717`)
								fallthrough
							case "whole":
								fmt.Fprintf(w, `{"choices":[{"index":0,"message":{%s},"finish_reason":"stop"}]}`, message)
							default:
								w.Header().Set("Content-Type", "text/event-stream")
								for _, delta := range pieces(t, message, way == "stream of pieces") {
									fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
								}
								fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
							}
						}))
						defer s.Close()
						w, err := wire.New(wire.Options{Bases: []string{s.URL + "/v1"}, Keys: []string{k}, KeyNames: []string{"MY_KEY"}})
						if err != nil {
							t.Fatal(err)
						}
						defer w.Close()
						p, err := chat.New(w, chat.Options{Model: "m"})
						if err != nil {
							t.Fatal(err)
						}
						tape := &store{}
						sampler, err := p.Open([]trajectory.ToolSpec{{Name: "ls", Parameters: json.RawMessage(`{"type":"object"}`)}},
							policy.Options{Tape: tape})
						if err != nil {
							t.Fatal(err)
						}
						defer sampler.Close()
						var shown [2]strings.Builder
						var on func(policy.Chunk)
						if strings.HasPrefix(way, "stream") {
							on = func(c policy.Chunk) {
								shown[0].WriteString(c.Content)
								shown[1].WriteString(c.Reasoning)
							}
						}
						turn, err := sampler.Next(t.Context(), trajectory.Prefix{}, []trajectory.Message{trajectory.Text(trajectory.User, "hi")}, on)
						if k != key {
							if err != nil || on != nil && shown[0].String() != turn.Sampled.Message.Content() && place != "arguments" &&
								place != "name of a call" &&
								place != "id of a call" {
								t.Fatalf("a word in the place of a key: %v, shown %q", err, shown[0].String())
							}
							return
						}
						var e *policy.Error
						if !errors.As(err, &e) || e.Kind != policy.Leaked || e.Retryable() ||
							!strings.Contains(err.Error(), "the key of the request (MY_KEY)") {
							t.Errorf("error %v, turn %+v", err, turn.Sampled.Message)
						}
						if asked.Load() != 1 || len(tape.kept) != 0 {
							t.Errorf("asked %d times, kept %q", asked.Load(), tape.kept)
						}
						for _, text := range []string{shown[0].String(), shown[1].String(), fmt.Sprint(err)} {
							if strings.Contains(text, spell(key)) || strings.Contains(text, key[:8]) {
								t.Errorf("shown: %q", text)
							}
						}
					})
				}
			}
		}
	}
}

// pieces are the deltas of a message: one, or many with three characters each.
func pieces(t *testing.T, message string, many bool) []string {
	t.Helper()
	if !many {
		return []string{"{" + message + "}"}
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte("{"+message+"}"), &m); err != nil {
		t.Fatal(err)
	}
	var out []string
	cut := func(raw json.RawMessage, wrap string) {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		for len(s) > 0 {
			n := min(3, len(s))
			piece, _ := json.Marshal(s[:n])
			out, s = append(out, fmt.Sprintf(wrap, piece)), s[n:]
		}
	}
	for _, name := range []string{"reasoning_content", "content"} {
		if m[name] != nil {
			cut(m[name], `{"`+name+`":%s}`)
		}
	}
	if m["tool_calls"] != nil {
		var calls []struct {
			ID       json.RawMessage
			Function struct{ Name, Arguments json.RawMessage }
		}
		if err := json.Unmarshal(m["tool_calls"], &calls); err != nil {
			t.Fatal(err)
		}
		out = append(out,
			fmt.Sprintf(`{"tool_calls":[{"index":0,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, calls[0].ID, calls[0].Function.Name))
		cut(calls[0].Function.Arguments, `{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}`)
	}
	return out
}
