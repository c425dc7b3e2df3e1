package box

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
)

const searchParameters = `{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "description": "A regular expression, or a glob of names with target files."},
    "target": {"type": "string", "enum": ["content", "files", "grep", "find"], "default": "content", "description": "Search in files (content) or for files (files)."},
    "path": {"type": "string", "default": ".", "description": "Folder or file to search in."},
    "file_glob": {"type": "string", "description": "content: only files whose names match, such as *.py."},
    "limit": {"type": "integer", "minimum": 1, "default": 50, "description": "Most results."},
    "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "Results to skip."},
    "output_mode": {"type": "string", "enum": ["content", "files_only", "count"], "default": "content", "description": "content: matching lines; files_only: names of files; count: matches of each file."},
    "context": {"type": "integer", "minimum": 0, "default": 0, "description": "Lines before and after each match."}
  },
  "required": ["pattern"],
  "additionalProperties": false
}`

// Bounds of a search.
const (
	searchLimit = 50
	searchLine  = 500    // characters of a line
	searchAll   = 10_000 // matches that are counted by file
)

type searchArgs struct {
	Pattern string `json:"pattern"`
	Target  string `json:"target"`
	Path    string `json:"path"`
	Glob    string `json:"file_glob"`
	Limit   int    `json:"limit"`
	Offset  int    `json:"offset"`
	Mode    string `json:"output_mode"`
	Context int    `json:"context"`
}

type searchMatch struct {
	Path    string `json:"path"`
	Line    int    `json:"line"`
	Content string `json:"content"`
}

type searchResult struct {
	Total     int            `json:"total_count"`
	Matches   []searchMatch  `json:"matches,omitempty"`
	Files     []string       `json:"files,omitempty"`
	Counts    map[string]int `json:"counts,omitempty"`
	Truncated bool           `json:"truncated,omitempty"`
	Skipped   string         `json:"skipped,omitempty"`
	Hint      string         `json:"_hint,omitempty"`
	Warning   string         `json:"_warning,omitempty"`
}

func searchFiles(o Options) tool.Def {
	return tool.Def{
		Spec: spec("search_files", searchParameters), Aliases: []string{"search"}, Toolset: "file",
		Traits: tool.Traits{ReadOnly: true, Parallel: true, Paths: searchPaths, FromCode: true, NeedsBox: true},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			x := open(s, o)
			return tool.Typed(x.search), nil
		},
	}
}

func searchPaths(args json.RawMessage) []string {
	if p := pathsOf(args); p != nil {
		return p
	}
	return []string{"."}
}

func (x *session) search(ctx context.Context, a searchArgs) (tool.Result, error) {
	a.Path, a.Limit, a.Mode = cmp.Or(a.Path, "."), cmp.Or(max(a.Limit, 0), searchLimit), cmp.Or(a.Mode, "content")
	byName := a.Target == "files" || a.Target == "find"
	if a.Pattern == "" {
		return tool.Errorf("pattern is empty"), nil
	}
	if !byName {
		if _, err := regexp.Compile(a.Pattern); err != nil {
			return tool.Errorf("pattern: %v (RE2 syntax: no look-around, no back-references)", err), nil
		}
	}
	b, err := x.box(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	searcher, ok := backends.As[backends.Searcher](b)
	if !ok {
		return tool.Errorf("this sandbox cannot search; use terminal with grep or find"), nil
	}
	times := 0
	if !tool.FromCode(ctx) {
		times = x.again(tool.JSON(a))
		if times >= 4 {
			return tool.Errorf("BLOCKED: you have made this search %d times in a row. Its results have not changed; go on with what you know.", times), nil
		}
	}
	root, err := x.sh.Path(ctx, b, a.Path)
	if err != nil {
		return tool.Result{}, err
	}
	if ok, err := x.mayRead(ctx, b, "search_files for "+spelled(a.Pattern), root); err != nil || !ok {
		return tool.Errorf("%s", notAllowed("the search")), err
	}
	q := backends.Query{Root: root, Pattern: a.Pattern, Content: !byName, Glob: a.Glob, Limit: a.Limit, Offset: a.Offset, Context: a.Context}
	if !byName && a.Mode != "content" {
		q.Limit = searchAll
		q.Offset = 0
		q.Context = 0
	}
	f, err := searcher.Search(ctx, q)
	if err != nil {
		return x.searchError(ctx, b, root, err)
	}
	hint := ""
	if byName && f.Total == 0 && !strings.ContainsAny(a.Pattern, `*?[{\/`) { // a name, or a part of one
		q.Pattern = "*" + anyCase(a.Pattern) + "*"
		part, err := searcher.Search(ctx, q)
		if err != nil {
			return x.searchError(ctx, b, root, err)
		}
		if part.Total > 0 {
			f, hint = part, fmt.Sprintf("No file is named %s; the names of these contain it.", a.Pattern)
		}
	}
	res, next := a.result(f, byName)
	res.Skipped, res.Hint = skipped(f.Skipped), hint
	if times == 3 {
		res.Warning = "You have made this search three times in a row; the results are the same."
	}
	out := tool.JSON(res)
	if res.Truncated {
		out += fmt.Sprintf("\n\n[Hint: more results exist; use offset=%d to see them, or a narrower pattern or file_glob.]", next)
	}
	return tool.Result{Text: out}, nil
}

// anyCase is a pattern for name in small or capital letters.
func anyCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if up, low := unicode.ToUpper(r), unicode.ToLower(r); up != low {
			fmt.Fprintf(&b, "[%c%c]", low, up)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// skipped says what a search left out.
func skipped(s backends.Skipped) string {
	var said []string
	if parts, all := s.Counts(); all > 0 {
		names := strings.Join(s.Names, ", ")
		if all > len(s.Names) {
			names += ", …"
		}
		said = append(said, fmt.Sprintf("Left out: %s (%s). Name one of them as path to search in it.", strings.Join(parts, ", "), edit.Clip(names, 500)))
	}
	if len(s.Bounds) > 0 {
		said = append(said, fmt.Sprintf("Not everything was looked at: a search ends at %s. Search in a smaller path.", strings.Join(s.Bounds, ", and at ")))
	}
	return strings.Join(said, " ")
}

func (x *session) searchError(ctx context.Context, b backends.Sandbox, root string, err error) (tool.Result, error) {
	switch {
	case !fileError(err):
		return tool.Result{}, fmt.Errorf("search %s: %w", root, err)
	case !errors.Is(err, fs.ErrNotExist):
		return tool.Errorf("search %s: %v", root, reason(err)), nil
	}
	similar, err := x.similar(ctx, b, root)
	if err != nil {
		return tool.Result{}, err
	}
	text := "Path not found: " + root
	if len(similar) > 0 {
		text += ". Similar: " + strings.Join(similar, ", ")
	}
	return tool.Result{Text: tool.JSON(map[string]any{"error": text, "total_count": 0}), Failed: true}, nil
}

// result shapes what was found; next is the offset of the following page.
func (a searchArgs) result(f backends.Found, byName bool) (res searchResult, next int) {
	res.Total = f.Total
	if byName {
		for _, m := range f.Matches {
			res.Files = append(res.Files, m.Path)
		}
		next = a.Offset + len(res.Files)
		res.Truncated = next < f.Total || f.More
		return res, next
	}
	if a.Mode != "content" {
		return a.byFile(f)
	}
	shown := 0
	for _, m := range f.Matches {
		if !m.Context {
			shown++
		}
		line := m.Text
		if utf8.RuneCountInString(line) > searchLine {
			line = string([]rune(line)[:searchLine])
		}
		res.Matches = append(res.Matches, searchMatch{m.Path, m.Line, strings.TrimSuffix(line, "\r")})
	}
	next = a.Offset + shown
	res.Truncated = next < f.Total || f.More
	return res, next
}

// byFile counts matches; the page consists of files, in the order of their paths.
func (a searchArgs) byFile(f backends.Found) (res searchResult, next int) {
	counts := map[string]int{}
	var files []string
	for _, m := range f.Matches {
		if m.Context {
			continue
		}
		if counts[m.Path] == 0 {
			files = append(files, m.Path)
		}
		counts[m.Path]++
	}
	all := len(files)
	from := min(a.Offset, all)
	files = files[from:min(all, from+a.Limit)]
	next = from + len(files)
	res.Truncated = next < all || f.More
	if a.Mode == "files_only" {
		res.Total, res.Files = all, files
		return res, next
	}
	res.Total, res.Counts = f.Total, map[string]int{}
	for _, name := range files {
		res.Counts[name] = counts[name]
	}
	return res, next
}
