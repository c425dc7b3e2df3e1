package parsers_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hermes/internal/realdata"
	"hermes/parsers"
	"hermes/trajectory"
)

var long = flag.Bool("long", false, "a million damaged texts instead of 100,000")

// sample is a text of a family before it is damaged.
type sample struct {
	family parsers.Family
	text   string
	opt    parsers.ParseOptions
}

// ownSamples are texts that the families write themselves.
func ownSamples() []sample {
	var out []sample
	for _, f := range families() {
		for _, args := range []string{
			`{"path": "/tmp", "n": 12, "deep": true}`,
			`{"path": "a \"quoted\" word\nnext line </parameter> <tool_call> end", "o": {"k": [1, null, "x"]}}`,
			`{"path": "NaN und Infinity, 5", "n": -7}`,
			`{}`,
		} {
			p := parsers.Parsed{Calls: []parsers.Call{{Name: "ls", Arguments: args}, {Name: "now", Arguments: "{}"}}}
			if oneCall[f.Name] {
				p.Calls = p.Calls[:1]
			}
			if !noContent[f.Name] {
				p.Content = "Let me look around."
			}
			for _, tools := range [][]trajectory.ToolSpec{nil, probeTools} {
				out = append(out, sample{f, f.Format(p), parsers.ParseOptions{Tools: tools}})
			}
			p.Reasoning = "I ponder it."
			out = append(out, sample{f, f.Format(p) + " Afterword.", parsers.ParseOptions{Tools: probeTools}})
		}
	}
	return out
}

// corpusSamples are what real models wrote, and the peers' tests.
func corpusSamples(t testing.TB) []sample {
	files, _ := filepath.Glob(filepath.Join(realdata.Path(t, "parsers"), "*.jsonl"))
	set := parsers.Standard()
	var out []sample
	for _, f := range files {
		readJSONL(t, f, func(c corpusCase) {
			family, err := set.Get(c.Parser)
			if err != nil || len(c.Text) > 4000 || strings.Contains(c.Parser, "append_think") { // one puts a tag in front
				return
			}
			var tools []struct {
				trajectory.ToolSpec
				Function *trajectory.ToolSpec
			}
			_ = json.Unmarshal(c.Tools, &tools) // some cases have none
			var o parsers.ParseOptions
			for _, tool := range tools {
				if tool.Function != nil {
					o.Tools = append(o.Tools, *tool.Function)
				} else {
					o.Tools = append(o.Tools, tool.ToolSpec)
				}
			}
			out = append(out, sample{family, c.Text, o})
		})
	}
	return out
}

var shards = []string{
	"<think>", "</think>", "<tool_call>", "</tool_call>", "<function=", "</function>", "</parameter>", "<parameter=x>",
	"</arg_value>", "<arg_key>",
	"[TOOL_CALLS]", "[ARGS]", "<|tool_call_end|>", "<|tool_call_begin|>", "<|call|>", "<|message|>", "<|end|>", "<｜tool▁call▁end｜>", "</｜DSML｜parameter>", "<|\"|>", "<escape>",
	"\"", "'", "\\", "{", "}", "[", "]", ":", ",", "\n", "null", "NaN", "word", "</invoke>", "<tool_call|>", "]<]minimax[>[", "```", "<|close|>argument<|sep|>", "</param>", "(", ")", "=",
}

// prose are words that markers consist of, in sentences.
var prose = []string{" to start a call ", " final answer ", "message to return", " The tools are open. ", " response "}

// damaged is text changed at one place.
func damaged(r *rand.Rand, text string) string {
	if text == "" {
		return ""
	}
	a := r.IntN(len(text))
	b := min(len(text), a+1+r.IntN(1+r.IntN(12)))
	if r.IntN(3) == 0 { // a whole marker: from one bracket to the next
		if i := strings.IndexAny(text[a:], "<["); i >= 0 {
			a += i
			if j := strings.IndexAny(text[a:], ">]"); j >= 0 {
				b = a + j + 1
			}
		}
		b = max(b, a)
	}
	switch r.IntN(8) {
	case 7:
		return text[:a] + prose[r.IntN(len(prose))] + text[a:]
	case 0:
		return text[:a] + text[b:]
	case 1:
		return text[:b] + text[a:]
	case 2:
		c := min(len(text), b+1+r.IntN(12))
		return text[:a] + text[b:c] + text[a:b] + text[c:]
	case 3:
		const with = "\"'{}[]<>:=,\\ \nxZ7|/"
		return text[:a] + string(with[r.IntN(len(with))]) + text[min(a+1, len(text)):]
	case 4, 5:
		return text[:a] + shards[r.IntN(len(shards))] + text[a:]
	}
	return text[:a]
}

// TestNoByteVanishes damages what models write at one place: every word is then in the
// content, the reasoning, a call or under a fault, and a complete call has lost nothing.
func TestNoByteVanishes(t *testing.T) {
	samples, n := ownSamples(), 6000
	if folder, found := realdata.Folder(t); !found {
		t.Logf("only our own samples: %s is not there", folder)
	} else if !testing.Short() {
		samples = append(samples, corpusSamples(t)...)
		n = 100_000
		if *long {
			n = 1_000_000
		}
	}
	r := rand.New(rand.NewPCG(15, 11))
	bad := 0
	for i := range n {
		s := samples[i%len(samples)]
		text := s.text
		if i >= len(samples) {
			text = damaged(r, text)
		}
		o := s.opt
		o.InReasoning = r.IntN(16) == 0
		p := s.family.Parse(text, o)
		err := nothingVanishes(text, p)
		if err == nil {
			err = onlyFrames(s.family.Name, text, p)
		}
		if err != nil {
			bad++
			if bad <= 40 {
				t.Errorf("%s (%d tools, in reasoning %v): %q: %v", s.family.Name, len(o.Tools), o.InReasoning, text, err)
			}
		}
	}
	t.Logf("%d of %d texts lose something (%d samples)", bad, n, len(samples))
}

// nothingVanishes is the law for one text.
func nothingVanishes(text string, p parsers.Parsed) error {
	if err := checkLaws(text, p); err != nil {
		return err
	}
	under := func(a, b int) bool { // is a..b reported?
		for _, w := range wordsOf(text[a:b]) {
			if !slices.ContainsFunc(p.Faults, func(f parsers.Fault) bool { return f.Start <= a+w.at && a+w.at+len(w.text) <= f.End }) {
				return false
			}
		}
		return true
	}
	var content, reasoning strings.Builder
	for _, s := range p.Spans {
		part := text[s.Start:s.End]
		switch s.Kind {
		case parsers.InContent:
			content.WriteString(part)
		case parsers.InReasoning:
			reasoning.WriteString(part)
		case parsers.InFault:
			if !under(s.Start, s.End) {
				return fmt.Errorf("%q is in a fault's span and under no fault", part)
			}
		case parsers.InFrame:
			for _, w := range wordsOf(part) {
				named := slices.ContainsFunc(p.Calls, func(c parsers.Call) bool { return strings.Contains(c.Name+" "+c.ID, w.text) })
				if !frame[w.text] && !named && !under(s.Start+w.at, s.Start+w.at+len(w.text)) {
					return fmt.Errorf("%q of the frame %q is lost", w.text, part)
				}
			}
		case parsers.InCall:
			if err := callKeeps(text, s, p, under); err != nil {
				return err
			}
		}
	}
	if squeezed(content.String()) != squeezed(p.Content) {
		return fmt.Errorf("content %q, its spans say %q", p.Content, content.String())
	}
	if squeezed(reasoning.String()) != squeezed(p.Reasoning) {
		return fmt.Errorf("reasoning %q, its spans say %q", p.Reasoning, reasoning.String())
	}
	return nil
}

var (
	tagLike = regexp.MustCompile(`<[|/]?[^\s<>]*[^<>]*>|\[/?[A-Z_]+\]|<｜[^<>]*>|\]<\]minimax\[>\[`)
	noWord  = regexp.MustCompile(`^[^\pL\pN]*$`)
	// ends are the marks behind which nothing is said before the next mark.
	ends     = regexp.MustCompile(`^<\|(end|call|return|message|eom|eot|sep|end_message|content_.*)\|>$`)
	messages = map[string]bool{"openai": true, "beam": true, "muse": true, "muse_glimmer": true, "kimi_k3": true, "inkling": true}
	// spoken is what a family writes in its frame outside of marks.
	spoken = map[string]*regexp.Regexp{
		"openai":           regexp.MustCompile(`^ ?(assistant)?(\s*to=\S+)?\s*$|^\s*(analysis|final|commentary)( to=\S+)?\s*$|^json$`),
		"beam":             regexp.MustCompile(`^ ?(assistant)?(\s*to=\S+)?\s*$|^\s*(analysis|final|commentary)( to=\S+)?\s*$|^xml$`),
		"muse_glimmer":     regexp.MustCompile(`^\s*(assistant)?(\s*to=\S+)?\s*$`),
		"muse":             regexp.MustCompile(`^\s*(assistant)?(\s*to=\S+)?\s*$`),
		"kimi_k3":          regexp.MustCompile(`^\s*(response|think|tools|call|argument)\W*$`),
		"inkling":          regexp.MustCompile(`^\s*[\w.:-]+\s*$`),
		"functionary_v3_2": regexp.MustCompile(`^(>>>)?all\n?$`),
		"gigachat3":        regexp.MustCompile(`^\W*function call$`),
		"gemma4":           regexp.MustCompile(`^\s*thought\s*$`),
		"phi4_mini_json":   regexp.MustCompile(`^\s*functools\s*\[?\s*$`),
		"granite":          regexp.MustCompile(`^\s*Here('s| is) my (thought process|response):\s*$`),
		"xlam":             regexp.MustCompile("^[\\s`]*json\\s*$"),
	}
)

// onlyFrames is the law that nothing hides in a frame: outside of marks it has no words but
// those that the family writes there, in their order.
func onlyFrames(family, text string, p parsers.Parsed) error {
	family = family[strings.LastIndexAny(family, ":+")+1:]
	for _, s := range p.Spans {
		if s.Kind != parsers.InFrame {
			continue
		}
		part := text[s.Start:s.End]
		at := 0
		mark := ""
		if strings.HasSuffix(text[:s.Start], "|>") {
			mark = text[max(0, strings.LastIndex(text[:s.Start], "<|")):s.Start]
		}
		check := func(a, b int) error {
			piece := part[a:b]
			if noWord.MatchString(piece) || !(messages[family] && ends.MatchString(mark)) && spoken[family] != nil && spoken[family].MatchString(piece) {
				return nil
			}
			for _, w := range wordsOf(piece) {
				from := s.Start + a + w.at
				if !slices.ContainsFunc(p.Faults, func(f parsers.Fault) bool { return f.Start <= from && from+len(w.text) <= f.End }) {
					return fmt.Errorf("%q behind %q hides in a frame", piece, mark)
				}
			}
			return nil
		}
		for _, m := range tagLike.FindAllStringIndex(part, -1) {
			if err := check(at, m[0]); err != nil {
				return err
			}
			at, mark = m[1], part[m[0]:m[1]]
		}
		if err := check(at, len(part)); err != nil {
			return err
		}
	}
	return nil
}

func callKeeps(text string, s parsers.Span, p parsers.Parsed, under func(a, b int) bool) error {
	have := ""
	for _, c := range p.Calls {
		if c.Start >= s.End || c.End <= s.Start {
			continue
		}
		if c.State == parsers.Complete && strings.Count(c.Arguments, "{") == 0 && c.Arguments != "" {
			return fmt.Errorf("complete call with the arguments %q", c.Arguments)
		}
		have += " " + c.Name + " " + c.ID + " " + c.Arguments + " " + fmt.Sprint(value(c.Arguments)) + " "
	}
	for _, w := range wordsOf(text[s.Start:s.End]) {
		if before := text[:s.Start+w.at]; strings.HasSuffix(before, `index="`) && strings.Trim(w.text, "0123456789") == "" {
			continue
		}
		if frame[w.text] || strings.Contains(have, w.text) || strings.Trim(w.text, "0") == "" && strings.Contains(have, "0") ||
			under(s.Start+w.at, s.Start+w.at+len(w.text)) {
			continue
		}
		return fmt.Errorf("%q is not in the call: %s", w.text, have)
	}
	return nil
}

func squeezed(s string) string { return strings.Join(strings.Fields(s), "") }

type wordAt struct {
	text string
	at   int
}

// wordsOf are the runs of letters and digits; the letter of an escape is none.
func wordsOf(s string) []wordAt {
	var out []wordAt
	class := func(c byte) int {
		switch {
		case c >= 0x80:
			return 2
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			return 1
		}
		return 0
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
			most := map[byte]int{'u': 4, 'x': 2, 'U': 8}[s[min(i, len(s)-1)]]
			digits := "0123456789abcdefABCDEF"
			if i < len(s) && s[i] >= '0' && s[i] <= '7' {
				most, digits = 2, "01234567"
			}
			for n := 0; n < most && i+1 < len(s) && strings.IndexByte(digits, s[i+1]) >= 0; n++ {
				i++
			}
			if strings.HasPrefix(s[min(i, len(s)):], "N{") {
				i += max(0, strings.IndexByte(s[i:min(len(s), i+126)], '}'))
			}
			continue
		}
		j := i
		for j < len(s) && class(s[j]) == class(s[i]) {
			j++
		}
		if class(s[i]) > 0 {
			out = append(out, wordAt{s[i:j], i})
			i = j - 1
		}
	}
	return out
}

// frame are the words of markers and of the keys around arguments.
var frame = func() map[string]bool {
	words := map[string]bool{}
	for _, f := range families() {
		for _, args := range []string{`{}`, `{"": ""}`, `{"": 1}`, `{"": true}`} {
			for _, w := range wordsOf(f.Format(parsers.Parsed{
				Content:   " ",
				Reasoning: " ",
				Calls:     []parsers.Call{{Name: "", Arguments: args}, {Name: "", Arguments: args}},
			})) {
				words[w.text] = true
			}
		}
	}
	for _, w := range wordsOf(strings.Join(shards, " ") + ` thought inner_prefix inner_suffix START_THINKING END_THINKING THINK longcat_think python_tag python_start python_end
		CALL_ID TOOL_CALLS tools arguments parameters name function type id index tool_call_id call_id return start end assistant channel final analysis message json constrain commentary response
		content_text content_thinking content_model_end_sampling content_tool_error content_invoke_tool_text True False None true false null None call_section section_begin section_end answer role_sep message_sep
		plugin START_RESPONSE END_RESPONSE START_TEXT END_TEXT CDATA self user eot eom boolean number string object array integer Here is s my thought process response think Ġ 助手： s tool_calls function_calls
		functionname paramname item mm seed open close argument key tool index`) {
		words[w.text] = true
	}
	delete(words, "word")
	delete(words, "x")
	return words
}()

func FuzzNoByteVanishes(f *testing.F) {
	all := families()
	for i, s := range ownSamples() {
		if i%12 < 2 {
			f.Add(uint8(slices.IndexFunc(all, func(g parsers.Family) bool { return g.Name == s.family.Name })), i%2 == 0, false, s.text)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, withTools, inside bool, text string) {
		fam := all[int(which)%len(all)]
		o := parsers.ParseOptions{InReasoning: inside}
		if withTools {
			o.Tools = probeTools
		}
		if err := nothingVanishes(text, fam.Parse(text, o)); err != nil {
			t.Fatalf("%s: %q: %v", fam.Name, text, err)
		}
	})
}
