package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"hermes/backends"
	"hermes/trajectory"
)

// limit keeps one result within the limit of its tool.
func (s *Set) limit(ctx context.Context, call trajectory.Call, r Result) (Result, error) {
	limit := s.opt.ResultLimit
	if e, ok := s.byName[call.Name]; ok {
		limit = cmp.Or(e.def.Traits.ResultLimit, limit)
	}
	if limit < 0 || len(r.Text) <= limit || utf8.RuneCountInString(r.Text) <= limit {
		return r, nil
	}
	return s.spill(ctx, call, r, limit)
}

// limitTurn spills the largest results of a turn first until all fit together.
func (s *Set) limitTurn(ctx context.Context, calls []trajectory.Call, rs []Result) error {
	total, order := 0, make([]int, len(rs))
	size := make([]int, len(rs))
	for i, r := range rs {
		order[i], size[i] = i, utf8.RuneCountInString(r.Text)
		total += size[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	for _, i := range order {
		if total <= s.opt.TurnLimit {
			return nil
		}
		if size[i] <= s.opt.Preview || strings.HasPrefix(rs[i].Text, persistedOpen) {
			continue
		}
		r, err := s.spill(ctx, calls[i], rs[i], s.opt.TurnLimit/max(1, len(rs)))
		if err != nil {
			return err
		}
		total += utf8.RuneCountInString(r.Text) - size[i]
		rs[i] = r
	}
	return nil
}

const persistedOpen = "<persisted-output>"

// spill writes a long result into the box and leaves a preview. Where no tool of the set
// could read the file, or it cannot be written, the result is cut to limit instead.
func (s *Set) spill(ctx context.Context, call trajectory.Call, r Result, limit int) (Result, error) {
	if !s.canRun || s.scope.Box == nil {
		r.Text = cut(r.Text, limit)
		return r, nil
	}
	box, err := s.scope.Box(ctx)
	if err != nil {
		return Result{}, err
	}
	file := s.spillPath(call)
	if err := box.WriteFile(ctx, file, []byte(r.Text), 0o600); err != nil {
		var pe *fs.PathError
		if !errors.As(err, &pe) || errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) {
			return Result{}, fmt.Errorf("spill the result of %s to %s: %w", call.Name, file, err)
		}
		r.Text = cut(r.Text, limit)
		return r, nil
	}
	n := utf8.RuneCountInString(r.Text)
	r.Text = fmt.Sprintf("%s\nThe result is %d characters long (%.1f KB), too long to show. It was saved to: %s\nRead on with read_file, using offset and limit.\n\nIts first %d characters:\n%s\n</persisted-output>",
		persistedOpen, n, float64(len(r.Text))/1024, file, min(n, s.opt.Preview), head(r.Text, s.opt.Preview))
	return r, nil
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// spillPath names the file of a call. Boxes that share a file system with others get a
// folder for each rollout.
func (s *Set) spillPath(call trajectory.Call) string {
	name := head(unsafeName.ReplaceAllString(call.ID, "_"), 80)
	name = cmp.Or(name, "call")
	s.mu.Lock()
	s.spilled[name]++
	n := s.spilled[name]
	s.mu.Unlock()
	if n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	dir := s.opt.SpillDir
	if !s.scope.Isolated {
		dir = path.Join(dir, s.scope.Key.String())
	}
	return path.Join(dir, name+".txt")
}

// head returns the first n characters of text.
func head(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

func cut(text string, limit int) string {
	n := utf8.RuneCountInString(text)
	if n <= limit {
		return text
	}
	return fmt.Sprintf("%s\n[cut: %d of %d characters left out]", head(text, limit), n-limit, n)
}
