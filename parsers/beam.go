package parsers

import "strings"

// Beam is the channels of gpt-oss, with the arguments of a call as elements.
var Beam = grammar{
	name: "beam",
	read: func(p *parse) { readChannels(p, beamCall) },
	format: func(content string, calls []Call) string {
		out := ""
		if content != "" {
			out = "<|channel|>final<|message|>" + content + "<|end|>"
		}
		return join(out, calls, "", func(_ int, c Call) string {
			var b strings.Builder
			b.WriteString("<|start|>assistant to=" + c.Name + "<|channel|>analysis <|constrain|>xml<|message|>")
			for _, a := range arguments(c) {
				b.WriteString(beamCalls.par + `"` + a.key + "\">\n" + a.text + "\n" + beamCalls.parClose + "\n")
			}
			return b.String() + "<|call|>"
		})
	},
}.family()

// beamCalls are the elements; the marks of the message are the frame around them.
var beamCalls = xmlish{open: "<|start|>assistant to=", fn: "<|start|>", close: "<|end|>", fnClose: "<|call|>",
	par: "<rfl:parameter name=", parClose: "</rfl:parameter>", newlines: true}

// beamCall reads the elements of a message. A message that ends with the text is recovered, as
// servers cut its end mark off.
func beamCall(p *parse, a, from int, to string) int {
	name := strings.TrimPrefix(to, "functions.")
	var ps []pair
	state := Complete
	for at := from; ; {
		k := p.skipSpace(at)
		end, next := harmonyEnd(p, k)
		switch {
		case k == len(p.text):
			st := Recovered
			if p.cut {
				st = Truncated
			}
			p.call(a, k, name, p.object(ps), worse(state, st))
			return k
		case p.at(beamCalls.par, k):
			var one []pair
			var st State
			one, at, st = beamCalls.parameter(p, name, k)
			ps, state = append(ps, one...), worse(state, st)
		case end == k:
			if end == next {
				state = worse(state, Recovered)
			}
			p.call(a, next, name, p.object(ps), state)
			return next
		default:
			if q := p.index(beamCalls.par, k); q >= 0 && q < end {
				end = q
			}
			p.fault(k, end, "stray_text", "text between the parameters of %q", name)
			state, at = worse(state, Malformed), end
		}
	}
}
