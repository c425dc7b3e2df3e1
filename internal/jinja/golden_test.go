package jinja_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"hermes/internal/jinja"
	"hermes/internal/realdata"
)

// golden is one reference rendering made by Python's Jinja2.
type golden struct {
	Template     string          `json:"template"`
	Conversation string          `json:"conversation"`
	Options      json.RawMessage `json:"options"`
	Text         *string         `json:"text"`
	SHA          string          `json:"sha256"`
	Spans        [][2]int        `json:"generation_spans"`
	Error        *struct{ Kind, Message string }
}

var frozen = time.Date(2026, 1, 15, 13, 5, 9, 0, time.UTC)

// variables are the template variables of one case, as the reference had them.
func variables(t testing.TB, conversation *jinja.Dict, options *jinja.Dict) *jinja.Dict {
	t.Helper()
	vars := jinja.NewDict()
	for _, k := range []string{"messages", "tools"} {
		v, _ := conversation.Get(k)
		vars.Set(k, v)
	}
	vars.Set("documents", nil).Set("bos_token", "<s>").Set("eos_token", "</s>").Set("pad_token", "<pad>").Set("unk_token", "<unk>")
	options.Each(func(k, v any) bool {
		vars.Set(k.(string), v)
		return true
	})
	return vars
}

func conversations(t testing.TB, dir string) map[string]*jinja.Dict {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "conversations.json"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jinja.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*jinja.Dict{}
	list := v.(*jinja.List)
	for i := range list.Len() {
		c := list.At(i).(*jinja.Dict)
		id, _ := c.Get("id")
		out[id.(string)] = c
	}
	return out
}

func TestGolden(t *testing.T) {
	dir := realdata.Path(t, "chat-templates")
	convs := conversations(t, dir)
	file, err := os.Open(filepath.Join(dir, "golden.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	templates := map[string]*jinja.Template{}
	total, good := 0, 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var g golden
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		total++
		tmpl := templates[g.Template]
		if tmpl == nil {
			src, err := os.ReadFile(filepath.Join(dir, "templates", g.Template))
			if err != nil {
				t.Fatal(err)
			}
			tmpl, err = jinja.Parse(string(src), jinja.Options{})
			if err != nil {
				t.Errorf("%s: %v", g.Template, err)
				continue
			}
			templates[g.Template] = tmpl
		}
		options, err := jinja.Decode(g.Options)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tmpl.Render(variables(t, convs[g.Conversation], options.(*jinja.Dict)), jinja.RenderOptions{Now: frozen})
		if why := differs(g, out, err); why != "" {
			t.Errorf("%s, %s: %s", g.Template, g.Conversation, why)
			continue
		}
		good++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d reference renderings are equal", good, total)
	if total == 0 {
		t.Error("no renderings in the reference")
	}
}

// differs says how a rendering differs from the reference.
func differs(g golden, out jinja.Output, err error) string {
	if g.Error != nil {
		var e *jinja.Error
		switch {
		case !errors.As(err, &e):
			return fmt.Sprintf("no %s (%s), but %q", g.Error.Kind, g.Error.Message, out.Text)
		case e.Kind != g.Error.Kind:
			return fmt.Sprintf("%v instead of %s: %s", e, g.Error.Kind, g.Error.Message)
		case e.Kind == "TemplateError" && e.Message != g.Error.Message:
			return fmt.Sprintf("message %q instead of %q", e.Message, g.Error.Message)
		case (e.Kind == "RecursionError") != (e.Class == jinja.ClassLimit):
			return "class " + string(e.Class)
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256([]byte(out.Text))
	if out.Text != *g.Text || hex.EncodeToString(sum[:]) != g.SHA {
		return fmt.Sprintf("text\n%q instead of\n%q", out.Text, *g.Text)
	}
	if len(out.Spans)+len(g.Spans) > 0 && !reflect.DeepEqual(out.Spans, g.Spans) {
		return fmt.Sprintf("spans %v instead of %v", out.Spans, g.Spans)
	}
	return ""
}

// TestConcurrent renders one template in many goroutines; it is meant for -race.
func TestConcurrent(t *testing.T) {
	tmpl := parse(t, chatml)
	vars := conversation(30)
	want, err := tmpl.Render(vars, jinja.RenderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if got, err := tmpl.Render(vars, jinja.RenderOptions{}); err != nil || got.Text != want.Text {
					t.Errorf("a concurrent rendering differs: %v", err)
				}
			}
		})
	}
	all.Wait()
}

const chatml = `{%- if tools %}{{ '<|im_start|>system\n' + (tools | tojson) + '<|im_end|>\n' }}{% endif %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls is defined %}
        {%- for call in message.tool_calls %}{{ call.function.name }}{% endfor %}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func conversation(n int) *jinja.Dict {
	list := jinja.NewList()
	for i := range n {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		list.Append(jinja.NewDict().Set("role", role).Set("content", fmt.Sprintf(" Message %d with a few words in it.\n", i)))
	}
	return jinja.NewDict().Set("messages", list).Set("tools", nil).Set("add_generation_prompt", true)
}

func parse(t testing.TB, src string) *jinja.Template {
	t.Helper()
	tmpl, err := jinja.Parse(src, jinja.Options{})
	if err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	return tmpl
}

// BenchmarkRender renders a conversation of 30 messages.
func BenchmarkRender(b *testing.B) {
	tmpl, vars := parse(b, chatml), conversation(30)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.Render(vars, jinja.RenderOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRealTemplates renders 30 messages with every real template that
// takes them, and reports the median.
func BenchmarkRealTemplates(b *testing.B) {
	dir := realdata.Path(b, "chat-templates", "templates")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		b.Fatal(err)
	}
	vars := conversation(30).Set("documents", nil).Set("bos_token", "<s>").Set("eos_token", "</s>")
	var rates []float64
	for b.Loop() {
		rates = rates[:0]
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			tmpl, err := jinja.Parse(string(src), jinja.Options{})
			if err != nil {
				b.Fatal(err)
			}
			const turns = 20
			start := time.Now()
			for range turns {
				if _, err = tmpl.Render(vars, jinja.RenderOptions{Now: frozen}); err != nil {
					break
				}
			}
			if err == nil {
				rates = append(rates, turns/time.Since(start).Seconds())
			}
		}
	}
	if len(rates) == 0 {
		b.Fatalf("none of %d templates renders the conversation", len(files))
	}
	slices.Sort(rates)
	b.ReportMetric(rates[len(rates)/2], "median-renders/s")
	b.ReportMetric(float64(len(rates)), "templates")
}
