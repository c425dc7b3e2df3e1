package chat_test

import (
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// spelled is an answer: its reasoning in brackets, its text, its calls. BAD marks arguments
// of a call that is malformed or cut, ERR for an answer that is none.
func spelled(turn trajectory.Turn, err error) string {
	if err != nil {
		return "ERR"
	}
	m := turn.Sampled.Message
	var list []string
	if m.Reasoning != "" {
		list = append(list, "("+m.Reasoning+")")
	}
	if m.Content() != "" {
		list = append(list, m.Content())
	}
	for _, c := range m.Calls {
		a := strings.ReplaceAll(c.Arguments, " ", "")
		if c.State == trajectory.CallMalformed || c.State == trajectory.CallTruncated {
			a = "BAD"
		}
		list = append(list, c.Name+a)
	}
	return strings.Join(list, " ")
}

// Answers in odd shapes and pieces: the value that is right, or one that says that it is none
// where several are right.
func TestAnswersInOddShapes(t *testing.T) {
	msg := func(m, fin string) string {
		return `{"choices":[{"index":0,"message":{` + m + `},"finish_reason":` + fin + `}]}`
	}
	tc := `"tool_calls"`
	call := func(m string) string { return msg(`"content":null,"tool_calls":`+m, tc) }
	d := func(c string) string { return policytest.Delta(`{"tool_calls":`+c+`}`, "") }
	st := func(docs ...string) string {
		return policytest.SSE(append(docs, policytest.Delta(`{}`, "tool_calls"))...)
	}
	ss := func(docs ...string) string { return policytest.SSE(append(docs, policytest.Delta(`{}`, "stop"))...) }
	const A = `ls{"p":1}`
	const B = `ls{"p":2}`
	const AB = A + " " + B
	fn := `"function":{"name":"ls","arguments":"{\"p\":1}"}`
	fn2 := `"function":{"name":"ls","arguments":"{\"p\":2}"}`
	one := `{"id":"a","type":"function",` + fn + `}`
	arg := func(a string) string {
		return call(`[{"id":"a","type":"function","function":{"name":"ls","arguments":` + a + `}}]`)
	}
	sarg := func(list ...string) string {
		docs := []string{d(`[{"index":0,"id":"a","type":"function","function":{"name":"ls","arguments":""}}]`)}
		for _, a := range list {
			docs = append(docs, d(`[{"index":0,"function":{"arguments":`+a+`}}]`))
		}
		return st(docs...)
	}
	q := func(index, id, name, args string) string {
		var l []string
		if index != "" {
			l = append(l, `"index":`+index)
		}
		if id != "" {
			l = append(l, `"id":`+id)
		}
		f := ""
		if name != "" {
			f = `"name":` + name + `,`
		}
		l = append(l, `"function":{`+f+`"arguments":`+args+`}`)
		return d("[{" + strings.Join(l, ",") + "}]")
	}
	h1 := `"{\"p\""`
	t1 := `":1}"`
	h2 := `"{\"p\""`
	t2 := `":2}"`
	ls := `"ls"`
	a := `"a"`
	b := `"b"`
	e := `""`
	for _, x := range [][3]string{
		// plain
		{"null call", call(`[null]`), "ERR"},
		{"null call beside", call(`[null,` + one + `]`), A},
		{"empty call object", call(`{}`), "ERR"},
		{"empty call object, stop", msg(`"content":"x","tool_calls":{}`, `"stop"`), "x"},
		{"empty call in list, stop", msg(`"content":"x","tool_calls":[{}]`, `"stop"`), "x"},
		{"empty strings in a call, stop", msg(`"content":"x","tool_calls":[{"id":"","function":{"name":"","arguments":""}}]`, `"stop"`), "x"},
		{"null list, stop", msg(`"content":"x","tool_calls":[null]`, `"stop"`), "x"},
		{"call without a name", call(`[{"id":"a","function":{"arguments":"{\"p\":1}"}}]`), "BAD"},
		{"null name", call(`[{"id":"a","function":{"name":null,"arguments":"{\"p\":1}"}}]`), "BAD"},
		{"blank name", call(`[{"id":"a","function":{"name":" ","arguments":"{\"p\":1}"}}]`), "BAD"},
		{"name with blanks", call(`[{"id":"a","function":{"name":" ls ","arguments":"{\"p\":1}"}}]`), A},
		{"name with newline", call(`[{"id":"a","function":{"name":"ls\n","arguments":"{\"p\":1}"}}]`), A},
		{"custom tool", call(`[{"id":"a","type":"custom","custom":{"name":"ls","input":"hi"}}]`), "lsBAD|ERR"},
		{"custom tool object", call(`[{"id":"a","type":"custom","custom":{"name":"ls","input":"{\"p\":1}"}}]`), A + "|ERR"},
		{"type tool", call(`[{"id":"a","type":"tool",` + fn + `}]`), A},
		{"type null", call(`[{"id":"a","type":null,` + fn + `}]`), A},
		{"no type", call(`[{"id":"a",` + fn + `}]`), A},
		{"function null", call(`[{"id":"a","function":null,"name":"ls","arguments":"{\"p\":1}"}]`), A},
		{"function text", call(`[{"id":"a","function":"ls","arguments":"{\"p\":1}"}]`), A + "|ERR"},
		{"args object", arg(`{"p":1}`), A},
		{"args null", arg(`null`), "ls"},
		{"args empty", arg(`""`), "ls"},
		{"args blank", arg(`" "`), "ls"},
		{"args null text", arg(`"null"`), "lsBAD|ERR|lsnull|ls"},
		{"args list", arg(`[]`), "lsBAD|ERR|ls[]"},
		{"args list text", arg(`"[1]"`), "lsBAD|ERR"},
		{"args number", arg(`5`), "lsBAD|ERR"},
		{"args false", arg(`false`), "lsBAD|ERR"},
		{"args double text", arg(`"\"{\\\"p\\\":1}\""`), A + `|ls"{\"p\":1}"`},
		{"args two objects", arg(`"{\"p\":1}{\"p\":2}"`), "lsBAD|ERR"},
		{"args object and tail", arg(`"{\"p\":1} x"`), "lsBAD|ERR"},
		{"args fenced", arg("\"```json\\n{\\\"p\\\":1}\\n```\""), "lsBAD|ERR|ls```json\n{\"p\":1}\n```"},
		{"int id", call(`[{"id":5,` + fn + `}]`), A},
		{"object id", call(`[{"id":{"x":1},` + fn + `}]`), A},
		{"ids repeated", call(`[` + one + `,{"id":"a",` + fn2 + `}]`), AB},
		{"ids empty", call(`[{"id":"",` + fn + `},{"id":"",` + fn2 + `}]`), AB},
		{"same twice plain", call(`[` + one + `,{"id":"b",` + fn + `}]`), A + " " + A},
		{"list in list", call(`[[` + one + `]]`), A + "|ERR"},
		{"text of the list", call(text(`[` + one + `]`)), A + "|ERR"},
		{"text calls, stop", msg(`"content":"x","tool_calls":`+text(`[`+one+`]`), `"stop"`), "x " + A + "|ERR"},
		{"text calls empty, stop", msg(`"content":"x","tool_calls":""`, `"stop"`), "x"},
		{"text calls [] , stop", msg(`"content":"x","tool_calls":"[]"`, `"stop"`), "x"},
		{"legacy", msg(`"content":null,"function_call":{"name":"ls","arguments":"{\"p\":1}"}`, `"function_call"`), A},
		{"legacy object args", msg(`"content":null,"function_call":{"name":"ls","arguments":{"p":1}}`, `"stop"`), A},
		{"legacy empty", msg(`"content":"x","function_call":{}`, `"stop"`), "x"},
		{"legacy empty strings", msg(`"content":"x","function_call":{"name":"","arguments":""}`, `"stop"`), "x"},
		{"legacy text none", msg(`"content":"x","function_call":"none"`, `"stop"`), "x|ERR"},
		{"legacy and empty calls", msg(`"content":null,"tool_calls":[],"function_call":{"name":"ls","arguments":"{\"p\":1}"}`, `"function_call"`), A},
		{"legacy and null call", msg(`"content":null,"tool_calls":[null],"function_call":{"name":"ls","arguments":"{\"p\":1}"}`, `"function_call"`), A},
		{"beside content", msg(`"content":"x","tool_calls":[`+one+`]`, tc), "x " + A},
		{"finish stop", msg(`"content":"","tool_calls":[`+one+`]`, `"stop"`), A},
		{"finish tool_calls none", msg(`"content":"x"`, tc), "ERR"},
		{"finish list of words", msg(`"content":"x"`, `["stop"]`), "x|ERR"},
		{
			"two choices",
			`{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"},{"index":1,"message":{"content":"y"},"finish_reason":"stop"}]}`,
			"x",
		},
		{
			"two choices turned",
			`{"choices":[{"index":1,"message":{"content":"y"},"finish_reason":"stop"},{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`,
			"x",
		},
		{
			"two choices no index",
			`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"},{"message":{"content":"y"},"finish_reason":"stop"}]}`,
			"x|ERR",
		},
		{
			"two choices same index",
			`{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"},{"index":0,"message":{"content":"y"},"finish_reason":"stop"}]}`,
			"x|ERR",
		},
		{
			"two choices with calls, no index",
			`{"choices":[{"message":{"tool_calls":[` + one + `]},"finish_reason":"tool_calls"},{"message":{"tool_calls":[{"id":"b",` + fn2 + `}]},"finish_reason":"tool_calls"}]}`,
			A + "|ERR",
		},
		{
			"split choices (Claude via Copilot)",
			`{"choices":[{"message":{"content":"x"},"finish_reason":"tool_calls"},{"message":{"tool_calls":[` + one + `]},"finish_reason":"tool_calls"}]}`,
			"x " + A + "|ERR",
		},
		{"only index 1", `{"choices":[{"index":1,"message":{"content":"x"},"finish_reason":"stop"}]}`, "x|ERR"},
		{"index text", `{"choices":[{"index":"0","message":{"content":"x"},"finish_reason":"stop"}]}`, "x"},
		{"index null", `{"choices":[{"index":null,"message":{"content":"x"},"finish_reason":"stop"}]}`, "x"},
		{"choices object", `{"choices":{"index":0,"message":{"content":"x"},"finish_reason":"stop"}}`, "x|ERR"},
		{"no choices", `{"choices":[]}`, "ERR"},
		{"parts", msg(`"content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]`, `"stop"`), "xy"},
		{"parts output_text", msg(`"content":[{"type":"output_text","text":"x"}]`, `"stop"`), "x"},
		{"part without type", msg(`"content":[{"text":"x"}]`, `"stop"`), "x"},
		{"part content", msg(`"content":[{"type":"text","content":"x"}]`, `"stop"`), "x|ERR"},
		{"part value", msg(`"content":[{"type":"text","value":"x"}]`, `"stop"`), "x|ERR"},
		{"part null", msg(`"content":[null,{"type":"text","text":"x"}]`, `"stop"`), "x"},
		{"thinking part", msg(`"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"x"}]`, `"stop"`), "(t) x"},
		{"thinking list", msg(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"x"}]`, `"stop"`), "(t) x"},
		{"thinking text", msg(`"content":[{"type":"thinking","text":"t"},{"type":"text","text":"x"}]`, `"stop"`), "(t) x"},
		{"reasoning text", msg(`"content":[{"type":"reasoning","text":"t"},{"type":"text","text":"x"}]`, `"stop"`), "(t) x"},
		{"reasoning reasoning", msg(`"content":[{"type":"reasoning","reasoning":"t"},{"type":"text","text":"x"}]`, `"stop"`), "(t) x"},
		{
			"reasoning summary",
			msg(`"content":[{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}]},{"type":"text","text":"x"}]`, `"stop"`),
			"(t) x",
		},
		{
			"reasoning content",
			msg(`"content":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]},{"type":"text","text":"x"}]`, `"stop"`),
			"(t) x",
		},
		{"reasoning_content part", msg(`"content":[{"type":"reasoning_content","reasoning_content":"t"},{"type":"text","text":"x"}]`, `"stop"`), "(t) x|ERR"},
		{"reasoning_text part", msg(`"content":[{"type":"reasoning_text","text":"t"},{"type":"text","text":"x"}]`, `"stop"`), "(t) x"},
		{"gemini thought", msg(`"content":[{"text":"t","thought":true},{"text":"x"}]`, `"stop"`), "(t) x"},
		{"gemini thought false", msg(`"content":[{"text":"x","thought":false}]`, `"stop"`), "x"},
		{"redacted", msg(`"content":[{"type":"redacted_thinking","data":"zz"},{"type":"text","text":"x"}]`, `"stop"`), "x"},
		{
			"tool_use part",
			msg(`"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"ls","input":{"p":1}}]`, `"tool_use"`),
			"x " + A + "|ERR",
		},
		{
			"tool_use part stop",
			msg(`"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"ls","input":{"p":1}}]`, `"stop"`),
			"x " + A + "|ERR",
		},
		{"tool_call part", msg(`"content":[{"type":"tool_call","id":"a","function":{"name":"ls","arguments":"{\"p\":1}"}}]`, `"stop"`), A + "|ERR"},
		{"function_call part", msg(`"content":[{"type":"function_call","call_id":"a","name":"ls","arguments":"{\"p\":1}"}]`, `"stop"`), A + "|ERR"},
		{"gemini functionCall", msg(`"content":[{"functionCall":{"name":"ls","args":{"p":1}}}]`, `"stop"`), A + "|ERR"},
		{
			"tool_use beside calls",
			msg(`"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"ls","input":{"p":1}}],"tool_calls":[`+one+`]`, tc),
			"x " + A,
		},
		{"refusal part", msg(`"content":[{"type":"refusal","refusal":"no"}]`, `"stop"`), "no"},
		{"refusal", msg(`"content":null,"refusal":"no"`, `"stop"`), "no"},
		{"image part only", msg(`"content":[{"type":"image_url","image_url":{"url":"data:"}}]`, `"stop"`), "ERR|"},
		{"content object", msg(`"content":{"text":"x"}`, `"stop"`), "x"},
		{"content number", msg(`"content":5`, `"stop"`), "5|ERR"},
		{"message list", `{"choices":[{"message":[{"content":"x"}],"finish_reason":"stop"}]}`, "x|ERR"},
		{"message text", `{"choices":[{"message":"x","finish_reason":"stop"}]}`, "x|ERR"},
		{"args in `args`", call(`[{"id":"a","function":{"name":"ls","args":{"p":1}}}]`), A + "|ERR"},
		{"parameters text", call(`[{"id":"a","function":{"name":"ls","parameters":"{\"p\":1}"}}]`), A},
		{"arguments empty and parameters", call(`[{"id":"a","function":{"name":"ls","arguments":"","parameters":{"p":1}}}]`), A},
		{"arguments {} and input", call(`[{"id":"a","function":{"name":"ls","arguments":{},"input":{"p":1}}}]`), A + "|ERR"},
		{"arguments beside function", call(`[{"id":"a","function":{"name":"ls"},"arguments":"{\"p\":1}"}]`), A},
		{"name beside function", call(`[{"id":"a","name":"ls","function":{"arguments":"{\"p\":1}"}}]`), A},
		{"tool_name", call(`[{"id":"a","tool_name":"ls","arguments":"{\"p\":1}"}]`), A + "|ERR"},
		{"calls beside the message", `{"choices":[{"message":{"content":"x"},"tool_calls":[` + one + `],"finish_reason":"stop"}]}`, "x " + A + "|ERR"},
		// streams
		{"s plain", st(q("0", a, ls, h1), q("0", "", "", t1)), A},
		{"s index missing", st(q("", a, ls, h1), q("", "", "", t1)), A},
		{"s index missing two", st(q("", a, ls, h1), q("", "", "", t1), q("", b, ls, h2), q("", "", "", t2)), AB},
		{"s index null", st(q("null", a, ls, h1), q("null", "", "", t1), q("null", b, ls, h2), q("null", "", "", t2)), AB},
		{"s index doubled", st(q("0", a, ls, h1), q("0", "", "", t1), q("0", b, ls, h2), q("0", "", "", t2)), AB},
		{"s index falls", st(q("1", a, ls, h1), q("1", "", "", t1), q("0", b, ls, h2), q("0", "", "", t2)), AB},
		{"s index 1 only", st(q("1", a, ls, h1), q("1", "", "", t1)), A},
		{"s index float", st(q("0.0", a, ls, h1), q("0.0", "", "", t1), q("1.0", b, ls, h2), q("1.0", "", "", t2)), AB},
		{"s index text", st(q(`"0"`, a, ls, h1), q(`"0"`, "", "", t1), q(`"1"`, b, ls, h2), q(`"1"`, "", "", t2)), AB},
		{"s index text mixed", st(q(`"0"`, a, ls, h1), q(`0`, "", "", t1)), A},
		{"s index words", st(q(`"first"`, a, ls, h1), q(`"first"`, "", "", t1)), A},
		{"s index negative", st(q(`-1`, a, ls, h1), q(`-1`, "", "", t1)), A},
		{"s head index tail none", st(q(`0`, a, ls, h1), q(``, "", "", t1)), A},
		{"s head none tail index", st(q(``, a, ls, h1), q(`0`, "", "", t1)), A},
		{"s heads none tails index two", st(q(``, a, ls, e), q(``, b, ls, e), q(`0`, "", "", `"{\"p\":1}"`), q(`1`, "", "", `"{\"p\":2}"`)), AB + "|ERR"},
		{"s heads none tails index two turned", st(q(``, a, ls, h1), q(``, b, ls, h2), q(`1`, "", "", t2), q(`0`, "", "", t1)), AB + "|ERR"},
		{"s interleaved index", st(q("0", a, ls, h1), q("1", b, ls, h2), q("0", "", "", t1), q("1", "", "", t2)), AB},
		{"s interleaved index turned", st(q("0", a, ls, h1), q("1", b, ls, h2), q("1", "", "", t2), q("0", "", "", t1)), AB},
		{"s interleaved id only", st(q("", a, ls, h1), q("", b, ls, h2), q("", a, "", t1), q("", b, "", t2)), AB},
		{"s interleaved id, all index 0", st(q("0", a, ls, h1), q("0", b, ls, h2), q("0", a, "", t1), q("0", b, "", t2)), AB},
		{"s interleaved id, all index 0, empty heads", st(q("0", a, ls, e), q("0", b, ls, e), q("0", a, "", `"{\"p\":1}"`), q("0", b, "", `"{\"p\":2}"`)), AB},
		{"s interleaved id, all index 0, turned", st(q("0", a, ls, e), q("0", b, ls, e), q("0", b, "", `"{\"p\":2}"`), q("0", a, "", `"{\"p\":1}"`)), AB},
		{"s interleaved id+name, all index 0", st(q("0", a, ls, h1), q("0", b, ls, h2), q("0", a, ls, t1), q("0", b, ls, t2)), AB},
		{"s interleaved id+name, no index", st(q("", a, ls, h1), q("", b, ls, h2), q("", a, ls, t1), q("", b, ls, t2)), AB},
		{"s interleaved id null later", st(q("0", a, ls, h1), q("1", b, ls, h2), q("0", "null", "null", t1), q("1", "null", "null", t2)), AB},
		{"s interleaved id empty later", st(q("0", a, ls, h1), q("1", b, ls, h2), q("0", e, e, t1), q("1", e, e, t2)), AB},
		{"s same id both", st(q("0", a, ls, h1), q("0", a, e, t1), q("1", a, ls, h2), q("1", a, e, t2)), AB},
		{"s same id, no index", st(q("", a, ls, h1), q("", a, "", t1), q("", a, ls, h2), q("", a, "", t2)), AB},
		{"s empty id, no index", st(q("", e, ls, h1), q("", e, "", t1), q("", e, ls, h2), q("", e, "", t2)), AB},
		{"s new id each", st(q("0", a, ls, h1), q("0", `"x1"`, "", t1), q("1", b, ls, h2), q("1", `"x2"`, "", t2)), AB},
		{"s new id+index each", st(q("0", a, ls, h1), q("1", b, "", t1)), A},
		{"s name each", st(q("0", a, ls, h1), q("0", a, ls, t1)), A},
		{"s name each no id", st(q("0", "", ls, h1), q("0", "", ls, t1)), A},
		{"s name each no id no index", st(q("", "", ls, h1), q("", "", ls, t1)), A},
		{"s name each two", st(q("0", a, ls, h1), q("0", a, ls, t1), q("1", b, ls, h2), q("1", b, ls, t2)), AB},
		{"s name in pieces", st(q("0", a, `"l"`, e), q("0", "", `"s"`, e), q("0", "", "", `"{\"p\":1}"`)), A},
		{"s name in pieces, id each", st(q("0", a, `"l"`, e), q("0", a, `"s"`, `"{\"p\":1}"`)), A},
		{"s name growing", st(q("0", a, `"l"`, e), q("0", "", `"ls"`, h1), q("0", "", `"ls"`, t1)), A},
		{"s name late", st(q("0", a, e, h1), q("0", "", "", t1), q("0", "", ls, e)), A},
		{"s name after args", st(q("0", a, "", h1), q("0", "", ls, t1)), A},
		{"s name at the end again", st(q("0", a, ls, h1), q("0", "", "", t1), q("0", a, ls, e)), A},
		{"s name with blank piece", st(q("0", a, `" ls"`, h1), q("0", "", "", t1)), A},
		{"s blank name later", st(q("0", a, ls, h1), q("0", "", `" "`, t1)), A},
		{"s never a name", st(q("0", a, "", h1), q("0", "", "", t1)), "BAD"},
		{"s args object", st(q("0", a, ls, `{"p":1}`)), A},
		{"s args object two", st(q("0", a, ls, `{"p":1}`), q("0", b, ls, `{"p":2}`)), AB},
		{"s args object two no id", st(q("0", "", ls, `{"p":1}`), q("0", "", ls, `{"p":2}`)), AB},
		{"s args object, name differs, no id", st(q("0", "", ls, `{"p":1}`), q("0", "", `"cat"`, `{"p":2}`)), A + ` cat{"p":2}`},
		{"s args null then", st(q("0", a, ls, `null`), q("0", "", "", `"{\"p\":1}"`)), A},
		{"s args {} then text", st(q("0", a, ls, `{}`), q("0", "", "", `"{\"p\":1}"`)), A},
		{"s args {} text then pieces", st(q("0", a, ls, `"{}"`), q("0", "", "", h1), q("0", "", "", t1)), A},
		{"s args growing text", sarg(`"{\"p\""`, `"{\"p\":1"`, `"{\"p\":1}"`), A},
		{"s args growing objects", sarg(`{}`, `{"p":1}`, `{"p":1,"q":2}`), `ls{"p":1,"q":2}|lsBAD|ERR`},
		{"s args growing object values", sarg(`{"p":"a"}`, `{"p":"ab"}`), `ls{"p":"ab"}|lsBAD|ERR`},
		{"s args object pieces of members", sarg(`{"p":1}`, `{"q":2}`), `ls{"p":1,"q":2}|lsBAD|ERR`},
		{"s args repeated whole", sarg(`"{\"p\":1}"`, `"{\"p\":1}"`), A},
		{"s args pieces then whole", sarg(`"{\"p\""`, `":1}"`, `"{\"p\":1}"`), A},
		{"s args pieces then {}", sarg(`"{\"p\""`, `":1}"`, `"{}"`), A},
		{"s args pieces then }", sarg(`"{\"p\""`, `":1}"`, `"}"`), A + "|lsBAD|ERR"},
		{"s args number piece", sarg(`"{\"p\":"`, `1`, `"}"`), A},
		{"s args escape split", sarg(`"{\"p\":\"a\\"`, `"n\"}"`), `ls{"p":"a\n"}`},
		{"s args uescape split", sarg(`"{\"p\":\"\\u00"`, `"e9\"}"`), `ls{"p":"\u00e9"}`},
		{"s args surrogate split", sarg(`"{\"p\":\"\ud83d"`, `"\ude00\"}"`), `ls{"p":"😀"}`},
		{"s args surrogate escapes split", sarg(`"{\"p\":\"\\ud83d"`, `"\\ude00\"}"`), `ls{"p":"\ud83d\ude00"}`},
		{"s args doubled text", sarg(`"\"{\\\"p\\\""`, `":1}\""`), `ls"{\"p\":1}"`},
		{"s args bool", sarg(`false`), "lsBAD|ERR"},
		{"s args null only", sarg(`null`), "ls"},
		{"s cut, stop", st(q("0", a, ls, h1)), "lsBAD|ERR"},
		{"s null call", st(d(`[null]`), q("0", a, ls, h1), q("0", "", "", t1)), A},
		{"s calls null", st(d(`null`), q("0", a, ls, h1), d(`null`), q("0", "", "", t1)), A},
		{"s calls []", st(d(`[]`), q("0", a, ls, h1), d(`[]`), q("0", "", "", t1)), A},
		{"s calls {} one", st(d(`{"index":0,"id":"a",` + fn + `}`)), A},
		{"s two in a delta", st(d(`[{"index":0,"id":"a",` + fn + `},{"index":1,"id":"b",` + fn2 + `}]`)), AB},
		{"s two in a delta no index", st(d(`[{"id":"a",` + fn + `},{"id":"b",` + fn2 + `}]`)), AB},
		{"s two in a delta no id no index", st(d(`[{` + fn + `},{` + fn2 + `}]`)), AB},
		{
			"s two in a delta split",
			st(d(`[{"index":0,"id":"a","function":{"name":"ls","arguments":`+h1+`}},{"index":1,"id":"b","function":{"name":"ls","arguments":`+h2+`}}]`),
				d(`[{"index":0,"function":{"arguments":`+t1+`}},{"index":1,"function":{"arguments":`+t2+`}}]`)),
			AB,
		},
		{
			"s two in a delta split no index",
			st(d(`[{"id":"a","function":{"name":"ls","arguments":`+h1+`}},{"id":"b","function":{"name":"ls","arguments":`+h2+`}}]`),
				d(`[{"function":{"arguments":`+t1+`}},{"function":{"arguments":`+t2+`}}]`)),
			AB + "|ERR|lsBAD lsBAD",
		},
		{
			"s two in a delta split no index, ids",
			st(d(`[{"id":"a","function":{"name":"ls","arguments":`+h1+`}},{"id":"b","function":{"name":"ls","arguments":`+h2+`}}]`),
				d(`[{"id":"a","function":{"arguments":`+t1+`}},{"id":"b","function":{"arguments":`+t2+`}}]`)),
			AB,
		},
		{"s the list again whole", st(d(`[`+`{"index":0,"id":"a",`+fn+`}]`), d(`[{"index":0,"id":"a",`+fn+`},{"index":1,"id":"b",`+fn2+`}]`)), AB},
		{"s same args, two ids, two places", st(d(`[{"index":0,"id":"a",` + fn + `},{"index":1,"id":"b",` + fn + `}]`)), A + " " + A},
		{"s same args, two ids, one place", st(d(`[{"index":0,"id":"a",` + fn + `},{"index":0,"id":"b",` + fn + `}]`)), A + " " + A},
		{"s same args, one id, two places", st(d(`[{"index":0,"id":"a",` + fn + `},{"index":1,"id":"a",` + fn + `}]`)), A + " " + A},
		{"s no args two", st(q("0", a, ls, e), q("1", b, `"pwd"`, e)), "ls pwd"},
		{"s no args two index 0", st(q("0", a, ls, e), q("0", b, `"pwd"`, e)), "ls pwd"},
		{"s no args two same name index 0", st(q("0", a, ls, e), q("0", b, ls, e)), "ls ls"},
		{"s no args {} two no index no id", st(q("", "", ls, `"{}"`), q("", "", `"pwd"`, `"{}"`)), "ls{} pwd{}"},
		{"s no args then args index 0 ids", st(q("0", a, `"pwd"`, e), q("0", b, ls, `"{\"p\":1}"`)), "pwd " + A},
		{
			"s legacy",
			ss(policytest.Delta(`{"function_call":{"name":"ls","arguments":""}}`, ""), policytest.Delta(`{"function_call":{"arguments":"{\"p\""}}`, ""),
				policytest.Delta(`{"function_call":{"arguments":":1}"}}`, "")),
			A,
		},
		{
			"s legacy name each",
			ss(policytest.Delta(`{"function_call":{"name":"ls","arguments":"{\"p\""}}`, ""),
				policytest.Delta(`{"function_call":{"name":"ls","arguments":":1}"}}`, "")),
			A,
		},
		{
			"s legacy and new",
			ss(policytest.Delta(`{"function_call":{"name":"ls","arguments":"{\"p\""},"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}]}`,
				""),
				policytest.Delta(`{"function_call":{"arguments":":1}"},"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, "")),
			A,
		},
		{"s legacy and empty new", ss(policytest.Delta(`{"tool_calls":[null],"function_call":{"name":"ls","arguments":"{\"p\":1}"}}`, "")), A},
		{"s flat", st(d(`[{"index":0,"id":"a","name":"ls","arguments":"{\"p\""}]`), d(`[{"index":0,"arguments":":1}"}]`)), A},
		{"s head nested tail flat", st(q("0", a, ls, h1), d(`[{"index":0,"arguments":":1}"}]`)), A},
		{"s function null tail flat", st(q("0", a, ls, h1), d(`[{"index":0,"function":null,"arguments":":1}"}]`)), A},
		{"s function {} tail flat", st(q("0", a, ls, h1), d(`[{"index":0,"function":{},"arguments":":1}"}]`)), A},
		{"s delta null", st(q("0", a, ls, h1), `{"choices":[{"index":0,"delta":null}]}`, q("0", "", "", t1)), A},
		{"s delta []", st(q("0", a, ls, h1), `{"choices":[{"index":0,"delta":[]}]}`, q("0", "", "", t1)), A + "|ERR"},
		{"s delta {} choices null", st(q("0", a, ls, h1), `{"choices":null}`, q("0", "", "", t1)), A},
		{"s document null", st(q("0", a, ls, h1), `null`, q("0", "", "", t1)), A + "|ERR"},
		{"s document {}", st(q("0", a, ls, h1), `{}`, q("0", "", "", t1)), A},
		{
			"s content beside",
			st(policytest.Delta(`{"content":"x","tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}]}`, ""), q("0", "", "", t1)),
			"x " + A,
		},
		{"s content between", st(q("0", a, ls, h1), policytest.Delta(`{"content":"x"}`, ""), q("0", "", "", t1)), "x " + A},
		{
			"s finish with last",
			policytest.SSE(q("0", a, ls, h1), policytest.Delta(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, "tool_calls")),
			A,
		},
		{
			"s finish early",
			policytest.SSE(policytest.Delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}]}`, "tool_calls"),
				q("0", "", "", t1)),
			A,
		},
		{"s finish stop", ss(q("0", a, ls, h1), q("0", "", "", t1)), A},
		{"s finish length cut", policytest.SSE(q("0", a, ls, h1), policytest.Delta(`{}`, "length")), "lsBAD|ls"},
		{
			"s two choices interleaved",
			st(`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"z",`+fn2+`}]}}]}`, q("0", a, ls, h1),
				`{"choices":[{"index":1,"delta":{"content":"zz"},"finish_reason":"stop"}]}`, q("0", "", "", t1)),
			A,
		},
		{
			"s only choice 1",
			policytest.SSE(`{"choices":[{"index":1,"delta":{"content":"x"}}]}`, `{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`),
			"x|ERR",
		},
		{
			"s thinking parts",
			ss(policytest.Delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]}]}`, ""),
				policytest.Delta(`{"content":[{"type":"text","text":"x"}]}`, "")),
			"(t) x",
		},
		{
			"s reasoning parts",
			ss(policytest.Delta(`{"content":[{"type":"reasoning","text":"t"}]}`, ""), policytest.Delta(`{"content":[{"type":"text","text":"x"}]}`, "")),
			"(t) x",
		},
		{"s tool_use part", ss(policytest.Delta(`{"content":[{"type":"tool_use","id":"a","name":"ls","input":{"p":1}}]}`, "")), A + "|ERR"},
		{"s refusal", ss(policytest.Delta(`{"refusal":"n"}`, ""), policytest.Delta(`{"refusal":"o"}`, "")), "no"},
		{"s extra only", st(d(`[{"index":0,"extra_content":{"google":{"thought_signature":"s"}},"id":"a",` + fn + `}]`)), A},
		{"s extra later", st(d(`[{"index":0,"id":"a",`+fn+`}]`), d(`[{"index":0,"extra_content":{"google":{"thought_signature":"s"}}}]`)), A},
		{
			"s anthropic events",
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\",\"content\":[]}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
			"ERR",
		},
		{"anthropic plain", `{"type":"message","role":"assistant","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}`, "ERR"},
		{"gemini plain", `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`, "ERR"},
		{"responses plain", `{"output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]}`, "ERR"},
		{"ollama plain", `{"model":"m","message":{"role":"assistant","content":"x"},"done":true}`, "x|ERR"},
		{"data wrapper", `{"data":` + msg(`"content":"x"`, `"stop"`) + `}`, "x|ERR"},
		{"tgi generated", `{"generated_text":"x"}`, "ERR"},
		{"detail", `{"detail":"boom"}`, "ERR"},
		{"success false", `{"success":false,"msg":"boom"}`, "ERR"},
		{"error beside empty answer", `{"error":{"message":"boom"},"choices":[{"message":{"content":""},"finish_reason":"stop"}]}`, "ERR"},
		{"error list", `{"error":["boom"],"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, "ERR"},
		{"error true", `{"error":true,"message":"boom","choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, "ERR"},
		{"error number", `{"error":500,"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, "ERR"},
		{"error 0", `{"error":0,"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, "x"},
		{"errors", `{"errors":[{"message":"boom"}]}`, "ERR"},
		{"base_resp", `{"base_resp":{"status_code":1002,"status_msg":"rate"},"choices":null}`, "ERR"},
		{"s error last", policytest.SSE(q("0", a, ls, h1), `{"error":{"message":"boom"}}`), "ERR"},
		{"s error text", policytest.SSE(q("0", a, ls, h1), q("0", "", "", t1), `{"error":"boom"}`), "ERR"},
		{"s no finish, DONE", policytest.SSE(q("0", a, ls, h1), q("0", "", "", t1)), A + "|ERR"},
		{"s no finish, no DONE", "data: " + q("0", a, ls, h1) + "\n\ndata: " + q("0", "", "", t1) + "\n\n", "ERR"},
	} {
		for _, stream := range []bool{true, false} {
			pl := policytest.Chat(t, policytest.Serve(t, x[1]).URL+"/v1", wire.Options{Retries: -1, LimitedRetries: -1}, chat.Options{Stream: stream})
			turn, err := policytest.Next(t, pl, policy.Options{}, "x", nil)
			got := spelled(turn, err)
			ok := false
			for _, w := range strings.Split(x[2], "|") {
				ok = ok || w == got
			}
			if !ok {
				t.Errorf("%s (%v): %s; want %s; %v", x[0], stream, got, x[2], err)
			}
		}
	}
}
