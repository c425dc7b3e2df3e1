package fakellm

import (
	"fmt"
	"slices"
)

// obey makes a turn what the request's tool_choice allows: no calls, at least one, or one of
// a function. A call that the turn lacks is made, with the least arguments that the schema takes.
func (q *request) obey(t Turn) (Turn, error) {
	if q.form != formChat {
		return t, nil
	}
	if q.noTools && len(t.Calls) > 0 {
		t.Calls = nil
		if t.Content == "" {
			t.Content = "I may not use tools, so I answer from what was said: {{task}}"
		}
	}
	if q.must == "" {
		return t, nil
	}
	tools := offered(q.tools)
	at := slices.IndexFunc(tools, func(o offer) bool { return q.must == "*" || q.must == o.name })
	if at < 0 {
		return t, fmt.Errorf("tool_choice: the tools on offer do not have what it asks for (%q)", q.must)
	}
	calls := slices.DeleteFunc(slices.Clone(t.Calls), func(c Call) bool { return q.must != "*" && c.Name != q.must })
	if len(calls) == 0 {
		t.Content, calls = "", []Call{call(tools[at].name, example(tools[at].schema))}
	}
	t.Calls = calls
	return t, nil
}

// each calls write for every answer of a completion: n to each prompt, in order.
func (x *exchange) each(write func(y *exchange, index int)) {
	index := 0
	one := func(y *exchange) {
		for range x.q.n {
			write(y, index)
			index++
		}
	}
	one(x)
	for i, a := range x.more {
		y := *x
		y.q = x.q.more[i]
		y.a = a
		y.dig = x.q.more[i].digest()
		y.line = nil
		one(&y)
	}
}
