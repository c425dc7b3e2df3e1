package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hermes/internal/fakellm"
)

// A block of shell in a page: ```sh, whose every line is a command, or ```console, where
// commands begin with "$ " and what follows them must be in their output. A comment
// before a block says what it needs or is:
//
//	<!-- needs server docker -->   a server of the model NAME at http://127.0.0.1:8000/v1; a program
//	<!-- not run: REASON -->       the block is shown only
//	<!-- file: NAME -->            the block, of whatever language, is the content of this file
//	<!-- in a copy: NAME... -->    what follows runs in a folder with these files of the checkout
//	<!-- part of: PATH -->         the block is a part of this file of the checkout, word for word
//
// The blocks of one page run in one fresh folder, one after the other, as if they were typed: cd
// holds for what follows. The variable CHECKOUT is the folder of the sources.
type shellBlock struct {
	line    int
	console bool
	needs   []string
	notRun  string
	file    string   // written instead of run
	source  string   // compared instead of run
	copies  []string // files and folders of the checkout that are copied instead
	text    []string
}

var (
	needsMark  = regexp.MustCompile(`^<!-- needs (.+?) -->$`)
	notRunMark = regexp.MustCompile(`^<!-- not run: (.+?) -->$`)
	fileMark   = regexp.MustCompile(`^<!-- file: (.+?) -->$`)
	partMark   = regexp.MustCompile(`^<!-- part of: (.+?) -->$`)
	copyMark   = regexp.MustCompile(`^<!-- in a copy: (.+?) -->$`)
	likeMark   = regexp.MustCompile(`^<!-- *(need|not|file|part|in )`)
	fence      = regexp.MustCompile("^```([a-z]*)(.*)$")
)

// shellBlocks finds the blocks of a page that are run, written or compared.
func shellBlocks(page string) (blocks []shellBlock, err error) {
	var b shellBlock
	inside, keep := false, false
	for i, line := range strings.Split(page, "\n") {
		mark := strings.TrimSpace(line)
		m := fence.FindStringSubmatch(mark)
		switch {
		case inside && mark == "```":
			if keep {
				blocks = append(blocks, b)
			}
			b, inside = shellBlock{}, false
		case inside:
			b.text = append(b.text, line)
		case m != nil:
			shell := m[1] == "sh" || m[1] == "console"
			if m[2] != "" {
				return nil, fmt.Errorf("line %d: %q behind the language of a block: a comment before it says what it needs", i+1, m[2])
			}
			b.line = i + 1
			b.console = m[1] == "console"
			inside = true
			keep = shell || b.file != "" || b.source != ""
		case needsMark.MatchString(mark):
			b.needs = strings.Fields(needsMark.FindStringSubmatch(mark)[1])
		case notRunMark.MatchString(mark):
			b.notRun = notRunMark.FindStringSubmatch(mark)[1]
		case fileMark.MatchString(mark):
			b.file = fileMark.FindStringSubmatch(mark)[1]
		case partMark.MatchString(mark):
			b.source = partMark.FindStringSubmatch(mark)[1]
		case copyMark.MatchString(mark):
			blocks = append(blocks, shellBlock{line: i + 1, copies: strings.Fields(copyMark.FindStringSubmatch(mark)[1])})
		case likeMark.MatchString(mark):
			return nil, fmt.Errorf("line %d: no mark of a block: %s", i+1, mark)
		case mark != "":
			b = shellBlock{} // a mark holds for the block right behind it
		}
	}
	if inside {
		return nil, fmt.Errorf("line %d: a block without an end", b.line)
	}
	return blocks, nil
}

// write makes the file of a block in dir.
func (b shellBlock) write(dir string) error {
	name := filepath.Join(dir, filepath.FromSlash(b.file))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(strings.Join(b.text, "\n")+"\n"), 0o644)
}

// copy copies files and folders of the checkout into dir.
func (b shellBlock) copy(dir string) error {
	for _, name := range b.copies {
		from, to := filepath.Join(checkout, name), filepath.Join(dir, name)
		info, err := os.Stat(from)
		if err == nil && info.IsDir() {
			err = os.CopyFS(to, os.DirFS(from))
		} else if err == nil {
			var raw []byte
			raw, err = os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, raw, 0o644)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", b.line, err)
		}
	}
	return nil
}

// compare reports whether a block is not what its source says.
func (b shellBlock) compare() error {
	raw, err := os.ReadFile(filepath.Join(checkout, filepath.FromSlash(b.source)))
	if err == nil && !strings.Contains(string(raw), strings.Join(b.text, "\n")+"\n") {
		err = fmt.Errorf("line %d: the block does not stand in %s", b.line, b.source)
	}
	return err
}

// step is one command of a block with the lines that its output must hold.
type step struct {
	command string
	output  []string
}

func (b shellBlock) steps() (list []step) {
	if !b.console {
		return []step{{command: strings.Join(b.text, "\n")}}
	}
	for _, l := range b.text {
		switch command, ok := strings.CutPrefix(l, "$ "); {
		case ok:
			list = append(list, step{command: command})
		case len(list) > 0 && strings.HasSuffix(list[len(list)-1].command, "\\"):
			list[len(list)-1].command += "\n" + l
		case len(list) > 0 && strings.TrimSpace(l) != "":
			list[len(list)-1].output = append(list[len(list)-1].output, l)
		}
	}
	return list
}

// checkout is the root of the sources, from this folder.
const checkout = "../.."

// pages are all pages for users, from the root of the sources.
func pages(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "changes/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(checkout, pattern))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	if len(list) < 50 {
		t.Fatalf("only %d pages", len(list))
	}
	return list
}

// pageName is how a test calls a page: README.md, training.md, tutorials/sft.md.
func pageName(page string) string {
	rel, err := filepath.Rel(checkout, page)
	if err != nil {
		return page
	}
	return strings.TrimPrefix(filepath.ToSlash(rel), "docs/")
}

// TestDocs runs the commands of all pages against the real program.
func TestDocs(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	t.Cleanup(func() { // when all pages have ended
		if ran.Load() == 0 && !t.Failed() {
			t.Error("the pages hold no commands")
		}
	})
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := shellBlocks(string(raw))
		if err != nil {
			t.Errorf("%s: %v", pageName(page), err)
		}
		if len(blocks) == 0 {
			continue
		}
		t.Run(pageName(page), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			run := docShell(t, dir, goFlags(blocks)...)
			url := ""
			for _, b := range blocks {
				if why := missing(b); why != "" {
					t.Logf("line %d is left out: %s", b.line, why)
					continue
				}
				if b.file != "" || b.source != "" || b.copies != nil {
					err := b.copy(dir)
					if b.file != "" {
						err = b.write(dir)
					}
					if b.source != "" {
						err = errors.Join(err, b.compare())
					}
					if err != nil {
						t.Error(err)
					}
					continue
				}
				if slices.Contains(b.needs, "server") && url == "" {
					_, url = server(t, fakellm.Options{Models: []string{"NAME"}})
				}
				for _, s := range b.steps() {
					ran.Add(1)
					command := s.command
					if url != "" {
						command = strings.ReplaceAll(command, "http://127.0.0.1:8000/v1", url)
					}
					run(t, b.line, command, s.output)
				}
			}
		})
	}
}

// missing says why a block cannot run here.
func missing(b shellBlock) string {
	if b.notRun != "" {
		return b.notRun
	}
	for _, need := range b.needs {
		switch need {
		case "server":
		case "namespace":
			if boxesHere() == "local" {
				return "no isolated back-end here"
			}
		case "docker": // a client alone is no engine
			if os.Getenv("HERMES_TEST_DOCKER") == "" {
				return "no Docker engine for tests (HERMES_TEST_DOCKER; see make engine)"
			}
		default:
			if _, err := exec.LookPath(need); err != nil {
				return "there is no " + need + " here"
			}
		}
	}
	return ""
}

// goFlags makes the go commands of a page cheap: programs are linked without debug information,
// and what is compiled of a copy of the checkout comes from the build cache at the next run,
// which keeps it by the folder otherwise.
func goFlags(blocks []shellBlock) []string {
	flags := "GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -ldflags=-w")
	if slices.ContainsFunc(blocks, func(b shellBlock) bool { return b.copies != nil }) {
		flags += " -trimpath"
	}
	return []string{flags}
}

// docShell makes a shell in which hermes is this test binary.
func docShell(t *testing.T, dir string, env ...string) func(t *testing.T, line int, command string, output []string) {
	t.Helper()
	bin := t.TempDir()
	root, err := filepath.Abs(checkout)
	if err != nil {
		t.Fatal(err)
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", filepath.Join(bin, "real", "hermes"))
	self, err := os.Executable()
	if err == nil {
		err = os.Mkdir(filepath.Join(bin, "real"), 0o755)
	}
	if err == nil { // the test binary looks at the name by which it was called
		err = os.Symlink(self, filepath.Join(bin, "real", "hermes"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "hermes"), []byte(wrapper), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(bin, "folder") // where the last command has left the shell
	return func(t *testing.T, line int, command string, output []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, "sh", "-e", "-c", "trap 'pwd >"+at+"' EXIT\n"+command)
		if was, err := os.ReadFile(at); err == nil {
			dir = strings.TrimSuffix(string(was), "\n")
		}
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "CHECKOUT="+root, "HERMES_HOME="+filepath.Join(bin, "home"),
			"HERMES_BACKEND="+boxesHere(), "HERMES_PROGRESS=none")
		c.Env = append(c.Env, env...)
		if engine := os.Getenv("HERMES_TEST_DOCKER"); engine != "" {
			c.Env = append(c.Env, "DOCKER_HOST="+engine)
		}
		var text bytes.Buffer
		c.Stdout, c.Stderr = &text, &text
		if err := c.Run(); err != nil {
			t.Errorf("line %d: %v\n$ %s\n%s", line, err, command, &text)
			return
		}
		for _, want := range output {
			if !strings.Contains(text.String(), want) {
				t.Errorf("line %d: the output does not hold %q\n$ %s\n%s", line, want, command, &text)
			}
		}
	}
}

var (
	codeSpan = regexp.MustCompile("`(hermes [^`]+)`")
	longFlag = regexp.MustCompile(`(?:^|[\s\[(])--([a-z][a-z0-9-]*)`)
)

// TestDocsNameRealFlags: a code span that begins with hermes names a command that exists,
// and only flags that it has.
func TestDocsNameRealFlags(t *testing.T) {
	t.Parallel()
	help := map[string]string{}
	dir := t.TempDir()
	helpOf := func(words []string) (string, bool) {
		key := strings.Join(words, " ")
		if _, ok := help[key]; !ok {
			out, err := hermes(t, dir, append(slices.Clone(words), "--help-all")...).CombinedOutput()
			if err != nil {
				out = nil
			}
			help[key] = string(out)
		}
		return help[key], help[key] != ""
	}
	seen := 0
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range codeSpan.FindAllStringSubmatch(string(raw), -1) {
			seen++
			var words []string
			for _, w := range strings.Fields(m[1])[1:] {
				if !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(w) {
					break
				}
				words = append(words, w)
			}
			text, ok := helpOf(words)
			for !ok && len(words) > 1 { // the last words may be arguments
				words = words[:len(words)-1]
				text, ok = helpOf(words)
			}
			if !ok {
				t.Errorf("%s: `%s` is no command", pageName(page), m[1])
				continue
			}
			for _, f := range longFlag.FindAllStringSubmatch(m[1], -1) {
				if !regexp.MustCompile(`--(\[no-\])?` + f[1] + `\b`).MatchString(text) {
					t.Errorf("%s: `%s` names --%s, which hermes %s does not have", pageName(page), m[1], f[1], strings.Join(words, " "))
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no page names a command")
	}
}

// TestHelpExamples runs the examples of help pages that need no other machine and end by
// themselves. That the others can be parsed is a test of the command line.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := docShell(t, dir)
	// A model that answers at once: whole suites are asked.
	_, url := server(t, fakellm.Options{Models: []string{"NAME"}, Default: []fakellm.Turn{{Content: "4", Repeat: true}}})
	if err := os.WriteFile(filepath.Join(dir, "tasks.jsonl"), []byte(`{"prompt": "Look around and report.", "answer": "4"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	elsewhere := regexp.MustCompile("gsm8k|docker|env.py|hermes chat --model") // a hub, an engine, a program, a person
	ran := 0
	for _, command := range []string{
		"", "batch", "runs show", "eval run", "eval score", "env evaluate", "env process", "env check", "chat", "compress",
		"sandbox exec",
	} {
		out, err := hermes(t, dir, append(strings.Fields(command), "--help")...).Output()
		if err != nil {
			t.Fatalf("help of %q: %v", command, err)
		}
		_, rest, _ := strings.Cut(string(out), "Examples:\n\n")
		text, _, _ := strings.Cut(rest, "\n\n")
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if elsewhere.MatchString(line) {
				continue
			}
			ran++
			run(t, ran, strings.ReplaceAll(line, "http://127.0.0.1:8000/v1", url), nil)
		}
	}
	if ran < 12 {
		t.Errorf("%d examples were run", ran)
	}
}
