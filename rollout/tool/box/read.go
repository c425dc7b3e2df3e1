package box

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"hermes/backends"
	"hermes/internal/late"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
)

const readParameters = `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "The file: absolute, relative to the working directory, or ~/…"},
    "offset": {"type": "integer", "minimum": 1, "default": 1, "description": "First line, from 1."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 2000, "default": 500, "description": "Most lines."}
  },
  "required": ["path"],
  "additionalProperties": false
}`

// Bounds of read_file.
const (
	readLines   = 500
	readMost    = 2000
	lineChars   = 2000
	largeFile   = 512 << 10
	readAtMost  = 64 << 20 // bytes of a file
	similarMost = 5
)

type readArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

type readResult struct {
	Content   string `json:"content"`
	Lines     int    `json:"total_lines"`
	Size      int    `json:"file_size"`
	Truncated bool   `json:"truncated"`
	Hint      string `json:"hint,omitempty"`
	Binary    bool   `json:"is_binary"`
	Image     bool   `json:"is_image"`
	Advice    string `json:"_hint,omitempty"`
}

type readError struct {
	Error   string   `json:"error"`
	Path    string   `json:"path,omitempty"`
	Binary  bool     `json:"is_binary,omitempty"`
	Image   bool     `json:"is_image,omitempty"`
	Size    int      `json:"file_size,omitempty"`
	Similar []string `json:"similar_files,omitempty"`
}

func (e readError) result() tool.Result { return tool.Result{Text: tool.JSON(e), Failed: true} }

func readFile(o Options) tool.Def {
	return tool.Def{
		Spec: spec("read_file", readParameters), Toolset: "file", About: "Read, write, patch and search files.",
		Traits: tool.Traits{ReadOnly: true, Parallel: true, Paths: pathsOf, FromCode: true, NeedsBox: true, ResultLimit: -1},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			x := open(s, o)
			return tool.Typed(x.read), nil
		},
	}
}

// pathsOf names the file that a call is about.
func pathsOf(args json.RawMessage) []string {
	var a struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(args, &a) != nil || a.Path == "" {
		return nil
	}
	return []string{a.Path}
}

var (
	devices = late.Regexp(`^/dev/|^/proc/(?:self|thread-self|\d+)/(?:fd/|mem$|pagemap$)|^/proc/(?:kmsg|kcore)$|^/sys/kernel/debug/`)
	images  = []string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tiff"}
	binary  = []string{".exe", ".dll", ".so", ".dylib", ".o", ".a", ".class", ".pyc", ".pyo", ".wasm", ".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".jar", ".pdf", ".mp3", ".mp4", ".mov", ".avi", ".mkv", ".ogg", ".wav", ".flac", ".ttf", ".woff", ".woff2", ".sqlite", ".db", ".bin", ".iso"}
)

func (x *session) read(ctx context.Context, a readArgs) (tool.Result, error) {
	a.Offset, a.Limit = max(a.Offset, 1), min(cmp.Or(max(a.Limit, 0), readLines), readMost)
	b, err := x.box(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	p, err := x.sh.Path(ctx, b, a.Path)
	if err != nil {
		return tool.Result{}, err
	}
	ext := strings.ToLower(path.Ext(p))
	switch {
	case a.Path == "" || strings.ContainsRune(a.Path, 0):
		return tool.Errorf("path %q is not a file name", a.Path), nil
	case devices.MatchString(p):
		return tool.Errorf("%s is a device; reading it could block or never end", p), nil
	}
	if ok, err := x.mayRead(ctx, b, "read_file", p); err != nil || !ok {
		return readError{Error: notAllowed("the reading"), Path: p}.result(), err
	}
	data, err := b.ReadFile(ctx, p, readAtMost)
	if err != nil {
		return x.unreadable(ctx, b, p, err)
	}
	switch {
	case slices.Contains(images, ext):
		return readError{Error: "This is an image. Use vision_analyze to look at it.", Path: p, Image: true, Size: len(data)}.result(), nil
	case edit.UTF16(data) && !slices.Contains(binary, ext):
		return readError{Error: "This is text in UTF-16, which is not UTF-8. Use terminal with iconv -f UTF-16 to read it.", Path: p, Size: len(data)}.result(), nil
	case slices.Contains(binary, ext) || bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0:
		return readError{Error: "This is a binary file. Use terminal to examine it.", Path: p, Binary: true, Size: len(data)}.result(), nil
	}
	res, fault := x.page(a, data)
	if fault != "" {
		return readError{Error: fault, Path: p, Size: len(data)}.result(), nil
	}
	if !tool.FromCode(ctx) {
		switch n := x.shown(reading{p, a.Offset, a.Limit}, data); {
		case n == 1:
			return tool.Result{Text: tool.JSON(map[string]any{"status": "unchanged", "dedup": true, "content_returned": false, "path": p,
				"message": "The file has not changed since you read this part; it stands above."})}, nil
		case n > 1:
			return readError{Error: fmt.Sprintf("BLOCKED: you have asked for this part of the file %d times in a row and it has not changed. Go on with what you know.", n+1), Path: p}.result(), nil
		}
	}
	return tool.Result{Text: tool.JSON(res)}, nil
}

// page cuts the lines out of the file and numbers them.
func (x *session) page(a readArgs, data []byte) (readResult, string) {
	lines := edit.Lines(strings.ToValidUTF8(string(data), "\uFFFD"))
	res := readResult{Lines: len(lines), Size: len(data)}
	if len(lines) > 0 && a.Offset > len(lines) {
		return res, fmt.Sprintf("offset %d is beyond the end: the file has %d lines", a.Offset, len(lines))
	}
	from, to := min(a.Offset-1, len(lines)), min(a.Offset-1+a.Limit, len(lines))
	var c strings.Builder
	for i, line := range lines[from:to] {
		line = strings.TrimSuffix(line, "\r")
		if utf8.RuneCountInString(line) > lineChars {
			line = string([]rune(line)[:lineChars]) + "... [truncated]"
		}
		if i > 0 {
			c.WriteByte('\n')
		}
		fmt.Fprintf(&c, "%6d|%s", from+i+1, line)
	}
	res.Content = c.String()
	if n := utf8.RuneCountInString(res.Content); n > x.opt.ReadChars {
		return res, fmt.Sprintf("these %d lines have %d characters, more than %d; ask for fewer lines with offset and limit (the file has %d lines)", to-from, n, x.opt.ReadChars, len(lines))
	}
	if to < len(lines) {
		res.Truncated = true
		res.Hint = fmt.Sprintf("Lines %d-%d of %d. Use offset=%d to read on.", from+1, to, len(lines), to+1)
	}
	if len(data) > largeFile && a.Offset == 1 && a.Limit == readLines {
		res.Advice = fmt.Sprintf("This file is large (%d bytes). Read the range that you need with offset and limit, or use search_files.", len(data))
	}
	if note := edit.NotUTF8(data); note != "" {
		res.Advice = strings.TrimSpace(note + " " + res.Advice)
	}
	return res, ""
}

// unreadable explains to the model why a file cannot be read.
func (x *session) unreadable(ctx context.Context, b backends.Sandbox, p string, err error) (tool.Result, error) {
	switch {
	case !fileError(err):
		return tool.Result{}, fmt.Errorf("read %s: %w", p, err)
	case errors.Is(err, backends.ErrTooLarge):
		return readError{Error: fmt.Sprintf("The file is larger than %d MiB. Use terminal with head, tail or sed.", readAtMost>>20), Path: p}.result(), nil
	case !errors.Is(err, fs.ErrNotExist):
		return readError{Error: "Cannot read the file: " + reason(err), Path: p}.result(), nil
	}
	similar, err := x.similar(ctx, b, p)
	if err != nil {
		return tool.Result{}, err
	}
	return readError{Error: "File not found: " + p, Path: p, Similar: similar}.result(), nil
}

// similar lists files of the same folder with names like the missing one.
func (x *session) similar(ctx context.Context, b backends.Sandbox, p string) ([]string, error) {
	lister, ok := backends.As[backends.Stater](b)
	if !ok {
		return nil, nil
	}
	dir := path.Dir(p)
	entries, err := lister.List(ctx, dir, 1000)
	if err != nil {
		if !fileError(err) {
			return nil, fmt.Errorf("list %s: %w", dir, err)
		}
		return nil, nil
	}
	type candidate struct {
		name  string
		score int
	}
	var found []candidate
	for _, e := range entries {
		name := path.Base(e.Path)
		if s := likeness(path.Base(p), name); s > 0 {
			found = append(found, candidate{path.Join(dir, name), s})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var names []string
	for _, c := range found[:min(len(found), similarMost)] {
		names = append(names, c.name)
	}
	return names, nil
}

// likeness ranks: same but for case, same stem, prefix or part, many shared letters.
func likeness(want, have string) int {
	w, h := strings.ToLower(want), strings.ToLower(have)
	ws, hs := strings.TrimSuffix(w, path.Ext(w)), strings.TrimSuffix(h, path.Ext(h))
	switch {
	case w == h:
		return 100
	case ws == hs:
		return 90
	case strings.HasPrefix(h, ws) || strings.HasPrefix(w, hs) && hs != "":
		return 70
	case strings.Contains(h, ws) || strings.Contains(w, hs) && len(hs) > 2:
		return 60
	}
	if r := edit.Ratio(w, h); r >= 0.6 {
		return int(r * 50)
	}
	return 0
}
