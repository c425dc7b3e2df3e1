package parsers

import "strings"

// SeedOSS is Seed-OSS: the calls of Qwen3-Coder in its own tags.
var SeedOSS = grammar{
	name:  "seed_oss",
	think: seedThink,
	read:  readSeed,
	format: func(content string, calls []Call) string {
		return content + xmlText("<seed:tool_call>\n", "\n</seed:tool_call>", "<function=%>\n", "</function>", "<parameter=%>", "</parameter>\n", "", calls)
	},
}.family()

var (
	seedThink = think{open: "<seed:think>", close: "</seed:think>"}.until("<seed:tool_call>")
	seedCalls = xmlish{open: "<seed:tool_call>", close: "</seed:tool_call>", fn: "<function=", fnClose: "</function>",
		par: "<parameter=", parClose: "</parameter>", newlines: true}
)

// readSeed leaves, as vLLM does, think blocks in the content and their calls unread.
func readSeed(p *parse) {
	if p.opt.Dialect != VLLM || p.opt.InReasoning {
		x := seedCalls
		if p.opt.Dialect == Ours { // its template writes values without a frame of newlines
			x.newlines = seedFramed(p.text[p.pos:])
			if x.newlines {
				x.floor = Recovered
			}
		}
		x.read(p)
		return
	}
	p.outside(seedThink, func(at int) int { return seedCalls.start(p, at) }, func(i int) int { return seedCalls.block(p, i) })
}

// seedFramed says that every value of a text is between newlines, as Qwen3-Coder writes it:
// then they are of the frame. The last value may be cut.
func seedFramed(text string) bool {
	values := strings.Split(text, seedCalls.par)[1:]
	for i, v := range values {
		_, v, _ = strings.Cut(v, ">")
		end := strings.LastIndex(v, seedCalls.parClose)
		if !strings.HasPrefix(v, "\n") || end < 0 && i < len(values)-1 || end >= 0 && (end < 2 || v[end-1] != '\n') {
			return false
		}
	}
	return len(values) > 0
}
