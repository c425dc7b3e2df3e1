package chattemplate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"hermes/parsers/chattemplate"
	"hermes/trajectory"
)

func joined(pieces []chattemplate.Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// weatherTools are the tools of the conversations below.
func weatherTools() []trajectory.ToolSpec {
	return []trajectory.ToolSpec{
		{
			Name:        "get_weather",
			Description: "Weather of a city.",
			Parameters:  json.RawMessage(`{"type": "object", "properties": {"city": {"type": "string", "description": "City"}, "days": {"type": "integer", "description": "Days"}}, "required": ["city"]}`),
		},
		{
			Name:        "now",
			Description: "The time.",
			Parameters:  json.RawMessage(`{"type": "object", "properties": {"zone": {"type": "string", "description": "Zone"}}, "required": []}`),
		},
	}
}

func call(i int, name, args string) trajectory.Call {
	return trajectory.Call{ID: fmt.Sprintf("call%05d", i), Name: name, Arguments: args}
}

func result(i int, name, text string) trajectory.Message {
	m := trajectory.Text(trajectory.Tool, text)
	m.CallID, m.Name = fmt.Sprintf("call%05d", i), name
	return m
}

func says(text string, calls ...trajectory.Call) trajectory.Message {
	m := trajectory.Text(trajectory.Assistant, text)
	m.Calls = calls
	return m
}

// script is a conversation of answers and what follows each.
type script struct {
	name    string
	opening []trajectory.Message
	turns   []turn
}

type turn struct {
	answer trajectory.Message
	tail   []trajectory.Message
}

func asks(text string) trajectory.Message { return trajectory.Text(trajectory.User, text) }

func scripts() []script {
	opening := []trajectory.Message{trajectory.Text(trajectory.System, "Be brief."), asks("How is Zürich — 天気?")}
	return []script{
		{"loop", opening, []turn{
			{says("", call(1, "get_weather", `{"city": "Zürich", "days": 3}`)),
				[]trajectory.Message{result(1, "get_weather", `{"temp": 21.5, "sky": "½ blue"}`)}},
			{says("", call(2, "now", `{"zone": "CET"}`)), []trajectory.Message{result(2, "now", "12:00\nCET")}},
			{says("", call(3, "now", `{"zone": "UTC"}`)), []trajectory.Message{result(3, "now", "")}},
		}},
		{"parallel", opening, []turn{
			{says("", call(1, "get_weather", `{"city": "Bern"}`), call(2, "now", `{"zone": "UTC"}`)),
				[]trajectory.Message{result(1, "get_weather", "rain"), result(2, "now", "11:00")}},
			{says("", call(3, "now", `{"zone": "CET"}`)), []trajectory.Message{result(3, "now", "12:00")}},
		}},
		{"chat", opening, []turn{
			{says("Fine."), []trajectory.Message{asks("And\n\ntomorrow?")}},
			{says("Rain 🌧."), []trajectory.Message{asks("Thanks")}},
		}},
		{"both", opening, []turn{
			{says("", call(1, "get_weather", `{"city": "Bern"}`)), []trajectory.Message{result(1, "get_weather", "rain")}},
			{says("Rain."), []trajectory.Message{asks("Again")}},
			{says("", call(2, "get_weather", `{"city": "Bern"}`)), []trajectory.Message{result(2, "get_weather", "sun")}},
		}},
	}
}

// play runs a script: a prompt, answers as the template itself writes them, bridges.
//
//	exact      prompt, answers and bridges are together one rendering of the whole
//	rewrites   Bridge said ErrRewrites
//	refused    the template refuses the conversation
//	past       the template renders the past in another way later on; each bridge is
//	           still what the template wrote after the answer at its time
//	broken     a bridge is not what the template writes
func play(tmpl *chattemplate.Template, s script) (class, why, seq string, msgs []trajectory.Message) {
	tools := weatherTools()
	msgs = s.opening
	first, err := tmpl.Prompt(msgs, tools)
	if err != nil {
		return "refused", err.Error(), "", nil
	}
	seq = joined(first)
	past := ""
	for i, turn := range s.turns {
		prompt, err := tmpl.Render(msgs, tools, true)
		if err != nil {
			return "refused", err.Error(), "", nil
		}
		last := tmpl.Last(msgs, turn.answer, turn.tail, tools)
		msgs = append(msgs[:len(msgs):len(msgs)], turn.answer)
		pieces, err := tmpl.Bridge(msgs, last, turn.tail, tools)
		if errors.Is(err, chattemplate.ErrRewrites) {
			return "rewrites", err.Error(), "", nil
		}
		if err != nil {
			return "refused", err.Error(), "", nil
		}
		msgs = append(msgs, turn.tail...)
		whole, err := tmpl.Render(msgs, tools, true)
		if err != nil {
			return "refused", err.Error(), "", nil
		}
		bridge := joined(pieces)
		if !strings.HasSuffix(whole, bridge) {
			return "broken", fmt.Sprintf("turn %d: bridge %q, whole %q", i, bridge, whole[max(0, len(whole)-len(bridge)-40):]), "", nil
		}
		if !strings.HasPrefix(whole, prompt) || !strings.HasPrefix(whole, seq) {
			past = fmt.Sprintf("turn %d changes the text from byte %d of %d", i, common(seq, whole), len(seq))
			seq += "…" + bridge
			continue
		}
		seq = whole[:len(whole)-len(bridge)] + bridge
	}
	if past != "" {
		return "past", past, seq, msgs
	}
	return "exact", "", seq, msgs
}

func common(a, b string) int {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return i
}

// TestBridgesOfPublicTemplates plays four conversations with every public template. No bridge may differ from what the template
// writes after the answer.
func TestBridgesOfPublicTemplates(t *testing.T) {
	counts := map[string]map[string]int{}
	loops := 0
	results := 0
	users := 0
	for _, s := range sources(t) {
		tmpl := open(t, s)
		v := tmpl.Verdict()
		if v.BridgesUser {
			users++
		}
		if v.ToolLoop {
			loops++
		}
		if v.BridgesResults {
			results++
		}
		for _, sc := range scripts() {
			class, why, _, _ := play(tmpl, sc)
			if counts[sc.name] == nil {
				counts[sc.name] = map[string]int{}
			}
			if v.ToolLoop {
				counts[sc.name][class]++
			}
			if class == "broken" || class == "rewrites" && sc.name == "loop" && v.BridgesResults {
				t.Errorf("%s %s: %s %s", s.name, sc.name, class, why)
			}
		}
	}
	t.Logf("of %d templates with a tool loop %d bridge results; %d of all bridge a user's message; conversations: %v", loops, results, users, counts)
	if loops < 81 || results < 80 || users < 111 {
		t.Errorf("fewer than before: %d tool loops, %d bridge results, %d bridge users", loops, results, users)
	}
	if exact := counts["loop"]["exact"]; exact < 55 {
		t.Errorf("%d tool loops are exactly one rendering of the whole, it was 55", exact)
	}
}
