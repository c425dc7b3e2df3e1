package parsers_test

import (
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/trajectory"
)

// thinkBlocks are the blocks of families that have another one than <think>.
var thinkBlocks = map[string][2]string{"longcat": {"<longcat_think>", "</longcat_think>"}, "seed_oss": {"<seed:think>", "</seed:think>"},
	"mistral": {"[THINK]", "[/THINK]"}, "minimax_m3": {"<mm:think>", "</mm:think>"}, "gemma4": {"<|channel>thought\n", "<channel|>"},
	"apertus": {
		"<|inner_prefix|>",
		"<|inner_suffix|>",
	}, "cohere_command3": {"<|START_THINKING|>", "<|END_THINKING|>"}, "cohere_command4": {"<|START_THINKING|>", "<|END_THINKING|>"},
	"plamo3": {"<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"}, "k2_horizon": {"<ifm|think_fast>", "</ifm|think_fast>"}}

func thinkBlock(f parsers.Family) [2]string {
	if b, ok := thinkBlocks[f.Name]; ok {
		return b
	}
	return [2]string{"<think>", "</think>"}
}

// noThink are families without a block of reasoning, or with a channel for it.
var noThink = map[string]bool{"jamba": true, "phi4_mini_json": true, "granite": true, "granite-20b-fc": true, "gigachat3": true, "json_array": true,
	"functiongemma": true, "openai": true, "inkling": true, "kimi_k3": true, "muse_glimmer": true, "muse": true, "beam": true, "solar_open": true, "functionary_v3_2": true}

// TestThinkMarksAreText: a mark of reasoning in an argument, or in the content behind the
// reasoning, loses no call in any family.
func TestThinkMarksAreText(t *testing.T) {
	for _, f := range families() {
		b := thinkBlock(f)
		for _, args := range []string{
			`{"path": "` + strings.TrimSpace(b[0]) + `"}`,
			`{"path": "a ` + b[1] + ` b"}`,
			`{"path": "` + strings.TrimSpace(b[0]) + `x` + b[1] + `"}`,
		} {
			want := parsers.Parsed{
				Content: "Write " + strings.TrimSpace(b[0]) + " first.",
				Calls:   []parsers.Call{{Name: "ls", Arguments: args}, {Name: "now", Arguments: "{}"}},
			}
			if oneCall[f.Name] {
				want.Calls = want.Calls[:1]
			}
			if noContent[f.Name] || f.Name == "pythonic" || f.Name == "llama4_pythonic" {
				want.Content = ""
			}
			text := f.Format(want)
			for _, in := range []struct {
				text   string
				inside bool
			}{{text, false}, {b[0] + "hm" + b[1] + text, false}, {"hm" + b[1] + text, true}} {
				if noThink[f.Name] && in.text != text {
					continue
				}
				got := f.Parse(in.text, parsers.ParseOptions{Tools: probeTools, InReasoning: in.inside})
				if !sameAs(got.Calls, want.Calls) {
					t.Errorf("%s (in reasoning %v): %q: calls %+v, faults %+v", f.Name, in.inside, in.text, got.Calls, got.Faults)
				}
				if strings.TrimSpace(got.Content) != want.Content {
					t.Errorf("%s (in reasoning %v): %q: content %q", f.Name, in.inside, in.text, got.Content)
				}
			}
		}
	}
}

// A call inside reasoning that was never closed is read, and doubted, though an argument
// holds the closing mark.
func TestCallInOpenReasoning(t *testing.T) {
	for _, f := range families() {
		b := thinkBlock(f)
		if noThink[f.Name] || f.Name == "pythonic" || f.Name == "llama4_pythonic" || f.Name == "xlam" { // no marker ends reasoning there
			continue
		}
		call := parsers.Call{Name: "ls", Arguments: `{"path": "a ` + b[1] + ` b"}`}
		in := "Hm, I look.\n" + f.Format(parsers.Parsed{Calls: []parsers.Call{call}})
		got := f.Parse(in, parsers.ParseOptions{Tools: probeTools, InReasoning: true})
		if !sameAs(got.Calls, []parsers.Call{call}) || got.Calls[0].State == parsers.Complete || len(got.Faults) == 0 {
			t.Errorf("%s: %q: calls %+v, faults %+v, reasoning %q", f.Name, in, got.Calls, got.Faults, got.Reasoning)
		}
	}
}

// TestUndeclaredNames: a tool that the list does not declare is no call in any family; its
// text is content, or under a fault where other calls stand.
func TestUndeclaredNames(t *testing.T) {
	bogus := parsers.Call{Name: "bogus", Arguments: `{"path": "KEPT"}`}
	for _, f := range families() {
		in := f.Format(parsers.Parsed{Calls: []parsers.Call{bogus}})
		got := f.Parse(in, parsers.ParseOptions{Tools: probeTools})
		if len(got.Calls) > 0 || !strings.Contains(got.Content, "KEPT") || len(got.Faults) == 0 {
			t.Errorf("%s: %q: calls %+v, content %q, faults %+v", f.Name, in, got.Calls, got.Content, got.Faults)
		}
		if free := f.Parse(in, parsers.ParseOptions{}); len(free.Calls) != 1 {
			t.Errorf("%s: %q: without a list: %+v", f.Name, in, free)
		}
		if oneCall[f.Name] {
			continue
		}
		in = f.Format(parsers.Parsed{Calls: []parsers.Call{probeCalls[0], bogus}})
		got = f.Parse(in, parsers.ParseOptions{Tools: probeTools})
		if !sameAs(got.Calls, probeCalls[:1]) || len(got.Faults) == 0 {
			t.Errorf("%s: %q: calls %+v, faults %+v", f.Name, in, got.Calls, got.Faults)
		}
	}
}

// bare are families that write calls without a marker.
var bare = map[string]bool{"json_array": true, "llama3_json": true, "llama4_json": true, "pythonic": true, "llama4_pythonic": true}

// TestMarkupThatIsNotRead: a text that begins as the family begins its calls, and is none, is a
// fault in every family, by its name and by Auto.
func TestMarkupThatIsNotRead(t *testing.T) {
	for _, f := range families() {
		text := f.Format(parsers.Parsed{Calls: []parsers.Call{{Name: "zed", Arguments: `{"path": "x"}`}}})
		upTo := strings.Index(text, "zed")
		tools := []trajectory.ToolSpec{{Name: "zed"}}
		for _, cut := range []int{upTo, upTo + 3, upTo + 5} {
			for _, tail := range []string{"", "\n", " and so on", "!!!\n\nNothing."} {
				in := text[:min(cut, len(text))] + tail
				if f.Name == "functionary_v3_2" && cut < upTo+5 {
					continue // a name alone on a line may be prose
				}
				if cut == upTo && strings.Trim(strings.TrimSpace(text[:upTo]), `[{"name: `) == "" {
					continue // nothing but a bracket
				}
				got := f.Parse(in, parsers.ParseOptions{Tools: tools})
				if len(got.Faults) == 0 {
					t.Errorf("%s: %q: %+v", f.Name, in, got)
				}
				if cut < upTo+5 && bare[f.Name] || f.Name == "functionary_v3_2" {
					continue // Auto asks for a whole name, and for a mark
				}
				if family, p, found := parsers.Auto(in, parsers.ParseOptions{Tools: tools}); !found || len(p.Faults) == 0 {
					t.Errorf("Auto, %s: %q: found %v as %s: %+v", f.Name, in, found, family, p)
				}
			}
		}
	}
}
