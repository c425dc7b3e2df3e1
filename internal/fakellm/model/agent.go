package model

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	"hermes/internal/fakellm/rawjson"
	"hermes/internal/schema"
)

// agent is the built-in model: a few tool calls that depend on the task and on the tools
// on offer, then an answer that quotes the last result. It is a pure function of the
// conversation.
func agent(c *Talk) Turn {
	task := c.task()
	h := fnv.New64a()
	h.Write([]byte(task))
	r := NewDice(h.Sum64())
	tools := offered(c.Tools)
	steps := plan(&r, tools)
	if c.Turns < len(steps) {
		return Turn{Reasoning: fmt.Sprintf("Step %d of %d.", c.Turns+1, len(steps)), Calls: steps[c.Turns : c.Turns+1]}
	}
	if len(steps) == 0 {
		return Turn{Content: "There are no tools here, so I answer from what was said: {{task}}"}
	}
	return Turn{Content: "The last tool said: {{last_result}}"}
}

type offer struct {
	name   string
	schema []byte
}

func offered(tools []byte) (out []offer) {
	_ = rawjson.Elems(tools, func(t []byte) bool { // no list: no tools
		f := rawjson.Field(t, "function")
		if f == nil {
			f = t
		}
		if name := rawjson.Text(rawjson.Field(f, "name")); name != "" {
			out = append(out, offer{name, rawjson.Field(f, "parameters")})
		}
		return true
	})
	return out
}

// plan draws one to four calls.
func plan(r *Dice, tools []offer) []Call {
	has := func(name string) bool {
		return slices.ContainsFunc(tools, func(o offer) bool { return o.name == name })
	}
	mark := fmt.Sprintf("%06x", r.next()&0xffffff)
	var known []Call
	add := func(name string, args any) {
		if has(name) {
			known = append(known, call(name, args))
		}
	}
	file := "notes-" + mark + ".txt"
	add("todo", map[string]any{"todos": []map[string]string{{"id": "1", "content": "look at " + mark, "status": "in_progress"}}})
	add("write_file", map[string]any{"path": file, "content": "mark " + mark + "\n"})
	if has("write_file") {
		add("read_file", map[string]any{"path": file})
		add("search_files", map[string]any{"pattern": "mark " + mark})
	}
	add("terminal", map[string]any{"command": "echo " + mark + " | tr 0-9 a-j"})
	if len(known) > 0 {
		keep := 1 + int(r.next()%4)
		for len(known) > keep { // drop from the front or the back, the order stays meaningful enough
			if r.next()&1 == 0 && known[0].Name != "write_file" {
				known = known[1:]
			} else {
				known = known[:len(known)-1]
			}
		}
		return known
	}
	var out []Call
	for range min(1+int(r.next()%2), len(tools)) {
		o := tools[r.next()%uint64(len(tools))]
		out = append(out, call(o.name, example(o.schema)))
	}
	return out
}

func call(name string, args any) Call {
	raw, err := json.Marshal(args)
	if err != nil { // only our own plain values come here
		panic(fmt.Sprintf("fakellm: arguments of %s: %v", name, err))
	}
	return Call{Name: name, Arguments: raw}
}

// example returns a value for the required properties of a schema.
func example(parameters []byte) any {
	if o, ok := schema.Example(parameters).(map[string]any); ok {
		return o
	}
	return map[string]any{} // a tool without a readable schema gets no arguments
}
