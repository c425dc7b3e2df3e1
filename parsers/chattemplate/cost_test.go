package chattemplate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/words"
	"hermes/trajectory"
)

// cost is what one bridge took.
type cost struct{ rendered, pieces, bytes, tokens int }

// costs extends a conversation by turns that add equally much, and counts.
func costs(tmpl *chattemplate.Template, turns int) (out []cost, err error) {
	var c cost
	metered := tmpl.Metered(func(n int) { c.rendered += n })
	tok, err := words.New(nil, nil)
	if err != nil {
		return nil, err
	}
	msgs := []trajectory.Message{asks("go")}
	for i := range turns {
		answer := says("", call(i, "get_weather", `{"city": "Bern"}`))
		answer.Reasoning = fmt.Sprintf("thought %05d", i)
		msgs = append(msgs, answer)
		tail := []trajectory.Message{result(i, "get_weather", fmt.Sprintf("it rains %05d", i))}
		c = cost{}
		pieces, err := metered.Bridge(msgs, tmpl.Stops()[0], tail, weatherTools())
		if err != nil {
			return nil, err
		}
		for _, p := range pieces {
			ids, err := tok.Encode(p.Text, tokenizer.Options{})
			if err != nil {
				return nil, err
			}
			c.pieces, c.bytes, c.tokens = c.pieces+1, c.bytes+len(p.Text), c.tokens+len(ids)
		}
		out, msgs = append(out, c), append(msgs, tail...)
	}
	return out, nil
}

// TestTemplateCost: turns that add equally much cost equally much, however long
// the conversation is. The exceptions are templates that count calls.
func TestTemplateCost(t *testing.T) {
	all := []source{{"thinker", thinker}}
	if !t.Run("public", func(t *testing.T) { all = append(all, sources(t)...) }) {
		return
	}
	var counting, checked []string
	for _, s := range all {
		tmpl := open(t, s)
		v := tmpl.Verdict()
		if !v.BridgesResults {
			continue
		}
		got, err := costs(tmpl, 40)
		if errors.Is(err, chattemplate.ErrRewrites) {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if v.CountsCalls {
			counting = append(counting, s.name)
			if grown := got[39].rendered - got[1].rendered; grown > 38*200 {
				t.Errorf("%s counts calls, and 38 earlier ones cost %d bytes", s.name, grown)
			}
			continue
		}
		checked = append(checked, s.name)
		for i, c := range got {
			if c != got[0] {
				t.Errorf("%s: turn %d took %+v, turn 0 %+v", s.name, i, c, got[0])
				break
			}
		}
	}
	t.Logf("%d templates; %d count calls: %s", len(checked), len(counting), strings.Join(counting, ", "))
}

// TestCostOfAddition: what a bridge renders grows with the tail at most twofold
// (templates that look at a message twice print it once).
func TestCostOfAddition(t *testing.T) {
	tmpl := thinking(t, nil)
	rendered := 0
	metered := tmpl.Metered(func(n int) { rendered += n })
	cost := func(n int) int {
		rendered = 0
		prev := []trajectory.Message{asks(strings.Repeat("long ", 10_000)), says("", call(1, "f", `{"x": "`+strings.Repeat("y", 10_000)+`"}`))}
		if _, err := metered.Bridge(prev, "<|im_end|>", []trajectory.Message{result(1, "f", strings.Repeat("z", n))}, nil); err != nil {
			t.Fatal(err)
		}
		return rendered
	}
	small, large := cost(10), cost(10_010)
	if large-small != 10_000 {
		t.Errorf("10,000 bytes more render %d bytes more", large-small)
	}
	if small > 1000 {
		t.Errorf("a small addition to a long history renders %d bytes", small)
	}
}

// TestKeptTools shows that a template never shows the tools of another prompt: not
// when the caller changes them in place, nor when one of them spells a control token.
func TestKeptTools(t *testing.T) {
	kept, msgs := thinking(t, nil), []trajectory.Message{asks("u")}
	tools := weatherTools()
	for round, change := range []func(){
		func() {}, func() {},
		func() { tools[0].Parameters[len(tools[0].Parameters)-1] = ' ' },
		func() { tools[0].Parameters[len(tools[0].Parameters)-1] = '}' },
		func() { tools[0].Description = "say <|im_end|>" },
		func() {
			tools[0].Parameters = []byte(`{"a": [1, {"b<|im_start|>": ["x", "</think>"], "c": 2}], "d": "e"}`)
		},
		func() { tools = nil },
		func() { tools = weatherTools() },
	} {
		change()
		got, gotErr := kept.Prompt(msgs, tools)
		want, wantErr := thinking(t, nil).Prompt(msgs, tools)
		if !slices.Equal(got, want) || (gotErr == nil) != (wantErr == nil) {
			t.Errorf("round %d:\n got %+v, %v\nwant %+v, %v", round, got, gotErr, want, wantErr)
		}
		if (gotErr != nil) != (round == 2) {
			t.Errorf("round %d: %v", round, gotErr)
		}
	}
}
