package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hermes/configs"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```$")
	noAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	inBrowser = regexp.MustCompile(`^[a-z]+:`)
)

// anchors are the fragments by which the headings of a page are reached.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all[strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// TestDocsLinks: every link leads to a file and a heading that exist, and every page is
// reached from docs/README.md or the README.
func TestDocsLinks(t *testing.T) {
	text := map[string]string{}
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text[filepath.Clean(page)] = string(raw)
	}
	reached := map[string]bool{}
	var visit func(page string)
	visit = func(page string) {
		if reached[page] {
			return
		}
		reached[page] = true
		for _, m := range mdLink.FindAllStringSubmatch(fenced.ReplaceAllString(text[page], ""), -1) {
			if inBrowser.MatchString(m[1]) {
				continue
			}
			file, fragment, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", pageName(page), m[1])
				continue
			}
			if fragment != "" && !anchors(text[target])[fragment] {
				t.Errorf("%s links to %s: no such heading", pageName(page), m[1])
			}
			if text[target] != "" {
				visit(target)
			}
		}
	}
	visit(filepath.Join(checkout, "README.md"))
	for page := range text {
		if !reached[page] && filepath.Base(filepath.Dir(page)) != "changes" {
			t.Errorf("no page leads to %s", pageName(page))
		}
	}
}

// TestDocsOfSettings: every preset is in docs/configuration.md with its settings, every key
// of a suite and every axis of a matrix in docs/eval.md, every example of a run file in its page.
func TestDocsOfSettings(t *testing.T) {
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(checkout, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	page := read("docs/configuration.md")
	for _, name := range configs.Presets() {
		i := strings.Index(page, "| `"+name+"` |")
		if i < 0 {
			t.Errorf("docs/configuration.md has no line for the preset %s", name)
			continue
		}
		row, _, _ := strings.Cut(page[i:], "\n")
		for line := range strings.Lines(read("configs/presets/" + name + ".yaml")) {
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' && !strings.Contains(row, "`"+line+"`") {
				t.Errorf("docs/configuration.md: the preset %s sets %s", name, line)
			}
		}
	}
	page = read("docs/eval.md")
	for _, key := range slices.Concat(configs.SuiteKeys(), configs.Axes()) {
		if !strings.Contains(page, "| `"+key+"` |") {
			t.Errorf("docs/eval.md has no line for %s", key)
		}
	}
	files, err := filepath.Glob(filepath.Join(checkout, "examples/runs/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no run files: %v", err)
	}
	page = read("examples/runs/README.md")
	for _, f := range files {
		first, _, _ := strings.Cut(read("examples/runs/"+filepath.Base(f)), "\n")
		if command := strings.TrimPrefix(first, "# "); !strings.Contains(page, filepath.Base(f)) ||
			strings.HasPrefix(command, "hermes ") && !strings.Contains(page, "\n"+command) {
			t.Errorf("examples/runs/README.md does not run %s: %s", filepath.Base(f), first)
		}
	}
}
