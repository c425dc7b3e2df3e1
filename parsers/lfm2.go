package parsers

import "strings"

// LFM2 is LFM2 and LFM2.5: Python calls between tokens.
var LFM2 = grammar{
	name:  "lfm2",
	think: plainThink.until(lfmOpen),
	read:  readLFM2,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + lfmOpen + "[" + pyText(calls, ", ") + "]" + lfmClose
	},
}.family()

const lfmOpen, lfmClose = "<|tool_call_start|>", "<|tool_call_end|>"

func readLFM2(p *parse) {
	at := p.pos
	for {
		i := p.index(lfmOpen, at)
		if i < 0 {
			if e := p.index(lfmClose, at); e >= 0 && len(p.out.Calls) > 0 && p.opt.Dialect == VLLM { // the model repeats its call
				p.fault(at, e+len(lfmClose), "echo", "%s without %s", lfmClose, lfmOpen)
				p.seg(InFault, at, e+len(lfmClose))
				at = e + len(lfmClose)
			}
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		j := p.skipSpace(i + len(lfmOpen))
		if p.k.NeedClose && p.index(lfmClose, j) < 0 && !(p.opt.Dialect == VLLM && strings.HasSuffix(strings.TrimSpace(p.text), "]")) {
			p.refuse(i, len(p.text), "truncated", "%s without %s", lfmOpen, lfmClose)
			return
		}
		n, o := len(p.segs), p.pyOptions()
		o.RawNewlines, o.ZeroPadded = true, true
		end, err := p.pylist(j, o)
		if err != nil && j < len(p.text) && p.text[j] == '[' {
			p.segs = p.segs[:n]
			end, err = p.jsonList(j, nameArguments)
		} else if err != nil && j < len(p.text) && p.text[j] == '{' {
			if c := p.jsonCall(j, nameArguments); c.err == nil {
				p.call(j, c.end, c.name, c.args, c.state)
				end, err = c.end, nil
			}
		} else if err != nil {
			var name, args string
			name, args, end, err = p.pycall(j, o)
			if err == nil {
				p.odd, p.also = p.odd || p.bytes, stringPrefixes
				p.call(j, end, name, args, Complete)
			}
		}
		if err != nil && p.opt.Dialect != SGLang {
			if stop := nextOr(p, lfmClose, j); p.nestedQuotes(j, stop) {
				end, err = stop, nil
			}
		}
		if err != nil {
			stop := nextOr(p, lfmClose, j)
			if p.at(lfmClose, stop) {
				stop += len(lfmClose)
			}
			p.refuse(i, stop, "malformed", "list of calls: %v", err)
			at = stop
			continue
		}
		p.frame(i, j)
		stop := nextOr(p, lfmClose, end)
		if strings.TrimSpace(p.text[end:stop]) != "" {
			p.fault(end, stop, "stray_text", "text after the list")
		}
		at = min(stop+len(lfmClose), len(p.text))
		p.frame(end, at)
	}
}
