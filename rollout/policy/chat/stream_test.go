package chat_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// Streams of real servers, as they came over the wire.
func TestStreamsOfServers(t *testing.T) {
	terminal := func(id, word string) trajectory.Call {
		return trajectory.Call{ID: id, Name: "terminal", Arguments: `{"command": "echo ` + word + `"}`}
	}
	tests := map[string]struct {
		content string
		calls   []trajectory.Call
		usage   trajectory.Usage
	}{
		"bom":           {content: "The answer is 42"},
		"empty-data":    {content: "Hello"},
		"split-data":    {content: "Hello"},
		"halves":        {content: "a😀b"},
		"float":         {content: "Hello", usage: trajectory.Usage{Prompt: 11, Completion: 7}},
		"cost_string":   {content: "Hello", usage: trajectory.Usage{Prompt: 11, Completion: 7, Cost: 0.0012, CostKnown: true}},
		"head0-tail1":   {calls: []trajectory.Call{terminal("a", "AAA"), terminal("b", "BBB")}},
		"name-repeated": {calls: []trajectory.Call{terminal("a", "AAA")}},
		"same-id":       {calls: []trajectory.Call{terminal("a", "AAA"), terminal("call_1_1", "BBB")}},
	}
	for name, tt := range tests {
		raw, err := os.ReadFile(filepath.Join("testdata", "streams", name+".sse"))
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{"\n", "\r\n", "\r"} {
			turn := one(t, strings.ReplaceAll(string(raw), "\n", end), true)
			m := turn.Sampled.Message
			if m.Content() != tt.content || !reflect.DeepEqual(m.Calls, tt.calls) || turn.Usage != tt.usage {
				t.Errorf("%s, lines that end with %q: %q %+v %+v", name, end, m.Content(), m.Calls, turn.Usage)
			}
		}
	}
}

// What is in a stream and is no event, and a stream that does not end, are failures.
func TestBrokenStreams(t *testing.T) {
	good := "data: " + policytest.Delta(`{"content":"Hello"}`, "") + "\n\n"
	tests := []struct {
		name, in string
		kind     policy.ErrorKind
	}{
		{"no end at all", good, policy.Malformed},
		{"an end mark without a finish", good + "data: [DONE]\n\n", policy.Malformed},
		{"cut in a line", good + "data: " + policytest.Delta(`{}`, "stop")[:20], policy.Malformed},
		{"an error as a bare line", good + `{"error":{"message":"out of memory","code":500}}` + "\n\n", policy.Unavailable},
		{"an error as an event", good + "event: error\ndata: {\"error\":{\"message\":\"busy\",\"code\":503}}\n\n", policy.Limited},
		{"words", good + "upstream timed out after 30 s\n\n" + "data: " + policytest.Delta(`{}`, "stop") + "\n\n", policy.Malformed},
		{"nothing", "", policy.Malformed},
		{
			"a piece in another field",
			"foo: " + policytest.Delta(`{"content":"Hello "}`, "") + "\n\n" + good + "data: " + policytest.Delta(`{}`, "stop") + "\n\n",
			policy.Malformed,
		},
		{"cut in a line behind the finish", good + "data: " + policytest.Delta(`{}`, "stop") + "\n\ndata: {\"choices\":[", policy.Malformed},
	}
	for _, tt := range tests {
		p := policytest.Chat(t, policytest.Serve(t, tt.in).URL+"/v1", wire.Options{Retries: -1, LimitedRetries: -1}, chat.Options{Stream: true})
		if turn, err := policytest.Next(t, p, policy.Options{}, "x", nil); policytest.Kind(err) != tt.kind {
			t.Errorf("%s: %+v, %v, want %s", tt.name, turn.Sampled.Message, err, tt.kind)
		}
	}
	for name, in := range map[string]string{
		"another case":              "DATA: " + good[6:] + "Data: " + policytest.Delta(`{}`, "stop") + "\n\n",
		"no empty lines":            good[:len(good)-1] + "data: " + policytest.Delta(`{}`, "stop") + "\ndata: [DONE]\n",
		"no line feed at the end":   good + "data: " + policytest.Delta(`{}`, "stop"),
		"pings":                     "event: ping\ndata: ping\n\n" + good + "event: ping\ndata: ping\n\ndata: " + policytest.Delta(`{}`, "stop") + "\n\n",
		"a mark before later lines": good + "\ufeffdata: " + policytest.Delta(`{}`, "stop") + "\n\n\ufeffdata: [DONE]\n\n",
	} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			in := strings.ReplaceAll(in, "\n", end)
			if m := one(t, in, true).Sampled.Message; m.Content() != "Hello" {
				t.Errorf("%s: %q", name, m.Content())
			}
			if m, err := chat.Read([]byte(in)); err != nil || m.Content() != "Hello" {
				t.Errorf("%s, stored: %q, %v", name, m.Content(), err)
			}
		}
	}
	if turn := one(t, good+"data: "+policytest.Delta(`{}`, "stop")+"\n\ndata: [DONE]", true); turn.Sampled.Message.Content() != "Hello" {
		t.Errorf("an end mark without a line feed: %+v", turn.Sampled.Message)
	}
}

// TestTextParts: what a server writes as a list of parts is text all the same.
func TestTextParts(t *testing.T) {
	tests := []struct{ fields, content, reasoning string }{
		{`"content":"yes","reasoning_content":["w","hy"]`, "yes", "why"},
		{`"content":"yes","reasoning_content":[{"type":"text","text":"why"}]`, "yes", "why"},
		{`"content":[{"type":"thinking","thinking":[{"type":"text","text":"why"}]},{"type":"text","text":"yes"}]`, "yes", "why"},
		{`"content":{"type":"text","text":"yes"},"reasoning_content":null`, "yes", ""},
		{`"content":null,"refusal":"no"`, "no", ""},
	}
	for _, tt := range tests {
		for _, stream := range []bool{false, true} {
			in := `{"choices":[{"message":{` + tt.fields + `},"finish_reason":"stop"}]}`
			if stream {
				in = policytest.SSE(policytest.Delta("{"+tt.fields+"}", ""), policytest.Delta("{}", "stop"))
			}
			if m := one(t, in, stream).Sampled.Message; m.Content() != tt.content || m.Reasoning != tt.reasoning {
				t.Errorf("%s (stream %v): %q, %q", tt.fields, stream, m.Content(), m.Reasoning)
			}
		}
	}
}

// cutter says one answer in many ways.
type cutter struct{ *rand.Rand }

// quoted is a JSON string whose characters are spelled at random.
func (c cutter) quoted(units []uint16) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(units); i++ {
		u := units[i]
		switch {
		case u == '"' || u == '\\':
			b.WriteString(`\` + string(rune(u)))
		case u < ' ' || utf16.IsSurrogate(rune(u)) && !(i+1 < len(units) && c.IntN(2) == 0 && utf16.DecodeRune(rune(u), rune(units[i+1])) != 0xfffd):
			fmt.Fprintf(&b, `\u%04x`, u)
		case utf16.IsSurrogate(rune(u)):
			b.WriteRune(utf16.DecodeRune(rune(u), rune(units[i+1])))
			i++
		case c.IntN(20) == 0:
			fmt.Fprintf(&b, `\u%04X`, u)
		default:
			b.WriteRune(rune(u))
		}
	}
	return b.String() + `"`
}

// pieces cuts a text anywhere, within a character too.
func (c cutter) pieces(s string) (list []string) {
	units := utf16.Encode([]rune(s))
	for len(units) > 0 {
		n := 1 + c.IntN(min(len(units), 9))
		list, units = append(list, c.quoted(units[:n])), units[n:]
	}
	return list
}

// text is a random one.
func (c cutter) text() string {
	words := []string{"a", "é", "日本", "😀", "🏴‍☠️", "\n", "\"", "\\", " ", "</b>", "{", "data:", "\t", "<", "\U0010ffff"}
	var b strings.Builder
	b.WriteByte('x') // think tags at the beginning have a test
	for range c.IntN(12) {
		b.WriteString(words[c.IntN(len(words))])
	}
	return b.String()
}

// frame writes documents as an event stream.
func (c cutter) frame(docs []string) string {
	end := []string{"\n", "\r\n", "\r"}[c.IntN(3)]
	var b strings.Builder
	if c.IntN(4) == 0 {
		b.WriteString("\ufeff")
	}
	gap := end
	if c.IntN(4) == 0 {
		gap = "" // no empty line between events
	}
	data := []string{"data:", "data:", "Data:", "DATA:"}[c.IntN(4)]
	for _, d := range append(docs, "[DONE]") {
		if c.IntN(8) == 0 {
			b.WriteString("\ufeff")
		}
		switch c.IntN(7) {
		case 3:
			b.WriteString(end + "event: ping" + end + data + " ping" + end + end)
		case 0:
			b.WriteString(": ping" + end + end)
		case 1:
			b.WriteString("data:" + end + end)
		case 2:
			b.WriteString("event: message" + end + "id: 7" + end)
		}
		if c.IntN(4) == 0 && d != "[DONE]" { // a space between two members may be a new line
			d = strings.ReplaceAll(d, `,"delta":`, end+`data: ,"delta":`)
		}
		b.WriteString(data + []string{"", " "}[c.IntN(2)] + d + end + gap)
	}
	if c.IntN(4) == 0 { // no end mark, and no end of the last line
		if at := strings.LastIndex(b.String(), data); at > 0 && gap == end {
			return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(b.String()[:at], "\r\n"), "event: message"+end+"id: 7"), "\r\n\ufeff")
		}
	}
	return b.String()
}

// calls are the pieces of calls, in one of the ways of servers.
func (c cutter) calls(list []trajectory.Call) (docs []string) {
	way := c.IntN(8)
	for i, call := range list {
		pieces := append([]string{`""`}, c.pieces(call.Arguments)...)
		switch {
		case way == 5 && len(pieces) > 2: // each piece says all that came before
			for k := 2; k < len(pieces); k++ {
				pieces[k] = pieces[k-1][:len(pieces[k-1])-1] + pieces[k][1:]
			}
		case way == 6:
			pieces = append(pieces, text(call.Arguments), text(call.Arguments))
		case way == 7:
			pieces = append(pieces, `"{}"`)
		}
		for k, piece := range pieces {
			index := fmt.Sprintf(`"index":%d,`, i)
			id := ""
			name := ""
			if k == 0 {
				id, name = `"id":`+text(call.ID)+`,`, `"name":`+text(call.Name)+`,`
			}
			switch {
			case way == 1: // no index
				index = ""
			case way == 2: // id and name each time
				id, name = `"id":`+text(call.ID)+`,`, `"name":`+text(call.Name)+`,`
			case way == 6 && k == len(pieces)-1: // the whole call once more
				id, name = `"id":`+text(call.ID)+`,`, `"name":`+text(call.Name)+`,`
			case way == 3: // every call at 0
				index = `"index":0,`
			case way == 4: // texts as places, nulls for what is missing
				index = fmt.Sprintf(`"index":"%d",`, i)
				if k > 0 {
					id, name = `"id":null,`, `"name":"",`
				}
			}
			docs = append(docs, policytest.Delta(`{"tool_calls":[{`+index+id+`"function":{`+name+`"arguments":`+piece+`}}]}`, ""))
		}
	}
	return docs
}

// However a server cuts, frames and spells an answer, it is the turn of its plain form.
func TestStreamsEqualPlain(t *testing.T) {
	for seed := range uint64(300) {
		c := cutter{rand.New(rand.NewPCG(seed, 15))}
		content, thought := c.text(), ""
		if c.IntN(2) == 0 {
			thought = c.text()
		}
		var list []trajectory.Call
		var plainCalls []string
		for i := range c.IntN(4) {
			raw, _ := json.Marshal(map[string]string{"p": c.text()})
			call := trajectory.Call{ID: fmt.Sprint("c", i), Name: []string{"ls", "cat"}[c.IntN(2)], Arguments: string(raw)}
			list = append(list, call)
			plainCalls = append(plainCalls,
				fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, call.ID, call.Name, text(call.Arguments)))
		}
		finish := []string{"stop", "tool_calls", "length", "content_filter"}[c.IntN(4)]
		if len(list) == 0 && finish == "tool_calls" {
			finish = "stop" // calls that do not come are a failure
		}
		usage := `{"prompt_tokens":9,"completion_tokens":4,"cost":0.5}`
		plain := fmt.Sprintf(`{"model":"m","choices":[{"index":0,"message":{"content":%s,"reasoning_content":%s,"tool_calls":[%s]},"finish_reason":%q}],"usage":%s}`,
			text(content), text(thought), strings.Join(plainCalls, ","), finish, usage)
		docs := []string{`{"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`}
		for _, p := range c.pieces(thought) {
			docs = append(docs, policytest.Delta(`{"reasoning_content":`+p+`}`, ""))
		}
		for _, p := range c.pieces(content) {
			docs = append(docs, policytest.Delta(`{"content":`+p+`}`, ""))
		}
		docs = append(docs, c.calls(list)...)
		docs = append(docs, policytest.Delta(`{}`, finish), `{"choices":[],"usage":{"prompt_tokens":9.0,"completion_tokens":"4","cost":"0.5"}}`)
		stream := c.frame(docs)
		want, got := one(t, plain, false), one(t, stream, true)
		want.Took, got.Took = 0, 0
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("seed %d:\n%+v\nstreamed:\n%+v\n%s", seed, want, got, stream)
		}
		if m := got.Sampled.Message; m.Content() != content || m.Reasoning != thought || !reflect.DeepEqual(m.Calls, list) {
			t.Fatalf("seed %d: %+v, want %q, %q, %+v", seed, m, content, thought, list)
		}
	}
}
