package webresearch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

type visitKey struct{}

// visit is what a rollout has done so far.
type visit struct {
	mu       sync.Mutex
	opened   map[string]bool
	searches int
}

func visitOf(w envs.World) *visit {
	return w.State.Get(visitKey{}, func() any { return &visit{opened: map[string]bool{}} }).(*visit)
}

const (
	atOnce  = 5      // pages of one call of web_extract
	cutPage = 20_000 // characters of a page that are shown
	snippet = 160    // characters of a page that a search shows
)

// The tools have the names, parameters and results of those that search the real web.
var (
	searchSpec = trajectory.ToolSpec{Name: "web_search", Description: "Searches the web for pages. Gives titles, addresses and the beginnings of pages; read the pages themselves with web_extract.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"what to look for"},"limit":{"type":"integer","minimum":1,"maximum":100,"default":5,"description":"results at most"}},"required":["query"],"additionalProperties":false}`)}
	extractSpec = trajectory.ToolSpec{Name: "web_extract", Description: "Gives the contents of web pages by their addresses, five at most.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"urls":{"type":"array","items":{"type":"string"},"minItems":1,"description":"addresses of pages"}},"required":["urls"],"additionalProperties":false}`)}
)

// Tools are a search and a reader over the task's corpus alone; nothing leaves the machine.
func (e *Env) Tools(_ context.Context, t envs.Task, w envs.World) ([]tool.Def, error) {
	s, v := t.Hidden.(*scene), visitOf(w)
	search := func(_ context.Context, a struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}) (tool.Result, error) {
		if strings.TrimSpace(a.Query) == "" {
			return tool.Errorf("the query is empty"), nil
		}
		if a.Limit < 1 {
			a.Limit = 5
		}
		v.mu.Lock()
		v.searches++
		v.mu.Unlock()
		return tool.Result{Text: tool.JSON(results(s.corpus.search(a.Query, min(a.Limit, 100))))}, nil
	}
	extract := func(_ context.Context, a struct {
		URLs []string `json:"urls"`
	}) (tool.Result, error) {
		return tool.Result{Text: tool.JSON(map[string]any{"results": v.read(s.corpus, a.URLs)})}, nil
	}
	traits := tool.Traits{ReadOnly: true, Parallel: true, FromCode: true}
	return []tool.Def{
		{Spec: searchSpec, Toolset: "web", Traits: traits, Open: func(*tool.Scope) (tool.Handler, error) { return tool.Typed(search), nil }},
		{Spec: extractSpec, Toolset: "web", Traits: traits, Open: func(*tool.Scope) (tool.Handler, error) { return tool.Typed(extract), nil }},
	}, nil
}

// found is one result of a search.
type found struct {
	Title       string `json:"title"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Position    int    `json:"position"`
}

func results(pages []page) any {
	list := []found{}
	for i, p := range pages {
		about, _, _ := strings.Cut(p.Text, "\n")
		if r := []rune(about); len(r) > snippet {
			about = string(r[:snippet]) + "…"
		}
		if p.Date != "" {
			about = p.Date + ": " + about
		}
		list = append(list, found{p.Title, p.URL, about, i + 1})
	}
	return map[string]any{"success": true, "data": map[string]any{"web": list}}
}

// content is one page as it is given to the model.
type content struct {
	URL     string `json:"url"`
	Title   string `json:"title"`
	Content string `json:"content"`
	Error   string `json:"error,omitempty"`
}

// read gives pages and remembers which were read. More than five are cut off.
func (v *visit) read(c *corpus, urls []string) (out []content) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, u := range urls[:min(len(urls), atOnce)] {
		u = strings.TrimSpace(u)
		i, ok := c.at[u]
		if !ok {
			out = append(out, content{URL: u, Error: "there is no such page"})
			continue
		}
		v.opened[u] = true
		p := c.pages[i]
		text := p.Text
		if p.Date != "" {
			text = "Last changed: " + p.Date + "\n\n" + text
		}
		if r := []rune(text); len(r) > cutPage {
			text = fmt.Sprintf("%s\n[cut: %d of %d characters]", string(r[:cutPage]), cutPage, len(r))
		}
		out = append(out, content{URL: p.URL, Title: p.Title, Content: text})
	}
	return out
}

// sofar tells which pages were read, in order, and how many searches were made.
func (v *visit) sofar() (opened []string, searches int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.opened)), v.searches
}
