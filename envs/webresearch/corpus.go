package webresearch

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// page is one document of a corpus.
type page struct {
	URL      string `json:"url"`
	Title    string `json:"title"`
	Date     string `json:"date"`     // YYYY-MM-DD, or nothing
	Outdated bool   `json:"outdated"` // a newer page says otherwise; not shown to models
	Text     string `json:"text"`
}

// corpus is pages with an index over them, which is built at the first search. It is safe
// for concurrent use.
type corpus struct {
	pages []page
	at    map[string]int // by address
	build sync.Once
	lists map[string][]posting
	sizes []int // words of each page
	mean  float64
}

// posting says how often a word is in a page.
type posting struct{ page, times int }

func newCorpus(pages []page) (*corpus, error) {
	c := &corpus{pages: pages, at: map[string]int{}}
	for i, p := range pages {
		if p.URL == "" {
			return nil, fmt.Errorf("page %d has no url", i+1)
		}
		if _, twice := c.at[p.URL]; twice {
			return nil, fmt.Errorf("two pages have the address %s", p.URL)
		}
		c.at[p.URL] = i
	}
	return c, nil
}

// largest is how many bytes a corpus file may have; it is held in memory.
const largest = 1 << 30

// readCorpus reads pages as JSON lines: {url or id, title, text or content, date, outdated}.
func readCorpus(r io.Reader) (*corpus, error) {
	limited := &io.LimitedReader{R: r, N: largest + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, 64<<20)
	var pages []page
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var p struct {
			page
			ID      string `json:"id"`
			Content string `json:"content"`
		}
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("line %d: want {url, title, text}: %w", n, err)
		}
		p.URL, p.Text = cmp.Or(p.URL, p.ID), cmp.Or(p.Text, p.Content)
		if p.URL == "" || p.Text == "" {
			return nil, fmt.Errorf("line %d: a page needs a url and a text", n)
		}
		pages = append(pages, p.page)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("more than %d bytes", largest)
	}
	if len(pages) == 0 {
		return nil, errors.New("no pages")
	}
	return newCorpus(pages)
}

// words are the lower-case runs of letters and digits of a text.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

func (c *corpus) index() {
	c.lists, c.sizes = map[string][]posting{}, make([]int, len(c.pages))
	total := 0
	for i, p := range c.pages {
		count := map[string]int{}
		// Titles count twice: whoever looks for a name wants its page.
		for _, text := range []string{p.Title, p.Title, p.Text} {
			for _, w := range words(text) {
				count[w]++
				c.sizes[i]++
			}
		}
		total += c.sizes[i]
		for w, n := range count {
			c.lists[w] = append(c.lists[w], posting{i, n})
		}
	}
	c.mean = float64(total) / float64(max(1, len(c.pages)))
}

// search ranks pages by BM25 (k1 = 1.2, b = 0.75); equal ones by their place in the corpus.
func (c *corpus) search(query string, limit int) []page {
	c.build.Do(c.index)
	asked := words(query)
	slices.Sort(asked)
	score := map[int]float64{}
	for _, w := range slices.Compact(asked) {
		list := c.lists[w]
		rare := math.Log(1 + (float64(len(c.pages)-len(list))+0.5)/(float64(len(list))+0.5))
		for _, p := range list {
			tf := float64(p.times)
			score[p.page] += rare * tf * 2.2 / (tf + 1.2*(0.25+0.75*float64(c.sizes[p.page])/c.mean))
		}
	}
	found := make([]int, 0, len(score))
	for i := range score {
		found = append(found, i)
	}
	slices.SortFunc(found, func(a, b int) int {
		return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b))
	})
	var out []page
	for _, i := range found[:min(limit, len(found))] {
		out = append(out, c.pages[i])
	}
	return out
}
