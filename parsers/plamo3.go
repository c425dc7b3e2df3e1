package parsers

import "strings"

// Plamo3 is PLaMo 3. Its marks are several tokens each.
var Plamo3 = grammar{
	name:  "plamo3",
	think: plamoThink,
	read: withoutEnds(func(p *parse) {
		frames(p, plamoMarks, func(a, b, _ int, closed bool) bool { return plamoCall(p, a, b, closed) })
	}, []string{"<|plamo:tag|>"}),
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + plamoMarks.open + join("", calls, "", func(_ int, c Call) string {
			return plamoMarks.call + plamo("begin_tool_name") + c.Name + plamo("end_tool_name") + plamo("begin_tool_arguments") +
				plamoJSON + plamoMessage + c.Arguments + plamo("end_tool_arguments") + plamoMarks.end
		}) + plamoMarks.close
	},
}.family()

const plamoJSON, plamoMessage = "<|plamo:constrain|>json", "<|plamo:msg|>"

var plamoMarks = frameMarks{plamo("begin_tool_requests"), plamo("end_tool_requests"), plamo("begin_tool_request"), plamo("end_tool_request")}

var plamoThink = think{open: plamo("begin_think"), close: plamo("end_think")}.until(plamoMarks.open)

func plamo(name string) string { return "<|plamo:" + name + ":plamo|>" }

// plamoCall reads the name and the arguments of the call in a..b, each between its own marks.
func plamoCall(p *parse, a, b int, closed bool) bool {
	text := p.text[a:b]
	name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), plamo("begin_tool_name")), plamo("end_tool_name"))
	if !ok {
		return false
	}
	args, begun := strings.CutPrefix(strings.TrimSpace(rest), plamo("begin_tool_arguments"))
	args = strings.TrimPrefix(strings.TrimPrefix(args, plamoJSON), plamoMessage)
	args, ended := strings.CutSuffix(strings.TrimSpace(args), plamo("end_tool_arguments"))
	if begun != ended {
		closed = false
	}
	return p.rawCall(a, b, strings.TrimSpace(name), strings.TrimSpace(args), closed)
}
