package datasets

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"hermes/datasets/scan"
	"hermes/internal/nearest"
	"hermes/trajectory"
)

// maxID bounds an explicit id, in bytes: it becomes part of file names.
const maxID = 512

// decoder turns the JSON text of one row into a [Row]. It keeps scratch space, so it
// belongs to one goroutine.
type decoder struct {
	promptKey string
	renames   map[string]string
	fields    []scan.Field
	number    []byte
	lent      bool            // rows may refer to the reader's buffer: they die before the next
	renamed   map[string]bool // names of the map that some row had
}

func newDecoder(o Options) *decoder {
	return &decoder{promptKey: o.PromptKey, renames: o.Map, renamed: map[string]bool{}}
}

// split checks the text of one row and returns its members after renaming.
func (d *decoder) split(text []byte) ([]scan.Field, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("byte %d: not valid UTF-8", badUTF8(text))
	}
	fields, err := scan.Object(text, d.fields[:0], intern)
	d.fields = fields[:0]
	if err != nil {
		return nil, err
	}
	if len(d.renames) == 0 {
		return fields, nil
	}
	return rename(fields, d.renames, d.renamed)
}

func badUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

// row decodes one raw row; the result owns its memory. The error is a *RowError.
func (d *decoder) row(r raw) (Row, error) {
	if r.err != nil {
		return Row{}, r.fault(r.err)
	}
	text := r.data
	if !d.lent {
		text = bytes.Clone(text)
	}
	fields, err := d.split(text)
	if err != nil {
		return Row{}, r.fault(err)
	}
	row := Row{Index: r.index, Line: r.line, File: r.file}
	if err := d.fill(&row, fields); err != nil {
		return Row{}, r.fault(err)
	}
	if !row.Explicit {
		row.ID = d.implicitID(r.index, text)
	}
	return row, nil
}

// implicitID names a row without id: its index and the start of its content's SHA-256.
func (d *decoder) implicitID(index int64, text []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(text))
	d.number = strconv.AppendInt(d.number[:0], index, 10)
	d.number = append(d.number, '-')
	d.number = hex.AppendEncode(d.number, sum[:contentBytes])
	return string(d.number)
}

// contentBytes of the content's SHA-256 are in the id of a row without one.
const contentBytes = 6

// ContentOfID returns the part of an id that names the row's content; ok is false for an id that
// no row without one is given.
func ContentOfID(id string) (content string, ok bool) {
	index, content, ok := strings.Cut(id, "-")
	_, err := strconv.ParseInt(index, 10, 64)
	ok = ok && err == nil && len(content) == 2*contentBytes && strings.Trim(content, "0123456789abcdef") == ""
	return content, ok
}

// fill takes what a row's members say into row; what nothing asks for becomes Extra.
func (d *decoder) fill(row *Row, fields []scan.Field) error {
	if err := d.task(row, fields); err != nil {
		return err
	}
	var aliases Overrides
	for _, f := range fields {
		if f.Key == row.Task || row.Task == "instruction" && f.Key == "input" {
			continue
		}
		used, err := takeID(row, f)
		if !used && err == nil {
			used, err = takeOverride(row, &aliases, f)
		}
		if !used && err == nil {
			used, err = takeScoring(&row.Scoring, f)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Key, err)
		}
		if !used {
			if row.Extra == nil {
				row.Extra = make(map[string]json.RawMessage, 4)
			}
			row.Extra[f.Key] = f.Value
		}
	}
	if row.Hermes.Image == "" {
		row.Hermes.Image = aliases.Image
	}
	if row.Hermes.Cwd == "" {
		row.Hermes.Cwd = aliases.Cwd
	}
	return nil
}

// task finds the task of a row and decodes it into row.Prompt.
func (d *decoder) task(row *Row, fields []scan.Field) error {
	f, err := d.taskField(fields)
	if err != nil {
		return err
	}
	row.Task = f.Key
	if f.Key == "instruction" {
		for _, g := range fields {
			if g.Key == "input" && !scan.Null(g.Value) {
				row.Prompt, err = instruction(f.Value, g.Value)
				return wrapKey(f.Key, err)
			}
		}
	}
	all, err := conversation(f.Value, true)
	if err == nil {
		row.Prompt, err = opening(all)
	}
	return wrapKey(f.Key, err)
}

func wrapKey(key string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// taskField returns the first member that may hold the task and is not null.
func (d *decoder) taskField(fields []scan.Field) (scan.Field, error) {
	best := -1
	rank := len(taskKeys)
	null := ""
	for i, f := range fields {
		r := taskRank(f.Key)
		if d.promptKey != "" && f.Key == d.promptKey {
			r = -1
		}
		if r >= rank {
			continue
		}
		if scan.Null(f.Value) {
			null = f.Key
			continue
		}
		best, rank = i, r
	}
	if d.promptKey != "" && rank >= 0 && strings.Contains(d.promptKey, ".") {
		if v := reach(fields, d.promptKey); v != nil && !scan.Null(v) {
			return scan.Field{Key: d.promptKey, Value: v}, nil
		}
	}
	if best >= 0 {
		return fields[best], nil
	}
	if null != "" {
		return scan.Field{}, fmt.Errorf("the task is empty: %s is null", null)
	}
	return scan.Field{}, noTask(fields)
}

func taskRank(key string) int {
	switch key {
	case "messages":
		return 0
	case "conversations":
		return 1
	case "prompt":
		return 2
	case "question":
		return 3
	case "problem":
		return 4
	case "problem_statement":
		return 5
	case "query":
		return 6
	case "instruction":
		return 7
	}
	return len(taskKeys)
}

// noTask says which keys a row has, and which of them may be a task's by another spelling.
func noTask(fields []scan.Field) error {
	var near string
	names := make([]string, 0, 12)
	for _, f := range fields {
		if near == "" {
			near = nearest.Hint(f.Key, taskKeys)
		}
		if len(names) == cap(names) {
			names = append(names[:cap(names)-1], "…")
			break
		}
		names = append(names, strconv.Quote(f.Key))
	}
	return fmt.Errorf("no task: the keys are %s, and none is %s%s; --prompt-key KEY names another", strings.Join(names, ", "), strings.Join(taskKeys, ", "), near)
}

// instruction joins the two texts of an instruction row.
func instruction(instr, input []byte) ([]trajectory.Message, error) {
	a, err := scan.Unquote(instr)
	if err != nil {
		return nil, err
	}
	b, err := scan.Unquote(input)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	if strings.TrimSpace(b) != "" {
		a += "\n\n" + b
	}
	return userText(a)
}

func userText(text string) ([]trajectory.Message, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("the task is empty")
	}
	if strings.IndexByte(text, 0) >= 0 {
		return nil, errors.New("the task holds a NUL character")
	}
	return []trajectory.Message{trajectory.Text(trajectory.User, text)}, nil
}

// takeID takes the key id: text, or a number as it is written.
func takeID(row *Row, f scan.Field) (bool, error) {
	if f.Key != "id" || scan.Null(f.Value) {
		return f.Key == "id", nil
	}
	id := string(f.Value)
	switch scan.Kind(f.Value) {
	case "text":
		text, err := scan.Unquote(f.Value)
		if err != nil {
			return true, err
		}
		id = text
	case "a number":
	default:
		return true, fmt.Errorf("%s, want text or a number", scan.Kind(f.Value))
	}
	switch {
	case strings.TrimSpace(id) == "":
		return true, errors.New("empty")
	case len(id) > maxID:
		return true, fmt.Errorf("%d bytes, at most %d", len(id), maxID)
	case strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return true, fmt.Errorf("%q holds a control character", id)
	}
	row.ID, row.Explicit = id, true
	return true, nil
}

// takeScoring takes a key from which graders are made. Null counts as absent.
func takeScoring(s *Scoring, f scan.Field) (bool, error) {
	var to *json.RawMessage
	switch f.Key {
	case "answer":
		to = &s.Answer
	case "expected":
		to = &s.Expected
	case "expected_tools":
		to = &s.ExpectedTools
	case "rubric":
		to = &s.Rubric
	case "checker":
		to = &s.Checker
	case "solution":
		to = &s.Solution
	case "reward_model": // kept whole in Extra too: it may say more than the truth
		if scan.Kind(f.Value) == "an object" {
			inner, err := scan.Object(f.Value, nil, nil)
			if err != nil {
				return true, err
			}
			if v := reach(inner, "ground_truth"); v != nil && !scan.Null(v) {
				s.GroundTruth = v
			}
		}
		return false, nil
	default:
		return false, nil
	}
	if !scan.Null(f.Value) {
		*to = f.Value
	}
	return true, nil
}
