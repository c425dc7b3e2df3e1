package parsers

// SeedOSS is Seed-OSS: the calls of Qwen3-Coder in tags of its own.
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
		x.newlines = p.opt.Dialect != Ours // its template writes values without a frame of newlines
		x.read(p)
		return
	}
	p.outside(seedThink, func(at int) int { return seedCalls.start(p, at) }, func(i int) int { return seedCalls.block(p, i) })
}
