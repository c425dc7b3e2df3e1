package parsers

import (
	"strings"
	"unicode/utf8"
)

// settle is what our own dialect asks of every call at a..b before it counts:
// a name that can be one and that the tool list declares, arguments that are one object
// without doubled keys, and not a word between a and b that is neither in the call nor of
// the family's frame. ok is false when it is no call: the text there is then reported,
// or is content.
func (p *parse) settle(a, b int, name, args string, st State) (string, string, State, bool) {
	name = strings.TrimSpace(name)
	if p.rename != nil {
		name = p.rename(name)
	}
	if p.tools.known() && !p.tools.has(name) {
		short := strings.TrimPrefix(name, "functions.")
		if !p.tools.has(short) {
			p.unknown(a, b, name)
			return name, args, st, false
		}
		name, st = short, worse(st, Recovered)
	} else if !nameLike(name) && !p.tools.has(name) {
		p.refuse(a, b, "malformed", "%q is no name of a tool", clipped(name))
		return name, args, st, false
	}
	if st == Truncated || st == Malformed {
		return name, args, st, true
	}
	args, st = p.settleArguments(name, args, st)
	if st == Complete || st == Recovered {
		if word, lost := p.lost(a, b, name, args); lost {
			p.fault(a, b, "lost_text", "%q of the call of %q is not in its arguments", clipped(word), name)
			st = Malformed
		}
	}
	return name, args, st, true
}

// settleArguments makes one object of args, or says that they are none.
func (p *parse) settleArguments(name, args string, st State) (string, State) {
	text := strings.TrimSpace(args)
	switch {
	case text == "":
		return args, st
	case text == "null":
		return "{}", worse(st, Recovered)
	case text[0] == '"':
		if inner, ok := unquote(text); ok && strings.HasPrefix(strings.TrimSpace(inner), "{") && isJSON(inner) && isJSON(text) {
			args, text, st = inner, strings.TrimSpace(inner), worse(st, Recovered)
		}
	}
	if text[0] != '{' || p.twice || (strings.Contains(text, "NaN") || strings.Contains(text, "Infinity")) && !isFinite(text) && isJSON(text) {
		return args, Malformed // NaN and Infinity as numbers are none of JSON's
	}
	if p.checked {
		return args, st
	}
	var doubled bool
	sc := scanner{text: text, raw: true, doubled: &doubled}
	if end, err := sc.value(0, 0); err != nil || end != len(text) || doubled {
		return args, Malformed
	}
	return args, st
}

// keep notes that the value a..b of a parameter is in the arguments as it is in the text.
func (p *parse) keep(key string, a, b int) {
	if p.opt.Dialect == Ours {
		p.kept = append(p.kept, [2]int{a, b})
		p.also += key + " "
	}
}

// keyLike says that a parameter's key can be one: it holds no part of a tag, or is declared.
func (p *parse) keyLike(tool, key string) bool {
	return p.opt.Dialect != Ours || key != "" && !strings.ContainsAny(key, "<>=\"{}|\n") || p.tools.params(tool).Prop(key) != nil
}

// unknown is a call of a tool that the list does not declare: no call. It is a fault where
// a call begins, and content where the text only speaks of one.
func (p *parse) unknown(a, b int, name string) {
	p.bad = true
	if p.speaksOf(a, b) {
		p.examples = append(p.examples, p.skipSpace(a))
		p.content(a, b)
		return
	}
	p.fault(a, b, "unknown_tool", "tool %q is not declared", clipped(name))
	if p.own {
		p.content(a, b)
		return
	}
	p.seg(InFault, a, b)
}

// speaksOf says that the markup at a..b is an example: quoted, with a sentence going on behind
// it on its line, or, where the family has no marker, not the answer itself.
func (p *parse) speaksOf(a, b int) bool {
	q := p.prose()
	i := p.skipSpace(a)
	o, ok := openingAt(p.text, i)
	if !ok {
		name := p.gram.name
		if p.gram.base != "" {
			name = p.gram.base
		}
		if !markerless[name] {
			return false
		}
		before := strings.TrimLeft(p.text[p.pos:max(i, p.pos)], " \t\r\n[,;")
		part := p.text[i:b]
		return before != "" && len(p.out.Calls) == 0 || !strings.Contains(part, "(") && !strings.Contains(part, `"arguments"`) && !strings.Contains(part, `"parameters"`)
	}
	if p.genuine[i] != "" {
		return false
	}
	if !q.isCall(i, len(o.mark)) {
		return true
	}
	line, _, _ := strings.Cut(p.text[b:min(len(p.text), b+256)], "\n")
	return !q.lineStart(i) && sentence(strings.TrimLeft(line, "\t"))
}

// markerless are the families that write calls without a marker.
var markerless = map[string]bool{"llama3_json": true, "llama4_json": true, "xlam": true, "json_array": true, "granite": true, "pythonic": true, "llama4_pythonic": true}

// prose is what is known about the text around markers.
func (p *parse) prose() *prose {
	if p.around == nil {
		p.around = newProse(p.text, p.tools)
	}
	return p.around
}

// nameLike says that a text can be the name of a tool.
func nameLike(name string) bool {
	return name != "" && len(name) <= 256 && !strings.ContainsAny(name, " \t\r\n<>{}\"'`=()[],;|\\")
}

func clipped(s string) string {
	if len(s) <= 60 {
		return s
	}
	n := 60
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// frameWords are the words of markers and of the keys around a call: all that may be in
// a call's text without being in its name or arguments. None is None, and so on.
var frameWords = func() map[string]bool {
	words := map[string]bool{}
	add := func(text string) {
		for w, rest := nextWord(text); w != ""; w, rest = nextWord(rest) {
			words[w] = true
		}
	}
	for _, o := range openings {
		add(o.mark)
	}
	add(`name arguments parameters args function type string number boolean null object array integer true false True False None
		tool_name tool_call tool_sep arg_key arg_value call parameter param CDATA invoke key value index tool functions ARGS CALL_ID TOOL_CALLS
		argument argument_begin end sep close open plugin action_end tools_suffix END_ACTION START_ACTION escape channel commentary analysis final constrain json
		message start assistant to return eom item content_invoke_tool_json end_message message_model tool_calls function_calls atem steptml minimax mm DSML GCML ifm iquest_tool_call arg_type think_fast think_faster
		plamo begin_tool_requests end_tool_requests begin_tool_request end_tool_request begin_tool_name end_tool_name begin_tool_arguments
		end_tool_arguments begin_think end_think msg tag TOOLCALL xml rfl calls message_sep eot`)
	add(`think inner_prefix inner_suffix START_THINKING END_THINKING THINK longcat_think seed:think mm:think channel thought START_RESPONSE END_RESPONSE START_TEXT END_TEXT
		response answer role_sep message_sep s python_tag python_start python_end content_text content_thinking content_invoke_tool_text content_tool_error content_model_end_sampling
		self user eot tools call_id tool_call_id section_begin section_end begin functionname paramname param plugin
		◁think▷ ◁/think▷ Here is my thought process Here's my response 助手：`)
	add("tool▁call▁end tool▁sep tool▁calls▁end tool_call_end tool_calls_end tool_call_argument_begin tool_calls_section_end tool▁call▁begin ｜DSML｜ ｜ ▁")
	return words
}()

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// nextWord cuts the first run of letters and digits off, or of bytes outside of ASCII.
func nextWord(s string) (word, rest string) {
	i := 0
	for i < len(s) && !wordByte(s[i]) {
		i += escapeLen(s[i:])
	}
	i = min(i, len(s))
	j := i
	for j < len(s) && wordByte(s[j]) && s[i] < 0x80 == (s[j] < 0x80) {
		j++
	}
	return s[i:j], s[j:]
}

// escapeLen is the length of the escape that s begins with, be it JSON's or Python's: what it
// spells is in another form in the value. Without one it is 1.
func escapeLen(s string) int {
	if len(s) < 2 || s[0] != '\\' {
		return 1
	}
	digits := func(most int, is func(byte) bool) int {
		n := 0
		for n < most && 2+n < len(s) && is(s[2+n]) {
			n++
		}
		return 2 + n
	}
	switch c := s[1]; {
	case c == 'x':
		return digits(2, isHex)
	case c == 'u':
		return digits(4, isHex)
	case c == 'U':
		return digits(8, isHex)
	case isOctal(c):
		return digits(2, isOctal)
	case c == 'N' && len(s) > 2 && s[2] == '{':
		const longest = 128 // of the name of a character
		if n := strings.IndexByte(s[:min(len(s), longest)], '}'); n > 0 {
			return n + 1
		}
	}
	return 2
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

// lost finds a word of a..b that is neither in the call nor of the frame.
func (p *parse) lost(a, b int, name, args string) (string, bool) {
	if len(p.kept) > 0 { // only the frame between the values is looked at
		for _, v := range append(p.kept, [2]int{b, b}) {
			if v[0] < a || v[1] > b {
				continue
			}
			if w, lost := p.lostWord(p.text[a:v[0]], name, ""); lost {
				return w, true
			}
			a = v[1]
		}
		return "", false
	}
	text := p.text[a:b]
	if at := strings.Index(text, args); at >= 0 && args != "" { // as it was written
		if w, lost := p.lostWord(text[:at], name, ""); lost {
			return w, true
		}
		return p.lostWord(text[at+len(args):], name, "")
	}
	return p.lostWord(text, name, args)
}

func (p *parse) lostWord(text, name, args string) (string, bool) {
	value := ""
	rest := args
	if len(args) > 2 {
		value = spoken(args)
		rest = value
	}
	for w, more := nextWord(text); w != ""; w, more = nextWord(more) {
		if next, after := nextWord(rest); next == w {
			rest = after
			// both texts go on alike for a while: an argument as it was written
			n := 0
			for n < len(more) && n < len(rest) && more[n] == rest[n] {
				n++
			}
			for n > 0 && n < len(more) && (wordByte(more[n-1]) || more[n-1] == '\\') {
				n--
			}
			more, rest = more[n:], rest[n:]
			continue
		}
		if frameWords[w] || strings.Contains(name, w) || strings.Contains(p.also, w) || p.suffix != "" && strings.Contains(p.suffix, w) {
			continue
		}
		p.spent += len(value) / 8
		if p.spent > 8*len(p.text)+1<<16 {
			return "", false // hostile text: the search would no longer be linear
		}
		if at := strings.Index(value, w); at >= 0 {
			rest = value[at+len(w):]
			continue
		}
		return w, true
	}
	return "", false
}

// spoken is JSON with its strings unquoted.
func spoken(args string) string {
	var b strings.Builder
	b.Grow(len(args))
	for i := 0; i < len(args); {
		if args[i] != '"' {
			n := strings.IndexByte(args[i:], '"')
			if n < 0 {
				n = len(args) - i
			}
			b.WriteString(args[i : i+n])
			i += n
			continue
		}
		end, err := scanner{text: args, raw: true}.str(i)
		if err != nil {
			b.WriteString(args[i:])
			break
		}
		t, _ := unquote(args[i:end])
		b.WriteByte(' ')
		b.WriteString(t)
		b.WriteByte(' ')
		i = end
	}
	return b.String()
}

// account reports words of frames that are no words of frames, so that no text goes between
// the parts of an answer. A recipient or an id that is also a call's name or id is none.
func (p *parse) account() {
	name := p.gram.name
	if p.gram.base != "" {
		name = p.gram.base
	}
	marks := headers[strings.TrimPrefix(name, "reasoning:")]
	for _, s := range p.out.Spans {
		if s.Kind != InFrame {
			continue
		}
		if marks != nil && !p.headed(marks, s.Start, s.End) && !p.faulted(s.Start, s.End) {
			p.fault(s.Start, s.End, "lost_text", "%q is between the parts of the answer", clipped(strings.TrimSpace(p.text[s.Start:s.End])))
			continue
		}
		for w, rest := nextWord(p.text[s.Start:s.End]); w != ""; w, rest = nextWord(rest) {
			if frameWords[w] || p.suffix != "" && strings.Contains(p.suffix, w) || p.inCalls(w) {
				continue
			}
			if !p.faulted(s.Start, s.End) {
				p.fault(s.Start, s.End, "lost_text", "%q is between the parts of the answer", clipped(w))
			}
			break
		}
	}
}

func (p *parse) inCalls(word string) bool {
	for n, c := range p.out.Calls {
		if strings.Contains(c.Name, word) || strings.Contains(c.ID, word) {
			return true
		}
		if n == 64 {
			break
		}
	}
	return false
}

// faulted says that one fault covers a..b.
func (p *parse) faulted(a, b int) bool {
	for n, f := range p.out.Faults {
		if f.Start <= a && f.End >= b {
			return true
		}
		if n == 256 {
			break
		}
	}
	return false
}
