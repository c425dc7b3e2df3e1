package parsers

import (
	"slices"
	"sort"
	"strings"
)

// opening is a marker with which families begin a call, and the families that do. The
// families are tried in this order where only the text is known.
type opening struct {
	mark     string
	families []string
}

// openingsBy are the openings by their first two bytes, so that an ordinary bracket costs one look.
var openingsBy = func() map[string][]opening {
	by := map[string][]opening{}
	for _, o := range openings {
		by[o.mark[:2]] = append(by[o.mark[:2]], o)
	}
	return by
}()

// wordMarks are the marks that begin with no bracket.
var wordMarks = func() (marks []string) {
	for _, o := range openings {
		if strings.IndexByte(brackets, o.mark[0]) < 0 {
			marks = append(marks, o.mark)
		}
	}
	return marks
}()

// brackets begin nearly all marks.
const brackets = "<[]"

// openingAt finds the opening at i.
func openingAt(text string, i int) (opening, bool) {
	if i+2 > len(text) {
		return opening{}, false
	}
	for _, o := range openingsBy[text[i:i+2]] {
		if strings.HasPrefix(text[i:], o.mark) {
			return o, true
		}
	}
	return opening{}, false
}

// prose knows where a text only quotes markers.
type prose struct {
	text   string
	fences []int // lines that begin with three back-ticks; made when first asked for
	tools  *tools
	begin  int // the first byte that is no blank
}

func newProse(text string, t *tools) *prose {
	return &prose{text: text, tools: t, begin: len(text) - len(strings.TrimLeft(text, " \n\t\r"))}
}

// fenced says that i lies in a fenced block of Markdown.
func (q *prose) fenced(i int) bool {
	if q.fences == nil {
		q.fences = []int{}
		for at := 0; at < len(q.text); {
			n := strings.Index(q.text[at:], "```")
			if n < 0 {
				break
			}
			at += n
			if q.lineStart(at) {
				q.fences = append(q.fences, at)
			}
			at += 3
		}
	}
	return sort.SearchInts(q.fences, i)%2 == 1
}

// lineStart says that only blanks are before i on its line.
func (q *prose) lineStart(i int) bool {
	for i > 0 && (q.text[i-1] == ' ' || q.text[i-1] == '\t') {
		i--
	}
	return i == 0 || q.text[i-1] == '\n' || q.text[i-1] == '\r'
}

// quoteBefore and quoteAfter are what is around a marker that a text speaks about.
var (
	quoteBefore = []string{"`", `"`, "'", "“", "‘", "«", "„"}
	quoteAfter  = []string{"`", `"`, "'", "”", "’", "»", "“"}
)

// isCall says that the marker at i, n bytes long, begins a call and is not quoted. It is one
//
//   - at the beginning of the text, unless a sentence about it follows;
//   - at the beginning of a line, unless the line goes on as a sentence does;
//   - within a line, if what follows has the shape of a call: an object, a list, a tag that
//     closes nothing, or a name with one of these right behind it.
//
// It is none inside a fenced block of Markdown, and none between quotes or back-ticks.
func (q *prose) isCall(i, n int) bool { return !q.fenced(i) && q.isMarker(i, n) }

// isMarker is isCall without a look at fences.
func (q *prose) isMarker(i, n int) bool {
	before, after := q.text[:i], q.text[min(i+n, len(q.text)):]
	if i <= q.begin {
		return !spokenOf(after) || q.toolName(after)
	}
	if q.text[i-1] == '>' { // right behind another marker
		return true
	}
	for _, m := range quoteBefore {
		if strings.HasSuffix(before, m) {
			return false
		}
	}
	for _, m := range quoteAfter {
		if strings.HasPrefix(after, m) && strings.IndexByte("=[{", q.text[i+n-1]) < 0 {
			return false
		}
	}
	if q.lineStart(i) {
		return q.text[i+n-1] != '>' && q.text[i+n-1] != ']' || !sentence(after) || q.toolName(after)
	}
	return bodyShape(q.text[i:i+n], after) || q.toolName(after)
}

// toolName says that after begins with the name of a declared tool.
func (q *prose) toolName(after string) bool {
	after = strings.TrimLeft(after[:min(len(after), 256)], " \t\n\"'")
	after = strings.TrimPrefix(after, "functions.")
	n := 0
	for n < len(after) && (isWord(after[n]) || after[n] == '.' || after[n] == '-') {
		n++
	}
	return n > 0 && q.tools != nil && q.tools.has(after[:n])
}

// sentence says that after goes on as prose does: a blank and a word, or punctuation.
func sentence(after string) bool {
	if after == "" {
		return false
	}
	if strings.IndexByte(",.;:!?)", after[0]) >= 0 || strings.HasPrefix(after, "…") {
		return true
	}
	return len(after) > 1 && after[0] == ' ' && (isWord(after[1]) && after[1] < 0x80 && !isDigit(after[1]) || after[1] == '(')
}

// spokenOf says that after goes on as a sentence about the marker before it.
func spokenOf(after string) bool {
	for _, verb := range []string{" is ", " are ", " was ", " means ", " marks ", " opens ", " begins ", " starts ", " wraps ", " stands "} {
		if strings.HasPrefix(after, verb) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// bodyShape says that after has the shape of a call behind mark.
func bodyShape(mark, after string) bool {
	if last := mark[len(mark)-1]; last == '[' && mark[0] == 'f' && strings.HasPrefix(strings.TrimLeft(after, " \t\r\n"), "{") || last != '>' && last != ']' && last != '[' || strings.HasSuffix(mark, "<|constrain|>") {
		return true // the marker itself holds the beginning of a call
	}
	if after != "" && (after[0] == '\n' || after[0] == '\r') {
		return true // a marker that ends its line
	}
	s := strings.TrimLeft(after[:min(len(after), 256)], " \t\r\n")
	switch {
	case s == "":
		return false
	case s[0] == '{' || s[0] == '[':
		in := strings.TrimLeft(s[1:], " \t\r\n")
		return in != "" && (strings.IndexByte("\"'{[]}", in[0]) >= 0 || in[0] < 0x80 && isWord(in[0]))
	case s[0] == '<':
		return !strings.HasPrefix(s, "</") && len(s) > 1
	case s[0] == ']':
		return strings.HasPrefix(s, m3)
	case strings.HasPrefix(s, "call:"):
		return true
	}
	n := 0
	for n < len(s) && s[n] < 0x80 && (isWord(s[n]) || s[n] == '.' || s[n] == '-' || s[n] == ':') {
		n++
	}
	if n > 0 && n < len(s) && (s[n] == '\n' || s[n] == '\r') {
		return len(s) == len(after) || strings.HasPrefix(strings.TrimLeft(s[n:], " \t\r\n"), "<") // a name that ends its line
	}
	return n > 0 && n < len(s) && strings.IndexByte("{[<(", s[n]) >= 0 && (!strings.HasPrefix(s[n:], "</") || len(s) == len(after))
}

// isMarker says that a marker of n bytes at i is one: a special token, or text where a call
// is written.
func (p *parse) isMarker(i, n int) bool { return p.genuine[i] != "" || p.prose().isMarker(i, n) }

// closers are the markers that end the calls of families.
var closers = []string{"</tool_call>", "</tool_calls>", "</function>", "</invoke>", "</function_calls>", "</longcat_tool_call>", "</seed:tool_call>", "</minimax:tool_call>", "</dots_function_call>",
	"</atem:function_calls>", "</steptml:invoke>", "<|tool_call_end|>", "<|tool_calls_section_end|>", "<tool_call|>", "<end_function_call>", "<|END_ACTION|>", "<|tools_suffix|>", "<|action_end|>",
	"<｜tool▁calls▁end｜>", "<｜tool▁call▁end｜>", "<｜tool_calls_end｜>", "<｜tool_call_end｜>", "</｜DSML｜tool_calls>", "</｜DSML｜function_calls>", "</｜DSML｜invoke>", "<|call|>", m3 + "</tool_call>"}

// unopened reports an answer that ends as calls do, though none begins in it: its opening
// marker is damaged.
func (p *parse) unopened() {
	if len(p.out.Calls) > 0 || len(p.out.Faults) > 0 {
		return
	}
	content := strings.TrimRight(p.out.Content, " \t\r\n")
	for _, m := range closers {
		body, ok := strings.CutSuffix(content, m)
		body = strings.TrimRight(body, " \t\r\n")
		if !ok || body == "" || strings.IndexByte("}])>", body[len(body)-1]) < 0 {
			continue
		}
		at := strings.LastIndex(p.text, m)
		p.fault(at, at+len(m), "unread_call", "%s ends a call, and none could be read", m)
		return
	}
}

// openingMarks are the markers that may be quoted in prose.
var openingMarks = func() map[string]bool {
	marks := map[string]bool{}
	for _, o := range openings {
		marks[o.mark] = true
	}
	return marks
}()

// unread reports markup of a call, of any family, that is in the content.
func (p *parse) unread() {
	if start := p.skipSpace(p.pos); len(p.out.Calls) == 0 && len(p.out.Faults) == 0 && !p.own && start < len(p.text) && strings.IndexByte("{[`", p.text[start]) >= 0 && bareFamilies(p.text[start:], p.tools) != nil {
		p.fault(start, len(p.text), "unread_call", "a call of a declared tool without the family's marker")
		return
	}
	if !strings.ContainsAny(p.out.Content, "<[") {
		return
	}
	q := p.prose()
	defer p.unopened()
	left := 64 // places that are reported, so that hostile text costs no more than its length
	for _, s := range p.out.Spans {
		if s.Kind != InContent {
			continue
		}
		i, o := q.nextIn(s.Start, s.End)
		if i < 0 {
			continue
		}
		if left == 0 {
			break
		}
		left--
		if slices.Contains(p.examples, i) || slices.ContainsFunc(p.out.Faults, func(f Fault) bool { return f.Start <= i+len(o.mark) && f.End >= i && f.Kind != "unclosed_reasoning" }) {
			continue
		}
		p.fault(i, min(i+len(o.mark), s.End), "unread_call", "%s where a call begins, and no call could be read", strings.TrimSpace(o.mark))
	}
}

// nextIn finds the first opening in a..b that is a call, or -1.
func (q *prose) nextIn(a, b int) (int, opening) {
	best, found := -1, opening{}
	for _, m := range wordMarks {
		if n := strings.Index(q.text[a:b], m); n >= 0 && q.isCall(a+n, len(m)) {
			best, b = a+n, a+n
			found, _ = openingAt(q.text, best)
		}
	}
	for i := a; i < b; i++ {
		n := strings.IndexAny(q.text[i:b], brackets)
		if n < 0 {
			break
		}
		i += n
		if o, ok := openingAt(q.text, i); ok && q.isCall(i, len(o.mark)) {
			return i, o
		}
	}
	return best, found
}

// Auto looks for calls in a text that a server gave as plain content, when the family is
// not known. found says that the text holds something that looks like a call; p then has
// it as a call or as a fault, read by the family that reads the most of it, and family is
// its name. Otherwise the whole text is p.Content.
//
// What looks like a call is decided by the first marker, of any family, where a call is
// written. That is at the beginning of the text, unless a sentence about the marker follows;
// at the beginning of a line that does not go on as a sentence; or within a line, if an
// object, a list, an opening tag or a name with one of these follows. A marker in a fenced
// block of Markdown, between quotes or in back-ticks is none, so prose about a tag has no
// fault.
//
//	hermes, qwen, granite4, ernie45   <tool_call> and an object
//	qwen3_coder, qwen3_xml, nemotron_v3, step3p5   <tool_call> and <function=, or <function= alone
//	glm45, glm47, ling3, poolside_v1  <tool_call>, a name and <arg_key> or the closing tag
//	minimax, jamba, hunyuan_a13b      <tool_calls> and objects or a list
//	hy_v3, hy_v4                      <tool_calls> (with a suffix or not) and <tool_call
//	iquest_q1, k2_horizon, plamo3     <iquest_tool_call>; <ifm|tool_calls>, <ifm|tool_call>; <|plamo:begin_tool_requests:plamo|>
//	deepseek_v41, gigachat35          <｜DSML｜ calls>, <｜DSML｜ invoke; <｜GCML｜tool_calls>, <｜GCML｜invoke
//	deepseek_v3, deepseek_v3_1        <｜tool▁calls▁begin｜> or <｜tool▁call▁begin｜>
//	deepseek_v32, deepseek_v4         <｜DSML｜function_calls>, <｜DSML｜tool_calls>, <｜DSML｜invoke
//	kimi_k2, kimi_k3                  <|tool_calls_section_begin|>, <|tool_call_begin|>; <|open|>tools
//	mistral                           [TOOL_CALLS]
//	openai, inkling, muse_glimmer     a header with a recipient; <|content_invoke_tool_json|>; <atem:function_calls>
//	others with their own marker: that marker
//
// Five families write calls without any marker: llama3_json and llama4_json (an object),
// xlam and json_array (a list of objects, for xlam also in a fence), granite (a list) and
// pythonic (a list of Python calls). Their text counts only if a tool list is given, the
// text begins with the object or the list, and the name in it is declared.
//
// opt.Dialect should be [Ours]. The cost is linear in the text. Auto holds no state and is
// safe for concurrent use.
func Auto(text string, opt ParseOptions) (family string, p Parsed, found bool) {
	q := newProse(text, newTools(opt.Tools))
	at, o := q.nextIn(0, len(text))
	names := o.families
	if at < 0 {
		names = bareFamilies(text, q.tools)
	}
	best := -1
	for _, name := range names {
		f := builtin(name)
		one := f.Parse(text, opt)
		if n := worth(one); n > best {
			family = name
			p = one
			best = n
		}
	}
	found = best >= 0 && p.hasMarkup()
	if best >= 0 && !found && at >= 0 { // a marker where a call begins, and the family says nothing about it
		end := at + len(o.mark)
		p.Faults = append(p.Faults, Fault{Kind: "unread_call", Message: "the text begins a call with " + o.mark + " and goes on in another way", Start: at, End: end})
		found = true
	}
	if !found {
		return "", plainly(text), false
	}
	return family, p, true
}

// hasMarkup says that p holds a call, or a fault of something that looks like one.
func (p Parsed) hasMarkup() bool {
	return len(p.Calls) > 0 || slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind != "unclosed_reasoning" })
}

// plainly is a text that is content.
func plainly(text string) Parsed {
	p := Parsed{Content: text}
	if text != "" {
		p.Spans = []Span{{InContent, 0, len(text)}}
	}
	return p
}

// worth orders the readings of one text: whole calls first, then calls that need a repair.
func worth(p Parsed) int {
	n := 0
	for _, c := range p.Calls {
		switch c.State {
		case Complete:
			n += 100
		case Recovered, Ambiguous:
			n += 10
		default:
			n++
		}
	}
	return n
}

// builtin finds a family that ships with hermes.
func builtin(name string) Family {
	for _, f := range Builtin() {
		if f.Name == name {
			return f
		}
	}
	return Plain
}

// bareFamilies are the families that may have written text without a marker: it begins with
// a call of a declared tool.
func bareFamilies(text string, t *tools) []string {
	s := strings.TrimLeft(text, " \t\r\n")
	fence := false
	if rest, ok := strings.CutPrefix(s, "```"); ok {
		s, fence = strings.TrimLeft(strings.TrimPrefix(rest, "json"), " \t\r\n"), true
	}
	if s == "" || !t.known() {
		return nil
	}
	switch {
	case s[0] == '{' && !fence && t.namedIn(s):
		return []string{"llama3_json"}
	case s[0] == '[' && strings.HasPrefix(strings.TrimLeft(s[1:], " \t\r\n"), "{") && t.namedIn(s):
		if fence {
			return []string{"xlam"}
		}
		return []string{"xlam", "json_array", "granite"}
	case s[0] == '[' && !fence:
		name := strings.TrimLeft(s[1:min(len(s), 256)], " \t\r\n")
		if i := strings.IndexByte(name, '('); i > 0 && t.has(strings.TrimSpace(name[:i])) {
			return []string{"pythonic"}
		}
	}
	return nil
}

// namedIn says that the first "name" of the object or list at the beginning of s is a
// declared tool.
func (t *tools) namedIn(s string) bool {
	for _, key := range []string{`"name"`, `'name'`} {
		i := strings.Index(s, key)
		if i < 0 || strings.Trim(s[:i], "[{ \t\r\n") != "" {
			continue
		}
		s := strings.TrimLeft(s[i+len(key):], " \t\r\n:")
		if s == "" || s[0] != key[0] {
			continue
		}
		if n := strings.IndexByte(s[1:], key[0]); n > 0 && t.has(strings.TrimSpace(s[1:1+n])) {
			return true
		}
	}
	return false
}

// Look reads a content text by the family of that name, or by [Auto] when the name is
// "auto". found says that the text holds a call or something that looks like one. The
// error wraps [ErrUnknown].
func (s *Set) Look(name, text string, opt ParseOptions) (family string, p Parsed, found bool, err error) {
	if name == "auto" {
		family, p, found = Auto(text, opt)
		return family, p, found, nil
	}
	f, err := s.Get(name)
	if err != nil {
		return "", plainly(text), false, err
	}
	p = f.Parse(text, opt)
	return f.Name, p, p.hasMarkup(), nil
}
