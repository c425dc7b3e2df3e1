package parsers_test

import (
	"testing"

	"hermes/parsers"
)

// What is between messages, made of words that headers have too, is under a fault; what is
// only quoted stays content.
func TestTextBetweenMessages(t *testing.T) {
	rows := []struct {
		family, text, content, fault string
	}{
		{
			"kimi_k3",
			"<|open|>response<|sep|>You write <|open|>tools<|sep|> to start a call.<|close|>response<|sep|>",
			"You write <|open|>tools<|sep|> to start a call.",
			"",
		},
		{
			"kimi_k3",
			"<|open|>response<|sep|>A<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"now\" index=\"1\"<|sep|><|close|>call<|sep|> to start call <|close|>tools<|sep|>",
			"A",
			" to start call ",
		},
		{"kimi_k3", "<|open|>response tools<|sep|>A<|close|>response<|sep|>", "A", "<|open|>response tools<|sep|>"},
		{
			"openai",
			"<|channel|>analysis<|message|>hm<|end|> assistant to final <|start|>assistant<|channel|>final<|message|>Hi<|return|>",
			"Hi",
			" assistant to final <|start|>assistant<|channel|>final<|message|>",
		},
		{
			"openai",
			"<|channel|>analysis<|message|>hm<|end|>return<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
			"Hi",
			"return<|start|>assistant<|channel|>final<|message|>",
		},
		{
			"openai",
			"<|channel|>analysis final<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
			"Hi",
			"<|channel|>analysis final<|message|>",
		},
		{
			"openai",
			"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=assistant<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
			"Hi",
			"",
		},
		{
			"beam",
			"<|channel|>analysis<|message|>hm<|end|> start to return <|start|>assistant<|channel|>final<|message|>Hi<|end|>",
			"Hi",
			" start to return <|start|>assistant<|channel|>final<|message|>",
		},
		{
			"muse_glimmer",
			"to=self<|message|>hm<|eom|> start message <|start|>assistant to=user<|message|>Hi<|eom|>",
			"Hi",
			" start message <|start|>assistant to=user<|message|>",
		},
		{"muse", "to=user start to return<|message|>Hi<|eom|>", "Hi", "to=user start to return<|message|>"},
		{"muse", "to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Hi<|eom|>", "Hi", ""},
		{
			"inkling",
			"<|content_text|>Hi<|end_message|><|message_model|>now call<|content_invoke_tool_json|>{\"name\": \"now\", \"args\": {}}<|end_message|>",
			"Hi",
			"now call",
		},
		{
			"inkling",
			"<|content_text|>Hi<|end_message|><|message_model|>now<|content_invoke_tool_json|>{\"name\": \"now\", \"args\": {}}<|end_message|>",
			"Hi",
			"",
		},
		{
			"gigachat3",
			"Hi<|message_sep|>final answer function call<|role_sep|>\n{\"name\": \"now\", \"arguments\": {}}",
			"Hi",
			"<|message_sep|>final answer function call<|role_sep|>\n",
		},
	}
	for _, tt := range rows {
		f, err := parsers.Standard().Get(tt.family)
		if err != nil {
			t.Fatal(err)
		}
		p := f.Parse(tt.text, parsers.ParseOptions{Tools: probeTools})
		fault := ""
		for _, f := range p.Faults {
			if f.Kind == "lost_text" {
				fault += tt.text[f.Start:f.End]
			}
		}
		if p.Content != tt.content || fault != tt.fault {
			t.Errorf("%s: %s\ncontent %q, want %q\nunder a fault %q, want %q", tt.family, tt.text, p.Content, tt.content, fault, tt.fault)
		}
	}
}
