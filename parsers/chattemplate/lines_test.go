package chattemplate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"hermes/parsers/chattemplate"
)

func TestRenderLines(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{
			"text",
			`{"id": 7, "template": "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ tools is none }}", "messages": [{"role": "user", "content": "a<b"}], "bos_token": "<s>"}`,
			`{"id":7,"text":"<s><user>a<bTrue"}`,
		},
		{"an empty text is a text", `{"id": "e", "template": "", "messages": []}`, `{"id":"e","text":""}`},
		{"spans", `{"id": "a", "template": "é{% generation %}xy{% endgeneration %}", "messages": []}`, `{"id":"a","text":"éxy","spans":[[1,3]]}`},
		{"order of keys and numbers", `{"id": "a", "template": "{{ tools | tojson }}", "messages": [], "tools": [{"z": 1.0, "a": 12345678901234567890}]}`,
			`{"id":"a","text":"[{\"z\": 1.0, \"a\": 12345678901234567890}]"}`},
		{
			"variables and now",
			`{"id": "a", "template": "{{ q }} {{ add_generation_prompt }} {{ strftime_now('%Y') }}", "messages": [], "variables": {"q": 5}, "add_generation_prompt": true, "now": "2026-01-15T13:05:09Z"}`,
			`{"id":"a","text":"5 True 2026"}`,
		},
		{"the clock", `{"id": "a", "template": "{{ strftime_now('%d') }}", "messages": []}`, `{"id":"a","text":"02"}`},
		{"file", `{"id": "a", "template_file": "t.jinja", "messages": []}`, `{"id":"a","text":"from t.jinja"}`},
		{"no file", `{"id": "a", "template_file": "gone", "messages": []}`, `{"id":"a","error":"template_file: gone"}`},
		{
			"template error",
			`{"id": "a", "template": "{{ raise_exception('no') }}", "messages": []}`,
			`{"id":"a","error":"line 1, column 1: no","class":"template"}`,
		},
		{
			"syntax error",
			`{"id": "a", "template": "{% if %}", "messages": []}`,
			`{"id":"a","error":"line 1, column 7: TemplateSyntaxError: Expected an expression, got end of statement block","class":"syntax"}`,
		},
		{
			"limit",
			`{"id": "a", "template": "{{ 'x' * 999999999999 }}", "messages": []}`,
			`{"id":"a","error":"line 1, column 1: LimitError: 999999999999 copies of 1 bytes exceed 67108864","class":"limit"}`,
		},
		{"bad line", `{"id": "a", "messages": `, `{"id":null,"error":"read the line: unexpected end of JSON input"}`},
		{
			"wrong type",
			`{"id": "a", "template": 5}`,
			`{"id":"a","error":"read the line: json: cannot unmarshal number into Go struct field request.template of type string"}`,
		},
		{"nothing given", `{"id": "a"}`, `{"id":"a","error":"neither template nor template_file is given"}`},
		{"no messages", `{"id": "a", "template": ""}`, `{"id":"a","error":"messages are missing"}`},
	}
	var in, want strings.Builder
	for _, tt := range tests {
		in.WriteString(tt.in + "\n\n")
		want.WriteString(tt.want + "\n")
	}
	var out strings.Builder
	err := chattemplate.RenderLines(strings.NewReader(in.String()), &out, chattemplate.LineOptions{
		ReadFile: func(path string) ([]byte, error) {
			if path == "gone" {
				return nil, errors.New("gone")
			}
			return []byte("from " + path), nil
		},
		Now: func() time.Time { return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	got, expected := strings.Split(out.String(), "\n"), strings.Split(want.String(), "\n")
	if len(got) != len(expected) {
		t.Fatalf("%d answers, want %d:\n%s", len(got), len(expected), out.String())
	}
	for i, tt := range tests {
		if got[i] != expected[i] {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got[i], expected[i])
		}
	}
}

func TestRenderLinesDropsALongLine(t *testing.T) {
	in := `{"id": 1, "template": "` + strings.Repeat("x", 1<<17) + "\"}\n" + `{"id": 2, "template": "ok", "messages": []}`
	var out strings.Builder
	if err := chattemplate.RenderLines(strings.NewReader(in), &out, chattemplate.LineOptions{MaxLine: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	want := "{\"id\":null,\"error\":\"the line is longer than 1024 bytes\"}\n{\"id\":2,\"text\":\"ok\"}\n"
	if out.String() != want {
		t.Errorf("got %s", out.String())
	}
}
