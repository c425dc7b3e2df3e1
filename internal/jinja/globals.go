package jinja

import (
	"fmt"
	"strings"
	"time"
)

// globalFuncs are what a template can call without being given it.
var globalFuncs = map[string]any{
	"range":           &builtin{"range", rangeFunc},
	"dict":            &builtin{"dict", dictFunc},
	"namespace":       &builtin{"namespace", func(st *state, a arguments) any { return &Namespace{dictFunc(st, a).(*Dict)} }},
	"cycler":          &builtin{"cycler", newCycler},
	"joiner":          &builtin{"joiner", newJoiner},
	"raise_exception": &builtin{"raise_exception", raiseException},
	"strftime_now":    &builtin{"strftime_now", strftimeNow},
	"lipsum": &builtin{"lipsum", func(*state, arguments) any {
		panic(unsupported("lipsum()", "it writes random text, and a prompt must be the same each time"))
	}},
	"self": blocksOf{},
}

func raiseException(st *state, a arguments) any {
	panic(raisef("TemplateError", "%s", st.text(a.take("raise_exception", 1, "message")[0])))
}

const maxRange = 100_000

func rangeFunc(_ *state, a arguments) any {
	if len(a.pos) == 0 || len(a.pos) > 3 || len(a.kw) > 0 {
		panic(typeErrorf("range expected 1 to 3 arguments, got %d", len(a.pos)+len(a.kw)))
	}
	var n [3]int
	for i, v := range a.pos {
		n[i] = intArg(v, 0)
		if n[i] > 1<<53 || n[i] < -1<<53 {
			panic(raisef("OverflowError", "range bound %s is too large", reprShort(v)))
		}
	}
	start := n[0]
	stop := n[1]
	step := n[2]
	switch len(a.pos) {
	case 1:
		start = 0
		stop = n[0]
		step = 1
	case 2:
		step = 1
	}
	if step == 0 {
		panic(raisef("ValueError", "range() arg 3 must not be zero"))
	}
	count := 0
	if step > 0 && stop > start {
		count = (stop - start + step - 1) / step
	} else if step < 0 && stop < start {
		count = (start - stop - step - 1) / -step
	}
	if count > maxRange {
		panic(raisef("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange))
	}
	return rangeValue{start, count, step}
}

func dictFunc(st *state, a arguments) any {
	if len(a.pos) > 1 {
		panic(typeErrorf("dict expected at most 1 argument, got %d", len(a.pos)))
	}
	d := NewDict()
	if len(a.pos) == 1 {
		if from, ok := a.pos[0].(*Dict); ok {
			st.size(16 * len(from.keys))
			d = from.clone()
		} else {
			for i, x := range st.collect(a.pos[0]) {
				pair := st.collect(x)
				if len(pair) != 2 {
					panic(raisef("ValueError", "dictionary update sequence element #%d has length %d; 2 is required", i, len(pair)))
				}
				d.put(pair[0], pair[1])
			}
		}
	}
	for _, k := range a.kw {
		d.put(k.name, k.value)
	}
	return d
}

// object is a value of ours with attributes.
type object interface {
	attr(name string) (any, bool)
}

type cycler struct {
	items []any
	at    int
}

func newCycler(_ *state, a arguments) any {
	if len(a.pos) == 0 {
		panic(raisef("RuntimeError", "at least one item has to be provided"))
	}
	return &cycler{items: a.pos}
}

func (c *cycler) attr(name string) (any, bool) {
	switch name {
	case "current":
		return c.items[c.at], true
	case "next":
		return &builtin{"next", func(_ *state, a arguments) any {
			a.none("next")
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v
		}}, true
	case "reset":
		return &builtin{"reset", func(_ *state, a arguments) any {
			a.none("reset")
			c.at = 0
			return nil
		}}, true
	}
	return nil, false
}

func newJoiner(_ *state, a arguments) any {
	var sep any = ", "
	if p := a.take("joiner", 0, "sep"); p[0] != missing {
		sep = p[0]
	}
	used := false
	return &builtin{"joiner", func(_ *state, a arguments) any {
		a.none("joiner")
		if !used {
			used = true
			return ""
		}
		return sep
	}}
}

func strftimeNow(st *state, a arguments) any {
	layout := textArg("strftime_now", a.take("strftime_now", 1, "format")[0])
	if st.now.IsZero() {
		panic(raisef("TemplateError", "strftime_now: no time was given to this rendering"))
	}
	st.size(16 * len(layout))
	return strftime(st.now, layout)
}

// strftime formats as the C library does in the C locale.
func strftime(t time.Time, layout string) string {
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		i++
		flag := byte(0)
		if strings.IndexByte("-_0^#", layout[i]) >= 0 && i+1 < len(layout) {
			flag = layout[i]
			i++
		}
		part := directive(t, layout[i])
		switch {
		case flag == '-':
			if trimmed := strings.TrimLeft(part, "0 "); trimmed != "" {
				part = trimmed
			} else {
				part = "0"
			}
		case flag == '_':
			digits := strings.TrimLeft(part[:len(part)-1], "0")
			part = strings.Repeat(" ", len(part)-1-len(digits)) + digits + part[len(part)-1:]
		case flag == '^' || flag == '#':
			part = strings.ToUpper(part)
		}
		b.WriteString(part)
	}
	return b.String()
}

func directive(t time.Time, c byte) string {
	layouts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'B': "January", 'b': "Jan", 'h': "Jan",
		'A': "Monday", 'a': "Mon", 'y': "06", 'j': "002", 'e': "_2", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05",
		'c': "Mon Jan _2 15:04:05 2006", 'r': "03:04:05 PM"}
	if l, ok := layouts[c]; ok {
		return t.Format(l)
	}
	week := func(first time.Weekday) string {
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())-int(first)+7)%7)/7)
	}
	year, isoWeek := t.ISOWeek()
	switch c {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'k':
		return fmt.Sprintf("%2d", t.Hour())
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1)
	case 'w':
		return itoa(int(t.Weekday()))
	case 'u':
		return itoa((int(t.Weekday())+6)%7 + 1)
	case 'U':
		return week(time.Sunday)
	case 'W':
		return week(time.Monday)
	case 'V':
		return fmt.Sprintf("%02d", isoWeek)
	case 'G':
		return itoa(year)
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100)
	case 's':
		return fmt.Sprint(t.Unix())
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case '%':
		return "%"
	case 'z', 'Z': // the clock of datetime.now() has no zone
		return ""
	}
	return "%" + string(c)
}
