//go:build linux

package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/globs"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// Bounds of a search.
const (
	defaultMatches = 50
	maxMatches     = 10_000   // counted; beyond it Found.More is set
	maxVisited     = 200_000  // files looked at
	maxSearched    = 10 << 20 // bytes of one file; longer files are left out
	maxLine        = 2_000    // bytes of a line that is shown
	maxContext     = 50       // lines around a match
	maxIgnoreFile  = 1 << 20
	maxRules       = 5_000 // lines of .gitignore files in force at one place
	maxSkipped     = 5     // names of what was left out
	block          = 256 << 10
)

// Search implements backends.Searcher.
func (h *Host) Search(ctx context.Context, q backends.Query) (backends.Found, error) {
	return within(ctx, "search", q.Root, wire.SearchTime+wire.CallTime, func(ctx context.Context) (backends.Found, error) { return h.search(ctx, q) }, nil)
}

func (h *Host) search(ctx context.Context, q backends.Query) (backends.Found, error) {
	if err := h.Alive(ctx, "search"); err != nil {
		return backends.Found{}, err
	}
	now, err := h.turn(ctx, "search "+q.Root)
	if err != nil {
		return backends.Found{}, err
	}
	s, err := newSearch(q)
	if err != nil {
		return backends.Found{}, err
	}
	own, cancel := context.WithTimeout(ctx, wire.SearchTime)
	defer cancel()
	folder, err := h.openFolder(q.Root)
	switch {
	case err == nil:
		defer folder.Close()
		err = s.walk(own, folder)
		if err == nil && s.visited == 0 && s.skip.Ignored > 0 { // it ignores itself, as virtual environments do, and was named
			s, err = newSearch(q)
			if err == nil {
				s.unruly = true
				err = s.walk(own, folder)
			}
		}
	case errors.Is(err, unix.ENOTDIR):
		err = s.single(own, h)
	}
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		s.ends(wire.SearchTime.String())
		err = nil
	}
	if err == nil {
		err = now.still()
	}
	if err != nil {
		return backends.Found{}, PathError("search", q.Root, err)
	}
	return s.found(), nil
}

// search is one search under way.
type search struct {
	q       backends.Query
	line    *regexp.Regexp
	name    func(rel string) bool
	named   string // the glob, if it has no wildcard
	dotted  bool   // the glob names something hidden
	unruly  bool   // no .gitignore counts
	skip    backends.Skipped
	prefix  string
	rules   []globs.Rule // of the folders on the way to the current one
	marks   []int        // how many rules there were before each of them
	visited int
	total   int
	more    bool
	matches []backends.Match
}

func newSearch(q backends.Query) (*search, error) {
	q.Limit = cmp.Or(max(q.Limit, 0), defaultMatches)
	q.Offset = max(q.Offset, 0)
	q.Context = min(max(q.Context, 0), maxContext)
	s := &search{q: q}
	glob := q.Pattern
	if q.Content {
		var err error
		s.line, err = regexp.Compile(q.Pattern)
		if err != nil {
			return nil, fmt.Errorf("search for %q: %w: %w", q.Pattern, fs.ErrInvalid, err)
		}
		glob = q.Glob
	}
	if glob != "" {
		s.dotted = dotName.MatchString(glob)
		if !strings.ContainsAny(glob, `*?[{\`) {
			s.named = strings.TrimPrefix(glob, "/")
		}
		var err error
		s.name, err = globs.Matcher(glob)
		if err != nil {
			return nil, fmt.Errorf("search with glob %q: %w: %w", glob, fs.ErrInvalid, err)
		}
	}
	return s, nil
}

// walk visits the files in the order of their paths.
func (s *search) walk(ctx context.Context, folder *os.File) error {
	s.prefix = s.q.Root
	return trees.Walk(ctx, folder, trees.Bounds{Depth: maxDepth, Path: maxPath, Entries: maxNames}, trees.Visitor{
		Enter: func(dir string, open func(string) (*os.File, *trees.Info, error)) {
			s.marks = append(s.marks, len(s.rules))
			s.readIgnore(dir, open)
		},
		Leave: func(string) {
			s.rules = s.rules[:s.marks[len(s.marks)-1]]
			s.marks = s.marks[:len(s.marks)-1]
		},
		Visit: func(e *trees.Entry) error {
			switch {
			case s.skipped(e.Path, e.Type.IsDir()):
				return fs.SkipDir
			case e.Type.IsDir():
				return nil
			}
			return s.visit(ctx, e)
		},
		Left: func(dir string, why error) {
			bound := (*trees.BoundError)(nil)
			switch {
			case trees.Deep(why):
				s.leave(&s.skip.Deep, dir)
			case errors.As(why, &bound):
				s.ends(fmt.Sprintf("%d %s", bound.Most, bound.What))
			default:
				s.leave(&s.skip.Unreadable, dir)
			}
		},
	})
}

// single searches in one file.
func (s *search) single(ctx context.Context, h *Host) error {
	f, st, err := h.openFile(s.q.Root)
	if err != nil {
		return err
	}
	defer f.Close()
	s.prefix = path.Dir(s.q.Root)
	s.visited++
	if s.name != nil && !s.name(path.Base(s.q.Root)) {
		return nil
	}
	size := int64(st.Size)
	if size == 0 {
		size = maxSearched // a file of the kernel says that it is empty
	}
	return s.look(ctx, path.Base(s.q.Root), f, st, size)
}

// ends notes a bound that kept the search from looking at everything.
func (s *search) ends(bound string) {
	s.more = true
	if !slices.Contains(s.skip.Bounds, bound) && len(s.skip.Bounds) < maxSkipped {
		s.skip.Bounds = append(s.skip.Bounds, bound)
	}
}

// skipped says what a search leaves out unseen.
func (s *search) skipped(rel string, folder bool) bool {
	name := path.Base(rel)
	if s.named != "" && (!folder && s.name(rel) || folder && strings.HasPrefix(s.named, rel+"/")) {
		return false
	}
	if folder && (name == ".git" || name == ".hg" || name == ".svn" || name == ".jj") {
		return true
	}
	could := folder || s.name == nil || s.name(rel)
	if !s.q.Hidden && !s.dotted && strings.HasPrefix(name, ".") {
		if could && name != ".gitignore" {
			s.leave(&s.skip.Hidden, rel)
		}
		return true
	}
	if s.unruly || !globs.Ignored(s.rules, rel, folder) {
		return false
	}
	if could {
		s.leave(&s.skip.Ignored, rel)
	}
	return true
}

// dotName finds a hidden name in a glob.
var dotName = regexp.MustCompile(`(?:^|/)\.[^./]`)

// leave counts something that is left out.
func (s *search) leave(count *int, rel string) {
	*count++
	if len(s.skip.Names) < maxSkipped {
		s.skip.Names = append(s.skip.Names, s.shown(rel))
	}
}

// readIgnore takes the rules of a folder.
func (s *search) readIgnore(dir string, open func(string) (*os.File, *trees.Info, error)) {
	f, st, err := open(".gitignore")
	if err != nil {
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, min(st.Size, maxIgnoreFile)))
	if err != nil {
		return
	}
	rules := globs.ParseIgnore(dir, string(text), maxRules-len(s.rules))
	s.rules = append(s.rules, rules...)
	if len(s.rules) >= maxRules {
		s.ends(fmt.Sprintf("%d lines of .gitignore files", maxRules))
	}
}

// visit looks at one file.
func (s *search) visit(ctx context.Context, e *trees.Entry) error {
	s.visited++
	if s.visited > maxVisited {
		s.ends(fmt.Sprintf("%d files", maxVisited))
		return fs.SkipAll
	}
	if s.name != nil && !s.name(e.Path) {
		return nil
	}
	switch {
	case e.Type&fs.ModeSymlink != 0:
		s.leave(&s.skip.Links, e.Path)
		return nil
	case !e.Type.IsRegular():
		s.leave(&s.skip.Special, e.Path)
		return nil
	}
	if s.line == nil {
		st, err := e.Stat()
		if err != nil {
			return nil
		}
		s.add(backends.Match{Path: s.shown(e.Path), MTime: st.MTime(), Size: st.Size})
		return nil
	}
	f, st, err := e.Open()
	if err != nil {
		if errors.Is(err, fs.ErrInvalid) { // it became one
			s.leave(&s.skip.Special, e.Path)
		} else {
			s.leave(&s.skip.Unreadable, e.Path)
		}
		return nil
	}
	defer f.Close()
	return s.look(ctx, e.Path, f, st, st.Size)
}

// add enters a file.
func (s *search) add(m backends.Match) {
	s.total++
	s.matches = append(s.matches, m)
}

// look searches in one open file, of which it reads as many bytes as it had when it was opened.
func (s *search) look(ctx context.Context, rel string, f *os.File, st *trees.Info, size int64) error {
	if s.line == nil {
		s.add(backends.Match{Path: s.shown(rel), MTime: st.MTime(), Size: st.Size})
		return nil
	}
	if st.Size > maxSearched {
		s.leave(&s.skip.Large, rel)
		return nil
	}
	if end, ok := ctx.Deadline(); ok {
		f.SetReadDeadline(end)
	}
	text, err := io.ReadAll(io.LimitReader(f, size))
	if err != nil {
		s.leave(&s.skip.Unreadable, rel)
		return nil
	}
	if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		s.leave(&s.skip.Binary, rel)
		return nil
	}
	if err := s.grep(ctx, rel, text, st); err != nil {
		return err
	}
	if s.total >= maxMatches {
		s.more = true
		return fs.SkipAll
	}
	return nil
}

// shown is a path as the caller would write it.
func (s *search) shown(rel string) string {
	if s.prefix == "" || s.prefix == "." {
		return rel
	}
	return path.Join(s.prefix, rel)
}

// could says whether an expression can match in a text, looking at whole lines in blocks: one
// expression may take long with one block, and is not asked for another when time is over.
func (s *search) could(ctx context.Context, text []byte) (bool, error) {
	if lineOnly(s.line) {
		return true, ctx.Err()
	}
	for len(text) > 0 {
		n := len(text)
		if n > block {
			if i := bytes.IndexByte(text[block:], '\n'); i >= 0 {
				n = block + i + 1
			}
		}
		if s.line.Match(text[:n]) {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		text = text[n:]
	}
	return false, nil
}

// grep searches the lines of one file.
func (s *search) grep(ctx context.Context, rel string, text []byte, st *trees.Info) error {
	if some, err := s.could(ctx, text); !some || err != nil {
		return err
	}
	lines := bytes.Split(text, []byte("\n"))
	if n := len(lines) - 1; len(lines[n]) == 0 {
		lines = lines[:n]
	}
	shown := -1 // the last line that is in matches
	add := func(i int, around bool) {
		if i <= shown || i >= len(lines) {
			return
		}
		shown = i
		s.matches = append(s.matches, backends.Match{Path: s.shown(rel), Line: i + 1, Text: clip(lines[i]),
			Context: around, MTime: st.MTime(), Size: st.Size})
	}
	for i, line := range lines {
		if i%256 == 255 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !s.line.Match(bytes.TrimSuffix(line, []byte("\r"))) {
			continue
		}
		s.total++
		if s.total > s.q.Offset && s.total <= s.q.Offset+s.q.Limit {
			for j := max(0, i-s.q.Context); j < i; j++ {
				add(j, true)
			}
			if i <= shown { // it was shown as a neighbour
				s.promote(rel, i+1)
			}
			add(i, false)
			for j := i + 1; j <= i+s.q.Context; j++ {
				add(j, true)
			}
		}
		if s.total >= maxMatches {
			break
		}
	}
	return nil
}

// promote makes a match of a line that was shown as a neighbour.
func (s *search) promote(rel string, line int) {
	for i := len(s.matches) - 1; i >= 0; i-- {
		if s.matches[i].Line == line && s.matches[i].Path == s.shown(rel) {
			s.matches[i].Context = false
			return
		}
	}
}

// lineOnly says that an expression with ^ or $ must be tried line by line.
func lineOnly(re *regexp.Regexp) bool { return strings.ContainsAny(re.String(), `^$\`) }

func clip(line []byte) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > maxLine {
		return strings.ToValidUTF8(string(line[:maxLine]), "�") + " […]"
	}
	return strings.ToValidUTF8(string(line), "�")
}

// found orders and cuts the result.
func (s *search) found() backends.Found {
	f := backends.Found{Matches: s.matches, Total: s.total, More: s.more, Skipped: s.skip}
	if s.line == nil {
		slices.SortStableFunc(f.Matches, func(a, b backends.Match) int {
			return cmp.Or(b.MTime.Compare(a.MTime), strings.Compare(a.Path, b.Path))
		})
		f.Matches = f.Matches[min(s.q.Offset, len(f.Matches)):]
		f.Matches = f.Matches[:min(s.q.Limit, len(f.Matches))]
	}
	return f
}
