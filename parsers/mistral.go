package parsers

import "strings"

// Mistral reads the list of tokenizers up to v7 and the one marker a call of v11 and
// later, by what follows the marker.
var Mistral = grammar{
	name:  "mistral",
	think: think{open: "[THINK]", close: "[/THINK]"}.until(mistralMark),
	read:  readMistral,
	id: func(p *parse, i int, c *Call) {
		if c.ID == "" {
			c.ID = p.digest(i)[:9]
		}
	},
	format: func(content string, calls []Call) string {
		return join(content, calls, "", func(_ int, c Call) string { return mistralMark + c.Name + "[ARGS]" + c.Arguments })
	},
}.family()

const mistralMark = "[TOOL_CALLS]"

func readMistral(p *parse) {
	at := p.pos
	for {
		i := p.index(mistralMark, at)
		if i < 0 {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		at = mistralBlock(p, i)
	}
}

func mistralBlock(p *parse, i int) int {
	j := p.skipSpace(i + len(mistralMark))
	if j == len(p.text) {
		p.refuse(i, j, "truncated", "nothing after %s", mistralMark)
		return j
	}
	if end := mistralFallback(p, i, j); end > 0 {
		return end
	}
	old := p.text[j] == '[' && !p.at("[ARGS]", j) || p.text[j] == '{' && !p.opt.Variant.MistralNew
	if p.opt.Variant.MistralNew || !old {
		return mistralCompact(p, i, j)
	}
	return mistralList(p, i, j)
}

// mistralFallback is what vLLM does for old tokenizers where no list follows the marker:
// the first list after it counts, else the text stays without the marker. 0 is neither.
func mistralFallback(p *parse, i, j int) int {
	stop := nextOr(p, mistralMark, j)
	if p.opt.Dialect != VLLM || p.opt.Variant.MistralNew || p.text[j] == '[' || p.text[j] == '{' {
		return 0
	}
	begun := strings.IndexByte(p.text[j:stop], '{') // a list inside the arguments is none of calls
	if a := strings.Index(p.text[j:stop], "[ARGS]"); a >= 0 && a < begun {
		begun = a
	}
	if k := p.index("[{", j); k >= 0 && k < stop && k-j < begun {
		if end, err := p.jsonList(k, nameArguments); err == nil {
			p.frame(i, k)
			return end
		}
	}
	if !strings.ContainsRune(p.text[j:stop], '{') && !strings.Contains(p.text[j:stop], "[ARGS]") {
		p.frame(i, j)
		p.content(j, stop)
		p.k.EatFrames = true
		return stop
	}
	return 0
}

func mistralList(p *parse, i, j int) int {
	if p.text[j] == '{' {
		c := p.jsonCall(j, nameArguments)
		if c.err != nil {
			stop := nextOr(p, mistralMark, j)
			p.refuse(i, stop, "malformed", "call object: %s", c.why)
			return stop
		}
		p.call(i, c.end, c.name, c.args, c.state)
		return c.end
	}
	from := len(p.out.Calls)
	end, err := p.jsonList(j, nameArguments)
	if err != nil {
		stop := nextOr(p, mistralMark, j)
		p.k.EatFrames = p.k.EatFrames || p.opt.Dialect == SGLang
		p.refuse(i, stop, "malformed", "list of calls: %v", err)
		return stop
	}
	mistralIDs(p, from, j)
	p.frame(i, j)
	return end
}

// mistralIDs copies the ids that the model wrote into a list.
func mistralIDs(p *parse, from, j int) {
	for n := from; n < len(p.out.Calls); n++ {
		c := &p.out.Calls[n]
		ms, _, err := scanner{text: p.text}.object(c.Start)
		if err != nil {
			continue
		}
		if m, ok := lookup(ms, "id"); ok {
			if id, ok := unquote(p.text[m.a:m.b]); ok && len(id) == 9 {
				c.ID = id
			}
		}
	}
}

func nextOr(p *parse, marker string, i int) int {
	if n := p.index(marker, i); n >= 0 {
		return n
	}
	return len(p.text)
}

// mistralCompact reads NAME[CALL_ID]ID[ARGS]OBJECT, or NAME OBJECT.
func mistralCompact(p *parse, i, j int) int {
	stop := nextOr(p, mistralMark, j)
	body := j
	for body < stop && p.text[body] != '{' && !p.at("[ARGS]", body) {
		body++
	}
	name, id, _ := strings.Cut(p.text[j:body], "[CALL_ID]")
	name, id = strings.TrimSpace(name), strings.TrimSpace(id)
	if body == stop && name != "" && p.opt.Dialect == VLLM && p.opt.Variant.MistralNew {
		p.addWithID(i, stop, name, id, "{}", Recovered)
		return stop
	}
	if body == stop {
		p.refuse(i, stop, "truncated", "a call without arguments")
		return stop
	}
	if p.at("[ARGS]", body) {
		body = p.skipSpace(body + len("[ARGS]"))
	}
	if name == "" && p.opt.Dialect != VLLM {
		p.refuse(i, stop, "malformed", "a call without a name")
		return stop
	}
	p.twice, p.checked = false, p.opt.Dialect == Ours
	end, err := scanner{text: p.text, doubled: &p.twice}.value(body, 0)
	st := Complete
	switch {
	case err != nil && p.k.NeedJSON:
		p.refuse(i, stop, "malformed", "arguments: %v", err)
		return stop
	case err == errCut && stop == len(p.text):
		end, st = stop, Truncated
	case err != nil:
		end, st = stop, Malformed
		if fixed, ok := repair(strings.TrimSpace(p.text[body:stop])); ok && p.k.Repair {
			p.addWithID(i, end, name, id, fixed, Recovered)
			return end
		}
	}
	p.addWithID(i, end, name, id, strings.TrimRight(p.text[body:end], " \n\t\r"), st)
	return end
}

func (p *parse) addWithID(a, b int, name, id, args string, st State) {
	n := len(p.out.Calls)
	p.also = id
	p.call(a, b, name, args, st)
	if len(p.out.Calls) > n && id != "" {
		p.out.Calls[n].ID = id
	}
}
