package parsers_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermes/parsers"
	"hermes/trajectory"
)

var probeTools = []trajectory.ToolSpec{
	{
		Name:       "ls",
		Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"},"deep":{"type":"boolean"},"o":{"type":"object"}}}`),
	},
	{Name: "now", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
}

var probeCalls = []parsers.Call{
	{Name: "ls", Arguments: `{"path": "/tmp", "n": 12345678901234567890123, "deep": true}`},
	{Name: "now", Arguments: `{}`},
}

// oneCall lists the families that can say only one call, or no content beside calls.
var oneCall = map[string]bool{"gigachat3": true}

var noContent = map[string]bool{"granite": true, "json_array": true}

// written lists what each family writes for the probe.
func written(f parsers.Family) (string, parsers.Parsed) {
	p := parsers.Parsed{Content: "I look.", Calls: probeCalls}
	if oneCall[f.Name] {
		p.Calls = probeCalls[:1]
	}
	if noContent[f.Name] {
		p.Content = ""
	}
	return f.Format(p), p
}

func families() []parsers.Family {
	var out []parsers.Family
	for _, f := range parsers.Builtin() {
		if f.Name != "plain" {
			out = append(out, f)
		}
	}
	return out
}

func TestEveryFamilyReadsWhatItWrites(t *testing.T) {
	for _, f := range families() {
		t.Run(f.Name, func(t *testing.T) {
			text, want := written(f)
			got := f.Parse(text, parsers.ParseOptions{Tools: probeTools})
			if len(got.Calls) != len(want.Calls) {
				t.Fatalf("%q: calls %+v, faults %+v", text, got.Calls, got.Faults)
			}
			for i, c := range got.Calls {
				if c.Name != want.Calls[i].Name || value(c.Arguments) == nil || !reflect.DeepEqual(value(c.Arguments), value(want.Calls[i].Arguments)) {
					t.Errorf("%q: call %d is %+v", text, i, c)
				}
				if c.State != parsers.Complete && c.State != parsers.Ambiguous || c.ID == "" {
					t.Errorf("%q: call %d: state %s, id %q", text, i, c.State, c.ID)
				}
			}
			if !strings.Contains(got.Calls[0].Arguments, "12345678901234567890123") {
				t.Errorf("the big integer is gone: %s", got.Calls[0].Arguments)
			}
			if strings.TrimSpace(got.Content) != want.Content {
				t.Errorf("%q: content %q", text, got.Content)
			}
			if _, err := f.Write(want); err != nil {
				t.Errorf("Write: %v", err)
			}
		})
	}
}

func parseChunks(f parsers.Family, o parsers.ParseOptions, text string, size func() int) parsers.Parsed {
	s := f.New(o)
	for len(text) > 0 {
		n := min(size(), len(text))
		s.Feed(text[:n], nil)
		text = text[n:]
	}
	return s.Finish(false)
}

func dialects() []parsers.Dialect {
	return []parsers.Dialect{parsers.Ours, parsers.VLLM, parsers.SGLang, parsers.Upstream}
}

// mutations are damaged forms of a text, the same for every run.
func mutations(text string, n int) []string {
	r := rand.New(rand.NewPCG(1, uint64(len(text))))
	out := []string{text, ""}
	for range n {
		a, b := r.IntN(len(text)+1), r.IntN(len(text)+1)
		a, b = min(a, b), max(a, b)
		switch r.IntN(4) {
		case 0:
			out = append(out, text[:a])
		case 1:
			out = append(out, text[:a]+text[b:])
		case 2:
			out = append(out, text[:b]+text[a:])
		case 3:
			out = append(out, text[:a]+"<think>"+text[a:b]+"</think>"+text[b:])
		}
	}
	return out
}

// checkLaws fails when the spans of p do not cover text, or a call is out of place.
func checkLaws(text string, p parsers.Parsed) error {
	at := 0
	for _, s := range p.Spans {
		if s.Start != at || s.End <= s.Start {
			return fmt.Errorf("span %+v after byte %d", s, at)
		}
		at = s.End
	}
	if at != len(text) {
		return fmt.Errorf("spans end at %d of %d", at, len(text))
	}
	for _, f := range p.Faults {
		if f.Start < 0 || f.End < f.Start || f.End > len(text) {
			return fmt.Errorf("fault %+v outside the text", f)
		}
	}
	for _, c := range p.Calls {
		if c.State == parsers.Complete && c.Arguments != "" && !validJSON(c.Arguments) {
			return fmt.Errorf("complete call with arguments %q", c.Arguments)
		}
	}
	return nil
}

func validJSON(s string) bool {
	return json.Valid([]byte(strings.NewReplacer("NaN", "0", "Infinity", "0").Replace(s)))
}

func TestChunksAndSpans(t *testing.T) {
	for _, f := range families() {
		text, _ := written(f)
		r := rand.New(rand.NewPCG(2, 3))
		for _, m := range mutations(text, 60) {
			for _, d := range dialects() {
				o := parsers.ParseOptions{Tools: probeTools, Dialect: d}
				whole := f.Parse(m, o)
				if err := checkLaws(m, whole); err != nil {
					t.Fatalf("%s, %v, %q: %v", f.Name, d, m, err)
				}
				bytewise := parseChunks(f, o, m, func() int { return 1 })
				mixed := parseChunks(f, o, m, func() int { return 1 + r.IntN(7) })
				if !reflect.DeepEqual(whole, bytewise) || !reflect.DeepEqual(whole, mixed) {
					t.Fatalf("%s, %v, %q: chunks change the result", f.Name, d, m)
				}
			}
		}
	}
}

// A cut text never yields more complete calls than were finished, and the text of a
// call that is complete does not change when more follows.
func TestTruncatedIsNeverComplete(t *testing.T) {
	for _, f := range families() {
		text, _ := written(f)
		full := f.Parse(text, parsers.ParseOptions{Tools: probeTools})
		for n := range text {
			s := f.New(parsers.ParseOptions{Tools: probeTools})
			s.Feed(text[:n], nil)
			for i, c := range s.Finish(true).Calls {
				if c.State != parsers.Complete {
					continue
				}
				if i >= len(full.Calls) || !reflect.DeepEqual(value(c.Arguments), value(full.Calls[i].Arguments)) || c.Name != full.Calls[i].Name {
					t.Fatalf("%s: %q: call %d is complete as %s(%s)", f.Name, text[:n], i, c.Name, c.Arguments)
				}
			}
		}
	}
}

func TestThinkBlocksAreNotExecuted(t *testing.T) {
	for _, f := range families() {
		if noThink[f.Name] {
			continue
		}
		b := thinkBlock(f)
		text, want := written(f)
		for _, in := range []string{b[0] + "hm " + text + b[1] + text, "hm " + text + b[1] + text} {
			got := f.Parse(in, parsers.ParseOptions{Tools: probeTools, InReasoning: !strings.HasPrefix(in, b[0])})
			if len(got.Calls) != len(want.Calls) || !strings.Contains(got.Reasoning, "hm ") {
				t.Errorf("%s: %q: %d calls, reasoning %q", f.Name, in, len(got.Calls), got.Reasoning)
			}
		}
	}
}

// allocated is what reading text byte by byte allocates, in bytes.
func allocated(f parsers.Family, text string) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	parseChunks(f, parsers.ParseOptions{Tools: probeTools}, text, func() int { return 1 })
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// Work grows in proportion: four times the text, fed byte by byte, may allocate at
// most eight times as much. Copying the text at every byte would make it sixteen.
func TestWorkIsProportional(t *testing.T) {
	for _, f := range families() {
		args := func(n int) string { return `{"path": "` + strings.Repeat("abcdefgh", n/8) + `"}` }
		text := func(n int) string {
			return f.Format(parsers.Parsed{Calls: []parsers.Call{{Name: "ls", Arguments: args(n)}}})
		}
		small, large := allocated(f, text(1<<16)), allocated(f, text(1<<18))
		if large > 8*small {
			t.Errorf("%s: %.0f bytes for 64 KiB, %.0f for 256 KiB", f.Name, small, large)
		}
	}
}

// One mebibyte full of half a delimiter, fed byte by byte, stays one argument.
func TestLongArguments(t *testing.T) {
	long := strings.Repeat("x< >{}[]'y ", 1<<20/11)
	args := []byte(`{"path": "` + long + `"}`)
	for _, f := range families() {
		text := f.Format(parsers.Parsed{Calls: []parsers.Call{{Name: "ls", Arguments: string(args)}}})
		p := parseChunks(f, parsers.ParseOptions{Tools: probeTools}, text, func() int { return 1 })
		if len(p.Calls) != 1 || !strings.Contains(p.Calls[0].Arguments, "y x<") {
			t.Errorf("%s: %d calls, faults %.200v", f.Name, len(p.Calls), p.Faults)
		}
	}
}

// Openers without end are the worst case of every search.
func TestHostileRepeats(t *testing.T) {
	for _, f := range families() {
		text, _ := written(f)
		for _, cut := range []int{len(text) / 4, len(text) / 2, len(text) - 3} {
			hostile := strings.Repeat(text[:cut], 1<<17/max(1, cut))
			p := f.Parse(hostile, parsers.ParseOptions{Tools: probeTools})
			if err := checkLaws(hostile, p); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
}

// Auto's search is as cheap: blanks, fences and quoted markers without end.
func TestHostileAuto(t *testing.T) {
	for _, hostile := range []string{
		strings.Repeat(" ", 1<<16) + strings.Repeat("\n```\n<tool_call> and <invoke name=", 1<<12),
		strings.Repeat("`<tool_call>` <function=", 1<<13),
		strings.Repeat(`[{"name": `, 1<<13),
	} {
		if _, p, _ := parsers.Auto(hostile, parsers.ParseOptions{Tools: probeTools}); checkLaws(hostile, p) != nil {
			t.Errorf("%.40q: %v", hostile, checkLaws(hostile, p))
		}
	}
}

// Markup that is not read is reported, but not without end.
func TestUnreadMarkupIsBounded(t *testing.T) {
	text := strings.Repeat("<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>\n<invoke name=\"x\">\n", 200)
	p := parsers.Granite4.Parse(text, parsers.ParseOptions{Tools: probeTools})
	unread := 0
	for _, f := range p.Faults {
		if f.Kind == "unread_call" {
			unread++
		}
	}
	if len(p.Calls) != 200 || unread != 64 {
		t.Errorf("%d calls, %d reports of markup, want 200 and 64", len(p.Calls), unread)
	}
}

func FuzzFamilies(f *testing.F) {
	all := parsers.Builtin()
	for i, fam := range families() {
		text, _ := written(fam)
		f.Add(uint8(i), uint8(i%4), false, text)
		f.Add(uint8(i), uint8(0), true, text[:len(text)/2]+"</think>"+text)
	}
	f.Fuzz(func(t *testing.T, which, dialect uint8, inside bool, text string) {
		fam := all[int(which)%len(all)]
		o := parsers.ParseOptions{Tools: probeTools, Dialect: parsers.Dialect(dialect % 4), InReasoning: inside}
		whole := fam.Parse(text, o)
		if err := checkLaws(text, whole); err != nil {
			t.Fatalf("%s, %v, %q: %v", fam.Name, o.Dialect, text, err)
		}
		if parts := parseChunks(fam, o, text, func() int { return 3 }); !reflect.DeepEqual(whole, parts) {
			t.Fatalf("%s: %q: chunks change the result", fam.Name, text)
		}
	})
}

// cpu is the time that this process has spent on processors, the collector's
// included: what a text costs, however busy the machine is.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkParse(b *testing.B) {
	args, _ := json.Marshal(map[string]string{"content": strings.Repeat("a line of text with \"quotes\" and more\n", 2000)})
	for _, f := range []parsers.Family{
		parsers.Hermes, parsers.Llama3, parsers.Mistral, parsers.DeepSeekV31, parsers.KimiK2, parsers.Qwen3Coder, parsers.Phi4Mini,
	} {
		text := f.Format(parsers.Parsed{Content: "ok", Calls: []parsers.Call{{Name: "write", Arguments: string(args)}}})
		b.Run(f.Name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			start := cpu(b)
			for b.Loop() {
				if p := f.Parse(text, parsers.ParseOptions{}); len(p.Calls) != 1 {
					b.Fatal(p.Faults)
				}
			}
			b.ReportMetric(float64(len(text)*b.N)/(cpu(b)-start).Seconds()/1e6, "MB/cpu-s")
		})
	}
}
