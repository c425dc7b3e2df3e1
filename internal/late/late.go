// Package late compiles regular expressions at their first use. hermes has some 300 of
// them in tables; to compile them all took 5 MB and 6 ms of every start, of `hermes version`
// too. That each one can be compiled is a test (internal/house).
package late

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression of the program's own. It is safe for concurrent use.
type Pattern struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// Regexp is the pattern of a text, which is a constant.
func Regexp(text string) *Pattern { return &Pattern{text: text} }

// Compiled returns the regular expression; it panics where the text is none.
func (p *Pattern) Compiled() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.text) })
	return p.re
}

// String returns the text.
func (p *Pattern) String() string { return p.text }

// The methods below are those of [regexp.Regexp].

// MatchString is [regexp.Regexp.MatchString].
func (p *Pattern) MatchString(s string) bool { return p.Compiled().MatchString(s) }

// FindString is [regexp.Regexp.FindString].
func (p *Pattern) FindString(s string) string { return p.Compiled().FindString(s) }

// FindStringIndex is [regexp.Regexp.FindStringIndex].
func (p *Pattern) FindStringIndex(s string) []int { return p.Compiled().FindStringIndex(s) }

// FindStringSubmatch is [regexp.Regexp.FindStringSubmatch].
func (p *Pattern) FindStringSubmatch(s string) []string { return p.Compiled().FindStringSubmatch(s) }

// FindStringSubmatchIndex is [regexp.Regexp.FindStringSubmatchIndex].
func (p *Pattern) FindStringSubmatchIndex(s string) []int {
	return p.Compiled().FindStringSubmatchIndex(s)
}

// FindAllString is [regexp.Regexp.FindAllString].
func (p *Pattern) FindAllString(s string, n int) []string { return p.Compiled().FindAllString(s, n) }

// FindAllStringIndex is [regexp.Regexp.FindAllStringIndex].
func (p *Pattern) FindAllStringIndex(s string, n int) [][]int {
	return p.Compiled().FindAllStringIndex(s, n)
}

// FindAllStringSubmatch is [regexp.Regexp.FindAllStringSubmatch].
func (p *Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.Compiled().FindAllStringSubmatch(s, n)
}

// FindAllStringSubmatchIndex is [regexp.Regexp.FindAllStringSubmatchIndex].
func (p *Pattern) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return p.Compiled().FindAllStringSubmatchIndex(s, n)
}

// ReplaceAllString is [regexp.Regexp.ReplaceAllString].
func (p *Pattern) ReplaceAllString(s, by string) string { return p.Compiled().ReplaceAllString(s, by) }

// ReplaceAllLiteralString is [regexp.Regexp.ReplaceAllLiteralString].
func (p *Pattern) ReplaceAllLiteralString(s, by string) string {
	return p.Compiled().ReplaceAllLiteralString(s, by)
}

// ReplaceAllStringFunc is [regexp.Regexp.ReplaceAllStringFunc].
func (p *Pattern) ReplaceAllStringFunc(s string, by func(string) string) string {
	return p.Compiled().ReplaceAllStringFunc(s, by)
}

// FindAllIndex is [regexp.Regexp.FindAllIndex].
func (p *Pattern) FindAllIndex(b []byte, n int) [][]int { return p.Compiled().FindAllIndex(b, n) }

// Split is [regexp.Regexp.Split].
func (p *Pattern) Split(s string, n int) []string { return p.Compiled().Split(s, n) }

// Match is [regexp.Regexp.Match].
func (p *Pattern) Match(b []byte) bool { return p.Compiled().Match(b) }

// SubexpNames is [regexp.Regexp.SubexpNames].
func (p *Pattern) SubexpNames() []string { return p.Compiled().SubexpNames() }

// ReplaceAll is [regexp.Regexp.ReplaceAll].
func (p *Pattern) ReplaceAll(b, by []byte) []byte { return p.Compiled().ReplaceAll(b, by) }
