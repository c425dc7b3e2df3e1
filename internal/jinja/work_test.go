package jinja_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermes/internal/jinja"
)

// filterArgs, testArgs and methodArgs are what those need that take arguments.
var (
	filterArgs = map[string][]string{
		"attr": {"'x'"}, "batch": {"3"}, "center": {"9"}, "default": {"'x', true"}, "format": {"1"}, "groupby": {"0"}, "indent": {"2", "2, true, true"},
		"join": {"'-'"}, "map": {"'upper'", "'string'"}, "reject": {"'string'"}, "rejectattr": {"'x'"}, "replace": {"'a', 'b'", "'<', ''", "'zz', 'y'"},
		"round": {"1"}, "select": {"'string'"}, "selectattr": {"'x'"}, "slice": {"3"}, "sum": {
			"start=''",
			"start=[]",
		}, "truncate": {"9", "9, true", "99999999"},
		"wordwrap": {"3", "79", "79, false"}, "tojson": {"", "indent=2"}, "trim": {"", "'a'", "'aé <'"},
	}
	testArgs = map[string][]string{
		"divisibleby": {"3"}, "eq": {"s"}, "equalto": {"t"}, "==": {"t"}, "ne": {"t"}, "!=": {"t"}, "gt": {"t"}, ">": {"t"}, "greaterthan": {"t"}, "ge": {"t"}, ">=": {"t"},
		"lt": {"t"}, "<": {"t"}, "lessthan": {"t"}, "le": {"t"}, "<=": {"t"}, "in": {"t", "[t, t]"}, "sameas": {"t"},
	}
	methodArgs = map[string][]string{
		"strip": {
			"",
			"'aé <'",
		}, "lstrip": {"", "'aé <'"}, "rstrip": {"", "'aé <'"}, "split": {"", "' '", "'zz'", "' ', 1"}, "rsplit": {"", "' '", "'zz'", "' ', 1"},
		"startswith": {"t", "('a', t)"}, "endswith": {"t", "('a', t)"}, "replace": {"'a', 'b'", "' ', ''", "'zz', 'y'"},
		"find": {"'zz'", "t"}, "rfind": {"'zz'", "t"}, "index": {"' '", "t"}, "rindex": {"' '", "t"}, "count": {"'zz'", "'a'"},
		"encode": {
			"",
			"'utf-8'",
		}, "join": {"['x', 'y']", "[t, t]", "'xy' * 99999"}, "format": {"1"}, "center": {"9"}, "ljust": {"9"}, "rjust": {"9"}, "zfill": {"9"},
		"partition": {"'zz'", "' '"}, "rpartition": {"'zz'", "' '"}, "removeprefix": {"t"}, "removesuffix": {"t"},
	}
	operations = []string{
		"s ~ t", "s + t", "s == t", "s < t", "t in s", "'zz' in s", "s not in t", "s * 2", "s[1:]", "s[::-1]", "s[-1]", "s[5]", "s % 1", "s | list", "[s, s]", "{s: 1}",
		"s if s else t", "not s", "l == m", "l + m", "l[1:]", "l[::-1]", "999999 in l", "l.index(l[-1])", "l.count(5)", "l < m", "l | first", "d.get(s)", "d[s]", "s is string", "namespace(x=s).x",
		"dict(x=s)", "range(9999) | list", "(1, s) == (1, t)", "joiner(s)()", "[s] * 9999", "s.x", "d.items() | list", "d.values() | list", "d == d", "d | length", "d | tojson", "d | dictsort",
		"d | string", "'%s' % s", "'%r' % s", "'{}{}'.format(s, t)", "'{:>9}'.format(s)", "strftime_now(s)",
	}
)

// cpu is the time that this process has spent on processors, however busy the machine is.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestWorkIsWeighed: whatever a template calls, over and over and on great texts and lists,
// its steps run out after a few times the time of a loop that does nothing. A file from a hub
// can't hold a processor.
func TestWorkIsWeighed(t *testing.T) {
	const (
		steps = 60_000
		most  = 25 // times as long
	)
	end := func(set, expr string) (time.Duration, error) {
		src := set + "{% for i in range(99999) %}{% for j in range(99999) %}{% set _ = " + expr + " %}{% endfor %}{% endfor %}"
		tmpl, err := jinja.Parse(src, jinja.Options{})
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		began := cpu(t)
		_, err = tmpl.Render(nil, jinja.RenderOptions{MaxSteps: steps, Now: time.Unix(0, 0)})
		return cpu(t) - began, err
	}
	var idle time.Duration
	for range 5 {
		took, _ := end("", "1")
		idle = max(idle, took)
	}
	sets := map[string]string{
		"words":   "{% set s = 'ab ' * 30000 %}{% set t = 'ab ' * 29999 ~ 'ab ' %}",
		"foreign": "{% set s = 'é日 ' * 20000 %}{% set t = 'é日 ' * 19999 ~ 'é日 ' %}",
		"one":     "{% set s = 'a' * 90000 %}{% set t = 'a' * 89999 ~ 'a' %}",
		"blank":   "{% set s = ' ' * 90000 %}{% set t = ' ' * 89999 ~ ' ' %}",
		"tags":    "{% set s = '<' * 90000 %}{% set t = '<' * 89999 ~ '<' %}",
		"pairs":   "{% set s = '<>' * 40000 %}{% set t = '<>' * 40000 %}",
		"lines":   "{% set s = '\\n' * 90000 %}{% set t = '\\n' * 90000 %}",
		"list":    "{% set s = range(9999) | list %}{% set t = range(9999) | list %}",
		"texts":   "{% set s = ['ab'] * 9999 %}{% set t = ['ab'] * 9999 %}",
	}
	more := "{% set l = range(9999) | list %}{% set m = range(9999) | list %}{% set d = dict(x=s, y=l) %}"
	filters, tests, methods := jinja.Names()
	calls := operations
	add := func(form string, names []string, args map[string][]string) {
		for _, n := range names {
			list, ok := args[n]
			if !ok {
				list = []string{""}
			}
			for _, a := range list {
				calls = append(calls, fmt.Sprintf(form, n, a))
			}
		}
	}
	add("s | %s(%s)", filters, filterArgs)
	add("s.%s(%s)", methods, methodArgs)
	for _, n := range tests {
		if strings.Trim(n, "abcdefghijklmnopqrstuvwxyz") == "" {
			add("s is %s(%s)", []string{n}, testArgs)
		}
	}
	for name, set := range sets {
		for _, c := range calls {
			took, err := end(set+more, c)
			idle := idle
			for again := 0; again < 16 && took > most*idle; again++ { // the machine may be busy: each is asked again beside the loop
				idle, _ = end("", "1")
				took, _ = end(set+more, c)
			}
			var e *jinja.Error
			if errors.As(err, &e) && e.Class == jinja.ClassTemplate {
				continue // not for values of that kind
			}
			if took > most*idle {
				t.Errorf("%s: %s: %v for the steps that a loop spends in %v (%v)", name, c, took, idle, err)
			}
		}
	}
}
