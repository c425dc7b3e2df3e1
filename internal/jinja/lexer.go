package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pos is a place in the source, both parts counted from one.
type pos struct{ line, col int }

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokenKind
	text string
	pos
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokVarEnd:
		return "end of print statement"
	case tokBlockEnd:
		return "end of statement block"
	case tokData, tokVarBegin, tokBlockBegin:
		return "template data"
	}
	return "'" + t.text + "'"
}

// lexer cuts a source into tokens. at walks the source; mark and markPos
// remember the last place for which line and column were counted.
type lexer struct {
	src        string
	at         int
	mark       int
	markPos    pos
	lineStarts bool // the last match ended with a newline
	tokens     []token
}

func syntaxf(at pos, format string, args ...any) *Error {
	return &Error{Class: ClassSyntax, Kind: "TemplateSyntaxError", Message: fmt.Sprintf(format, args...), Line: at.line, Column: at.col}
}

func lex(source string) []token {
	l := &lexer{src: unixNewlines(source), markPos: pos{1, 1}, lineStarts: true}
	l.src = strings.TrimSuffix(l.src, "\n")
	for l.data() {
	}
	l.add(tokEOF, "", l.at)
	return l.tokens
}

func unixNewlines(s string) string {
	if !strings.Contains(s, "\r") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func (l *lexer) place(at int) pos {
	if at < l.mark { // an error about the start of something
		l.mark, l.markPos = 0, pos{1, 1}
	}
	for _, r := range l.src[l.mark:at] {
		l.markPos.col++
		if r == '\n' {
			l.markPos.line++
			l.markPos.col = 1
		}
	}
	l.mark = at
	return l.markPos
}

func (l *lexer) add(k tokenKind, text string, at int) {
	l.tokens = append(l.tokens, token{k, text, l.place(at)})
}

// data reads text up to the next tag and then the tag. It reports whether
// anything is left to read.
func (l *lexer) data() bool {
	start := l.at
	open := l.nextTag(start)
	if open < 0 {
		if start < len(l.src) {
			l.add(tokData, l.src[start:], start)
		}
		l.at = len(l.src)
		return false
	}
	after := open + 2
	sign := byte(0)
	if after < len(l.src) && (l.src[after] == '-' || l.src[after] == '+') {
		sign = l.src[after]
		after++
	}
	kind := l.src[open+1]
	if text := l.beforeTag(l.src[start:open], sign, kind); text != "" {
		l.add(tokData, text, start)
	}
	l.at, l.lineStarts = after, false
	switch kind {
	case '#':
		l.comment(open)
	case '{':
		l.add(tokVarBegin, "{{", open)
		l.code(open, false)
	default:
		if end := rawBegin(l.src[after:]); end > 0 {
			l.at = after + end
			l.raw(open)
			return true
		}
		l.add(tokBlockBegin, "{%", open)
		l.code(open, true)
	}
	return true
}

func (l *lexer) nextTag(from int) int {
	for {
		i := strings.IndexByte(l.src[from:], '{')
		if i < 0 || from+i+1 >= len(l.src) {
			return -1
		}
		from += i
		switch l.src[from+1] {
		case '{', '%', '#':
			return from
		}
		from++
	}
}

// beforeTag strips the text in front of a tag as its sign and lstrip_blocks say.
func (l *lexer) beforeTag(text string, sign, kind byte) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || kind == '{' {
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || l.lineStarts) && strings.TrimLeftFunc(text[line:], isSpace) == "" {
		return text[:line]
	}
	return text
}

// closeTag consumes a closing mark such as "%}" with its sign at l.at.
func (l *lexer) closeTag(mark string, trims bool) bool {
	rest := l.src[l.at:]
	switch {
	case strings.HasPrefix(rest, "-"+mark):
		l.at += 1 + len(mark)
		l.at = len(l.src) - len(strings.TrimLeftFunc(l.src[l.at:], isSpace))
	case trims && strings.HasPrefix(rest, "+"+mark):
		l.at += 1 + len(mark)
	case strings.HasPrefix(rest, mark):
		l.at += len(mark)
		if trims && strings.HasPrefix(l.src[l.at:], "\n") {
			l.at++
		}
	default:
		return false
	}
	l.lineStarts = l.src[l.at-1] == '\n'
	return true
}

func (l *lexer) comment(open int) {
	end := strings.Index(l.src[l.at:], "#}")
	if end < 0 {
		panic(syntaxf(l.place(open), "Missing end of comment tag"))
	}
	end += l.at
	if end > l.at && (l.src[end-1] == '-' || l.src[end-1] == '+') {
		end--
	}
	l.at = end
	l.closeTag("#}", true)
}

// rawBegin returns the length of `raw %}` at the start of s, or 0.
func rawBegin(s string) int {
	rest := strings.TrimLeftFunc(s, isSpace)
	rest, ok := strings.CutPrefix(rest, "raw")
	if !ok {
		return 0
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	if after, ok := strings.CutPrefix(rest, "-%}"); ok {
		return len(s) - len(strings.TrimLeftFunc(after, isSpace))
	}
	if after, ok := strings.CutPrefix(rest, "%}"); ok {
		return len(s) - len(after)
	}
	return 0
}

func (l *lexer) raw(open int) {
	start := l.at
	l.lineStarts = l.src[start-1] == '\n'
	for from := start; ; {
		i := strings.Index(l.src[from:], "{%")
		if i < 0 {
			panic(syntaxf(l.place(open), "Missing end of raw directive"))
		}
		i += from
		from = i + 2
		l.at = from
		sign := byte(0)
		if l.at < len(l.src) && (l.src[l.at] == '-' || l.src[l.at] == '+') {
			sign = l.src[l.at]
			l.at++
		}
		rest, ok := strings.CutPrefix(strings.TrimLeftFunc(l.src[l.at:], isSpace), "endraw")
		if !ok {
			continue
		}
		l.at = len(l.src) - len(strings.TrimLeftFunc(rest, isSpace))
		if l.closeTag("%}", true) {
			closed := l.lineStarts
			l.lineStarts = l.src[start-1] == '\n'
			if text := l.beforeTag(l.src[start:i], sign, '%'); text != "" {
				l.add(tokData, text, start)
			}
			l.lineStarts = closed
			return
		}
	}
}

// code reads the tokens of one tag up to its end.
func (l *lexer) code(open int, block bool) {
	mark, end := "}}", tokVarEnd
	if block {
		mark, end = "%}", tokBlockEnd
	}
	var braces []byte
	for {
		l.at = len(l.src) - len(strings.TrimLeftFunc(l.src[l.at:], isSpace))
		if l.at >= len(l.src) {
			panic(syntaxf(l.place(open), "unexpected end of template, expected '%s'", mark))
		}
		if len(braces) == 0 {
			from := l.at
			if l.closeTag(mark, block) {
				l.add(end, mark, from)
				return
			}
		}
		l.token(&braces)
	}
}

func (l *lexer) token(braces *[]byte) {
	from, c := l.at, l.src[l.at]
	r, _ := utf8.DecodeRuneInString(l.src[from:])
	switch {
	case c >= '0' && c <= '9':
		l.number()
	case isNamePart(r):
		for r, n := utf8.DecodeRuneInString(l.src[l.at:]); n > 0 && isNamePart(r); r, n = utf8.DecodeRuneInString(l.src[l.at:]) {
			l.at += n
		}
		if !unicode.IsLetter(r) && r != '_' {
			panic(syntaxf(l.place(from), "Invalid character in identifier"))
		}
		l.add(tokName, l.src[from:l.at], from)
	case c == '"' || c == '\'':
		l.str(c)
	default:
		op := l.operator(braces)
		l.at += len(op)
		l.add(tokOp, op, from)
	}
}

func isNamePart(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

func (l *lexer) operator(braces *[]byte) string {
	rest := l.src[l.at:]
	for _, op := range [...]string{"//", "**", "==", "!=", ">=", "<="} {
		if strings.HasPrefix(rest, op) {
			return op
		}
	}
	c := rest[0]
	if strings.IndexByte("+-/*%~[](){}><=.:|,;", c) < 0 {
		r, _ := utf8.DecodeRuneInString(rest)
		panic(syntaxf(l.place(l.at), "unexpected char %s", reprString(string(r))))
	}
	switch c {
	case '(', '[', '{':
		*braces = append(*braces, c)
	case ')', ']', '}':
		want := map[byte]byte{')': '(', ']': '[', '}': '{'}[c]
		n := len(*braces)
		if n == 0 || (*braces)[n-1] != want {
			panic(syntaxf(l.place(l.at), "unexpected '%c'", c))
		}
		*braces = (*braces)[:n-1]
	}
	return rest[:1]
}

// number reads an integer or, where a fraction or exponent follows and no dot
// precedes, a float.
func (l *lexer) number() {
	from := l.at
	digits := func(i int, set string) int {
		for i < len(l.src) && (strings.IndexByte(set, lower(l.src[i])) >= 0 ||
			l.src[i] == '_' && i+1 < len(l.src) && strings.IndexByte(set, lower(l.src[i+1])) >= 0) {
			i++
		}
		return i
	}
	const decimal = "0123456789"
	if l.src[from] == '0' && from+1 < len(l.src) {
		set := map[byte]string{'x': decimal + "abcdef", 'o': "01234567", 'b': "01"}[l.src[from+1]|0x20]
		if end := digits(from+2, set); set != "" && end > from+2 {
			l.at = end
			l.add(tokInt, l.src[from:end], from)
			return
		}
	}
	end := decimalEnd(l.src, from)
	float := end
	if from == 0 || l.src[from-1] != '.' {
		if float < len(l.src) && l.src[float] == '.' {
			if f := decimalEnd(l.src, float+1); f > float+1 {
				float = f
			}
		}
		if float < len(l.src) && l.src[float]|0x20 == 'e' {
			exp := float + 1
			if exp < len(l.src) && (l.src[exp] == '+' || l.src[exp] == '-') {
				exp++
			}
			if f := decimalEnd(l.src, exp); f > exp {
				float = f
			}
		}
	}
	if float > end {
		l.at = float
		l.add(tokFloat, strings.ReplaceAll(l.src[from:float], "_", ""), from)
		return
	}
	l.at = end
	l.add(tokInt, l.src[from:end], from)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// decimalEnd is the end of digits with single underscores between them.
func decimalEnd(s string, i int) int {
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' ||
		s[i] == '_' && i > 0 && s[i-1] >= '0' && s[i-1] <= '9' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9') {
		i++
	}
	return i
}

func (l *lexer) str(quote byte) {
	from := l.at
	for i := from + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case quote:
			l.at = i + 1
			text, err := unescape(l.src[from+1 : i])
			if err != "" {
				panic(syntaxf(l.place(from), "%s", err))
			}
			l.add(tokString, text, from)
			return
		}
	}
	panic(syntaxf(l.place(from), "unexpected char %s", reprString(string(quote))))
}
