package parsers

// JSONArray is no model: servers constrain to a bare list when a call is required.
var JSONArray = grammar{
	name: "json_array",
	read: readArray,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return jsonListText(calls, "parameters")
	},
}.family()

func readArray(p *parse) {
	j := p.skipSpace(p.pos)
	end, err := p.jsonList(j, nameParameters)
	if err != nil {
		p.refuse(p.pos, len(p.text), "malformed", "list of calls: %v", err)
		return
	}
	p.frame(p.pos, j)
	p.content(end, len(p.text))
}
