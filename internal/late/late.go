// Package late compiles regular expressions at their first use.
//
// Graders have some two hundred of them, which every start of hermes would compile, and
// most commands use none. A [Regexp] is safe for concurrent use.
package late

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled when it is first used. A test of the
// package that declares it has to use it: a mistake in the expression panics then.
type Regexp struct{ compiled func() *regexp.Regexp }

// Compile returns the expression of a text.
func Compile(text string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// The methods are those of [regexp.Regexp].

func (r *Regexp) FindAllIndex(b []byte, n int) [][]int { return r.compiled().FindAllIndex(b, n) }

func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

func (r *Regexp) FindStringIndex(s string) []int { return r.compiled().FindStringIndex(s) }

func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}

func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

func (r *Regexp) ReplaceAllString(s, by string) string { return r.compiled().ReplaceAllString(s, by) }

func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, by)
}

func (r *Regexp) Split(s string, n int) []string { return r.compiled().Split(s, n) }

func (r *Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }

func (r *Regexp) SubexpNames() []string { return r.compiled().SubexpNames() }

func (r *Regexp) Match(b []byte) bool { return r.compiled().Match(b) }
