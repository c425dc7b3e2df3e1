package slotd

import (
	"bufio"
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
	maxSkipped     = 5 // names of what was left out
)

// Search implements backends.Searcher.
func (h *Host) Search(ctx context.Context, q backends.Query) (backends.Found, error) {
	if err := h.alive(ctx, "search"); err != nil {
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
	where, only, err := h.searchRoot(q.Root)
	if err != nil {
		return backends.Found{}, pathError("search", q.Root, err)
	}
	defer where.Close()
	s.files = where.FS()
	err = s.walk(ctx, only)
	if err == nil && s.visited == 0 && s.skip.Ignored > 0 { // it ignores itself, as virtual environments do, and was named
		if s, err = newSearch(q); err == nil {
			s.files, s.unruly = where.FS(), true
			err = s.walk(ctx, only)
		}
	}
	if err := errors.Join(err, now.still()); err != nil {
		return backends.Found{}, fmt.Errorf("search %s: %w", q.Root, err)
	}
	return s.found(), nil
}

// searchRoot opens the folder of a search; only is the name of a single file in it.
func (h *Host) searchRoot(p string) (root *os.Root, only string, err error) {
	root, err = h.folder(p, false)
	if err == nil {
		return root, ".", nil
	}
	f, ferr := h.openFile(p, os.O_RDONLY)
	if ferr != nil {
		return nil, "", ferr
	}
	defer f.Close()
	if st, serr := f.Stat(); serr != nil || !st.Mode().IsRegular() {
		return nil, "", unix.ENOTDIR
	}
	parent, base := path.Split(at(h.dir, p))
	root, err = h.folder(parent, false)
	return root, base, err
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
	files   fs.FS
	prefix  string
	rules   []rule
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
		if s.line, err = regexp.Compile(q.Pattern); err != nil {
			return nil, fmt.Errorf("search for %q: %w: %w", q.Pattern, fs.ErrInvalid, err)
		}
		glob = q.Glob
	}
	if glob != "" {
		if s.dotted = dotName.MatchString(glob); !strings.ContainsAny(glob, `*?[{\`) {
			s.named = strings.TrimPrefix(glob, "/")
		}
		var err error
		if s.name, err = matcher(glob); err != nil {
			return nil, fmt.Errorf("search with glob %q: %w: %w", glob, fs.ErrInvalid, err)
		}
	}
	return s, nil
}

// walk visits the files in the order of their paths.
func (s *search) walk(ctx context.Context, only string) error {
	s.prefix = s.q.Root
	if only != "." {
		s.prefix = path.Dir(s.q.Root)
	}
	return fs.WalkDir(s.files, only, func(rel string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && rel == only:
			return err
		case err != nil: // an unreadable folder
			s.leave(&s.skip.Unreadable, rel)
			return nil
		case rel == ".":
			s.readIgnore("")
			return nil
		case rel == only:
			return s.visit(rel, d)
		case s.skipped(rel, d):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			s.readIgnore(rel)
			return nil
		}
		return s.visit(rel, d)
	})
}

// skipped says what a search leaves out unseen.
func (s *search) skipped(rel string, d fs.DirEntry) bool {
	name := path.Base(rel)
	if s.named != "" && (!d.IsDir() && s.name(rel) || d.IsDir() && strings.HasPrefix(s.named, rel+"/")) {
		return false
	}
	if d.IsDir() && (name == ".git" || name == ".hg" || name == ".svn" || name == ".jj") {
		return true
	}
	could := d.IsDir() || s.name == nil || s.name(rel)
	if !s.q.Hidden && !s.dotted && strings.HasPrefix(name, ".") {
		if could && name != ".gitignore" {
			s.leave(&s.skip.Hidden, rel)
		}
		return true
	}
	if s.unruly || !ignored(s.rules, rel, d.IsDir()) {
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

func (s *search) readIgnore(dir string) {
	f, err := s.files.Open(path.Join(cmp.Or(dir, "."), ".gitignore"))
	if err != nil {
		return
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return
	}
	if text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile)); err == nil {
		s.rules = append(s.rules, parseIgnore(dir, string(text))...)
	}
}

// visit looks at one file.
func (s *search) visit(rel string, d fs.DirEntry) error {
	if s.visited++; s.visited > maxVisited {
		s.more = true
		return fs.SkipAll
	}
	if s.name != nil && !s.name(rel) {
		return nil
	}
	if d.Type()&fs.ModeSymlink != 0 {
		s.leave(&s.skip.Links, rel)
	}
	if !d.Type().IsRegular() {
		return nil
	}
	st, err := d.Info()
	if err != nil {
		return nil
	}
	if s.line == nil {
		s.total++
		s.matches = append(s.matches, backends.Match{Path: s.shown(rel), MTime: st.ModTime(), Size: st.Size()})
		return nil
	}
	if st.Size() > maxSearched {
		s.leave(&s.skip.Large, rel)
		return nil
	}
	if s.grep(rel, st); s.total >= maxMatches {
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

// grep searches the lines of one file; a file with a NUL in its first bytes is binary.
func (s *search) grep(rel string, st fs.FileInfo) {
	f, err := s.files.Open(rel)
	if err != nil {
		s.leave(&s.skip.Unreadable, rel)
		return
	}
	defer f.Close()
	text, err := io.ReadAll(bufio.NewReader(io.LimitReader(f, maxSearched)))
	if err == nil && bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		s.leave(&s.skip.Binary, rel)
		return
	}
	if err != nil || !s.line.Match(text) && !lineOnly(s.line) {
		return
	}
	lines := bytes.Split(text, []byte("\n"))
	if n := len(lines) - 1; len(lines[n]) == 0 {
		lines = lines[:n]
	}
	shown := -1 // the last line that stands in matches
	add := func(i int, around bool) {
		if i <= shown || i >= len(lines) {
			return
		}
		shown = i
		s.matches = append(s.matches, backends.Match{Path: s.shown(rel), Line: i + 1, Text: clip(lines[i]),
			Context: around, MTime: st.ModTime(), Size: st.Size()})
	}
	for i, line := range lines {
		if !s.line.Match(bytes.TrimSuffix(line, []byte("\r"))) {
			continue
		}
		if s.total++; s.total > s.q.Offset && s.total <= s.q.Offset+s.q.Limit {
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
			return
		}
	}
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
