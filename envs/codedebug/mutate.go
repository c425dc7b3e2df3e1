package codedebug

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// mutation turns what a pattern finds in a line of code into something else: the mistakes
// that people make.
type mutation struct {
	name string
	find *regexp.Regexp
	with string // as of regexp.Expand
}

// mutations lists them. The order is part of the names of mutants.
func mutations() []mutation {
	list := []struct{ name, find, with string }{
		{"off by one", ` <= `, " < "}, {"off by one", ` < `, " <= "}, {"off by one", ` >= `, " > "}, {"off by one", ` > `, " >= "},
		{"off by one", ` \+ 1\b`, ""}, {"off by one", ` - 1\b`, ""}, {"off by one", `range\((\w+), `, "range($1 + 1, "},
		{"wrong operator", ` == `, " != "}, {"wrong operator", ` != `, " == "}, {"wrong operator", ` < `, " > "}, {"wrong operator", ` > `, " < "},
		{"wrong operator", ` \+ `, " - "}, {"wrong operator", ` - `, " + "}, {"wrong operator", ` // `, " % "}, {"wrong operator", ` % `, " // "}, {"wrong operator", ` \* `, " + "},
		{"wrong operator", ` \+= `, " -= "}, {"wrong operator", ` -= `, " += "}, {"wrong operator", ` and `, " or "}, {"wrong operator", ` or `, " and "},
		{"negation lost", `\bnot `, ""}, {"wrong function", `\bmax\(`, "min("}, {"wrong function", `\bmin\(`, "max("}, {"wrong function", `\bsorted\((\w+)`, "list($1"},
		{"wrong start", `= 0$`, "= 1"}, {"wrong start", `= 1$`, "= 0"}, {"wrong start", `= \[\]$`, "= [0]"}, {"wrong start", `= ""$`, `= " "`}, {"wrong start", `, 0\)`, ", 1)"},
		{"arguments swapped", `\((\w+), (\w+)\)`, "($2, $1)"}, {"wrong index", `\[-1\]`, "[0]"}, {"wrong index", `\[0\]`, "[-1]"}, {"wrong index", `\[1\]`, "[0]"},
		{"wrong slice", `\[(\w+):\]`, "[:$1]"}, {"wrong slice", `\[:(\w+)\]`, "[$1:]"},
		{"wrong value", `\bTrue\b`, "False"}, {"wrong value", `\bFalse\b`, "True"}, {"missing return", `\breturn `, ""}, {"wrong end", `\bappend\(`, "insert(0, "},
		{"missing case", `\(\d+, "\w+"\), `, ""}, {"missing call", `\b\w+\((item|nested)\)`, "$1"},
		{"wrong function", `\bextend\(`, "append("}, {"negation lost", `\bif isinstance`, "if not isinstance"}, {"wrong branch", `\bbreak$`, "continue"}, {"wrong variable", `\bi\b`, "j"}, {"wrong variable", `\bj\b`, "i"}, {"wrong variable", `\bleft\[`, "right["},
	}
	out := make([]mutation, len(list))
	for i, m := range list {
		out[i] = mutation{m.name, regexp.MustCompile(m.find), m.with}
	}
	return out
}

// mutant is a base with one mistake. Its name says where: mutation, line, match.
type mutant struct {
	name   string
	kind   string
	source string
}

// mutants makes every mutant of a source, below its signature and description.
func mutants(source string) []mutant {
	lines := strings.Split(source, "\n")
	var out []mutant
	for n, m := range mutations() {
		for i := 2; i < len(lines); i++ {
			for k, at := range m.find.FindAllStringSubmatchIndex(lines[i], -1) {
				changed := lines[i][:at[0]] + string(m.find.ExpandString(nil, m.with, lines[i], at)) + lines[i][at[1]:]
				if changed == lines[i] {
					continue
				}
				all := append(append(append([]string{}, lines[:i]...), changed), lines[i+1:]...)
				out = append(out, mutant{fmt.Sprintf("%d.%d.%d", n, i, k), m.name, strings.Join(all, "\n")})
			}
		}
	}
	return out
}

//go:embed good.json
var goodJSON []byte

// good are the mutants of each base that end in time and that the tests of every row
// find, by name. The test of this package makes the list with Python.
func good() (map[string][]string, error) {
	var out map[string][]string
	err := json.Unmarshal(goodJSON, &out)
	return out, err
}
