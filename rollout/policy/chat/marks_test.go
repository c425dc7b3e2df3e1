package chat_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// bodies answers every request and keeps what was sent.
type bodies struct{ sent []string }

func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(r.Body); err != nil {
		return nil, err
	}
	b.sent = append(b.sent, buf.String())
	answer := `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer))}, nil
}

func (b *bodies) policy(t *testing.T, o chat.Options, profile string) (policy.Policy, error) {
	t.Helper()
	w, err := wire.New(wire.Options{Bases: []string{"http://h/v1"}, Transport: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	p, err := servers.Named(profile)
	if err != nil {
		t.Fatal(err)
	}
	o.Profile = &p
	return chat.New(w, o)
}

func TestPromptCacheMarks(t *testing.T) {
	const whole, hour = `"cache_control":{"type":"ephemeral"}`, `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	tests := []struct {
		profile, model string
		cache          chat.PromptCache
		mark           string // empty: none
		refused        bool
	}{
		{profile: "openrouter", model: "anthropic/claude-sonnet-4.5", mark: whole},
		{profile: "openrouter", model: "anthropic/claude-sonnet-4.5", cache: "auto", mark: whole},
		{profile: "openrouter", model: "anthropic/claude-sonnet-4.5", cache: "1h", mark: hour},
		{profile: "openrouter", model: "anthropic/claude-sonnet-4.5", cache: "off"},
		{profile: "openrouter", model: "qwen/qwen3"},
		{profile: "openrouter", model: "qwen/qwen3", cache: "5m", mark: whole},
		{profile: "generic", model: "claude"},
		{profile: "generic", model: "claude", cache: "5m", mark: whole},
		{profile: "vllm", model: "m"},
		{profile: "vllm", model: "m", cache: "5m", refused: true},
		{profile: "openai", model: "m", cache: "1h", refused: true},
		{profile: "openrouter", model: "m", cache: "2h", refused: true},
	}
	for _, tt := range tests {
		b := &bodies{}
		p, err := b.policy(t, chat.Options{Model: tt.model, Cache: tt.cache}, tt.profile)
		if (err != nil) != tt.refused {
			t.Errorf("%+v: %v", tt, err)
		}
		if err != nil {
			continue
		}
		s, err := p.Open(nil, policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		tr := trajectory.New(trajectory.ModeText, nil)
		pending := []trajectory.Message{trajectory.Text(trajectory.System, "Be <brief>."), trajectory.Text(trajectory.User, "one")}
		for range 2 {
			turn, err := s.Next(t.Context(), tr.Prefix(), pending, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tr.Commit(turn); err != nil {
				t.Fatal(err)
			}
			pending = []trajectory.Message{trajectory.Text(trajectory.System, "And now."), trajectory.Text(trajectory.User, "two")}
		}
		for i, sent := range b.sent {
			marks := strings.Count(sent, "cache_control")
			system := `{"role":"system","content":[{"type":"text","text":"Be <brief>.",` + tt.mark + `}]}`
			good := tt.mark == "" && marks == 0 || tt.mark != "" && marks == 2 && strings.Count(sent, tt.mark) == 2 && strings.Contains(sent, system)
			if !good || !json.Valid([]byte(sent)) {
				t.Errorf("%+v: request %d is %s", tt, i, sent)
			}
		}
	}
}

func TestImagesForBlindModels(t *testing.T) {
	for _, blind := range []bool{false, true} {
		b := &bodies{}
		p, err := b.policy(t, chat.Options{Model: "m", Blind: blind}, "generic")
		if err != nil {
			t.Fatal(err)
		}
		var notes []string
		s, err := p.Open(nil, policy.Options{Notes: func(text string) { notes = append(notes, text) }})
		if err != nil {
			t.Fatal(err)
		}
		m := trajectory.Text(trajectory.User, "What is this?")
		m.Parts = append(m.Parts, trajectory.Part{Kind: trajectory.PartImage, URL: "data:image/png;base64,AAAA", MediaType: "image/png"})
		turn, err := s.Next(t.Context(), trajectory.New(trajectory.ModeText, nil).Prefix(), []trajectory.Message{m}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if turn.Given[0].Message.Parts[1].Kind != trajectory.PartImage {
			t.Error("the image is gone from the data")
		}
		if strings.Contains(b.sent[0], "AAAA") == blind || strings.Contains(b.sent[0], "cannot see images") != blind || !json.Valid([]byte(b.sent[0])) {
			t.Errorf("blind %v: sent %s", blind, b.sent[0])
		}
		if shown := strings.Join(notes, "; "); strings.Contains(shown, "m sees no images, 1 were replaced") != blind {
			t.Errorf("blind %v: shown %q", blind, shown)
		}
	}
}
