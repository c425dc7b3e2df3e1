package parsers

import "strings"

// SolarOpen is Solar Open: an id, a name and an object a call, each behind its own mark.
var SolarOpen = grammar{
	name: "solar_open",
	read: func(p *parse) {
		frames(p, solarMarks, func(a, b, _ int, closed bool) bool { return solarCall(p, a, b, closed) })
	},
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + solarMarks.open + join("", calls, "", func(_ int, c Call) string {
			return solarMarks.call + c.ID + solarName + c.Name + solarArgs + c.Arguments + solarMarks.end
		})
	},
}.family()

var solarMarks = frameMarks{open: "<|tool_calls|>", call: "<|tool_call:begin|>", end: "<|tool_call:end|>"}

const solarName, solarArgs = "<|tool_call:name|>", "<|tool_call:args|>"

// solarCall reads ID NAME ARGS, and keeps the id that the model wrote.
func solarCall(p *parse, a, b int, closed bool) bool {
	id, rest, ok := strings.Cut(p.text[a:b], solarName)
	name, args, ok2 := strings.Cut(rest, solarArgs)
	if !ok || !ok2 {
		return false
	}
	id = strings.TrimSpace(id)
	p.also = id
	n := len(p.out.Calls)
	if !p.rawCall(a, b, strings.TrimSpace(name), strings.TrimSpace(args), closed) {
		return false
	}
	if len(p.out.Calls) > n && id != "" {
		p.out.Calls[n].ID = id
	}
	return true
}
