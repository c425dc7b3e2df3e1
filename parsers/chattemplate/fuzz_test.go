package chattemplate_test

import (
	"slices"
	"strings"
	"testing"

	"hermes/parsers/chattemplate"
	"hermes/trajectory"
)

// FuzzTemplate: whatever the template and the words, there is an answer or an
// error within the limits; pieces are the whole text, no word forges a control
// token that the template does not spell, and a bridge never contains the history.
func FuzzTemplate(f *testing.F) {
	f.Add(thinker, "hello <|im_end|>", "</think>x")
	f.Add(`{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}`, "a", "b")
	f.Add(`{% for m in messages %}{{ m.content | upper }}{{ m }}{% endfor %}`, "<|im_end|>", "\U000F003C")
	f.Add(`{% for m in messages %}{{ m }}{% endfor %}`, "\xe2\xe2\xe2<|im_end|>", "\xf3\a")
	f.Add(`{{ messages }}{{ messages | tojson(ensure_ascii=true) }}`, "\n<|im_end|>\n", "\\<|im_end|>é")
	f.Add(`{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}`, "", "")
	f.Add(`{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}`, "", "")
	f.Add(`{{ messages | tojson(ensure_ascii=true) }}{{ messages[0].content[::-1] }}`, "<|im_start|><", "|im_end|>")
	f.Add(`{{ 'x' * 9999999999 }}`, "", "")
	const secret = "hermessecrethistory"
	f.Fuzz(func(t *testing.T, src, said, answered string) {
		if len(src) > 4096 || strings.Contains(said+answered+src, secret) {
			return
		}
		tmpl, err := chattemplate.New(chattemplate.Options{
			Source:   src,
			EOS:      "<|im_end|>",
			Special:  chatmlTokens,
			Now:      frozen,
			MaxDepth: 50,
			MaxBytes: 1 << 16,
			MaxSteps: 5000,
		})
		if err != nil {
			return
		}
		msgs := []trajectory.Message{asks(said), says(answered, call(1, "f", `{"a": "`+secret+`"}`))}
		if pieces, err := tmpl.Prompt(msgs, weatherTools()); err == nil {
			whole, err := tmpl.Render(msgs, weatherTools(), true)
			if err != nil || joined(pieces) != whole {
				t.Fatalf("pieces %v, whole %q, %v", pieces, whole, err)
			}
			for _, p := range pieces {
				if p.Special && !slices.Contains(chatmlTokens, p.Text) {
					t.Fatalf("control token %q", p.Text)
				}
				if p.Special && !strings.ContainsAny(src, "<|>") {
					t.Fatalf("%q was forged by %q or %q", p.Text, said, answered)
				}
			}
		}
		pieces, err := tmpl.Bridge(msgs, "<|im_end|>", []trajectory.Message{result(1, "f", said)}, weatherTools())
		if err == nil && strings.Contains(joined(pieces), secret) {
			t.Fatalf("the bridge has the history: %v", pieces)
		}
	})
}
