package bfcl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// line is a question as it is stored, with its answer once both are joined.
type line struct {
	ID       string              `json:"id"`
	Question [][]json.RawMessage `json:"question"`
	Function json.RawMessage     `json:"function"`
	Truth    json.RawMessage     `json:"ground_truth"`
	Classes  []string            `json:"involved_classes"`
	Excluded []string            `json:"excluded_function"`
}

// made is a row as the datasets read it.
type made struct {
	ID       string            `json:"id"`
	Messages []json.RawMessage `json:"messages"`
	Function json.RawMessage   `json:"function"`
	Truth    json.RawMessage   `json:"ground_truth,omitempty"`
	Category string            `json:"category"`
	Turns    []turn            `json:"turns,omitempty"`
}

// load reads questions and answers. A file's answers stand in NAME.answer.EXT beside it,
// in possible_answer/NAME.EXT below it, or in its own lines; apis is where the functions
// of multi-turn questions are described.
func load(names []string, apis string) ([]made, error) {
	var files []string
	for _, name := range names {
		list, err := expand(name)
		if err != nil {
			return nil, err
		}
		files = append(files, list...)
	}
	var out []made
	seen := map[string]string{}
	for _, file := range files {
		list, err := loadFile(file, apis)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			if at, twice := seen[m.ID]; twice {
				return nil, fmt.Errorf("%s: the id %s is in %s too", file, m.ID, at)
			}
			seen[m.ID] = file
		}
		out = append(out, list...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no questions in %s", strings.Join(names, ", "))
	}
	return out, nil
}

// expand lists the files with questions of a folder.
func expand(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("questions: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("questions: %w", err)
	}
	var out []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if (ext == ".jsonl" || ext == ".json") && !e.IsDir() && !strings.HasSuffix(strings.TrimSuffix(e.Name(), ext), ".answer") {
			out = append(out, filepath.Join(name, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("questions: no .jsonl or .json file in %s", name)
	}
	return out, nil
}

func loadFile(file, apis string) ([]made, error) {
	lines, err := readLines(file)
	if err != nil {
		return nil, err
	}
	answers, err := answersOf(file)
	if err != nil {
		return nil, err
	}
	docs := docs{folder: apis, read: map[string][]json.RawMessage{}}
	if docs.folder == "" {
		docs.folder = filepath.Join(filepath.Dir(file), "multi_turn_func_doc")
	}
	var out []made
	for i, l := range lines {
		if l.Truth == nil {
			l.Truth = answers[l.ID]
		}
		m, err := l.row(&docs)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", file, i+1, l.ID, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// row joins what a row needs.
func (l line) row(d *docs) (m made, err error) {
	m = made{ID: l.ID, Category: categoryOf(l.ID), Function: l.Function, Truth: l.Truth}
	switch {
	case l.ID == "":
		return m, errors.New("no id")
	case len(l.Question) == 0 || len(l.Question[0]) == 0:
		return m, errors.New("question: want a list of turns, each a list of messages")
	case l.Classes != nil:
		m.Truth = nil
		m.Function, err = d.functions(l.Classes, l.Excluded)
		if err != nil {
			return m, err
		}
		m.Messages = l.Question[0]
		m.Turns, err = joinTurns(l.Question, l.Truth)
		return m, err
	case len(l.Question) > 1:
		return m, fmt.Errorf("%d turns without involved_classes: only multi-turn rows have more than one", len(l.Question))
	case m.Truth == nil && !strings.Contains(m.Category, "irrelevance"):
		return m, errors.New("no accepted calls: put them into NAME.answer.jsonl beside the questions, or ground_truth into the row")
	case m.Truth == nil:
		m.Truth = json.RawMessage("[]")
	}
	m.Messages = l.Question[0]
	return m, nil
}

// categoryOf is an id without its number.
func categoryOf(id string) string {
	i := strings.LastIndexByte(id, '_')
	if i <= 0 {
		return "other"
	}
	return id[:i]
}

// answersOf finds the answers of a file's questions; there may be none.
func answersOf(file string) (map[string]json.RawMessage, error) {
	ext := filepath.Ext(file)
	out := map[string]json.RawMessage{}
	for _, name := range []string{strings.TrimSuffix(file, ext) + ".answer" + ext, filepath.Join(filepath.Dir(file), "possible_answer", filepath.Base(file))} {
		lines, err := readLines(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			out[l.ID] = l.Truth
		}
	}
	return out, nil
}

// longest is what a line may hold.
const longest = 16 << 20

func readLines(name string) (out []line, err error) {
	err = eachLine(name, func(n int, raw []byte) error {
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		out = append(out, l)
		return nil
	})
	return out, err
}

func eachLine(name string, f func(n int, raw []byte) error) (err error) {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	r := bufio.NewReader(io.LimitReader(in, 1<<30))
	for n := 1; ; n++ {
		raw, err := r.ReadBytes('\n')
		if len(raw) > longest {
			return fmt.Errorf("%s:%d: longer than %d bytes", name, n, longest)
		}
		if text := strings.TrimSpace(string(raw)); text != "" {
			if ferr := f(n, []byte(text)); ferr != nil {
				return ferr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// docs are the functions of the APIs of multi-turn rows, one file an API.
type docs struct {
	folder string
	read   map[string][]json.RawMessage
}

// apiFiles names the file of each API.
func apiFiles() map[string]string {
	return map[string]string{"GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api", "TwitterAPI": "posting_api",
		"PostingAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot", "TravelAPI": "travel_booking", "VehicleControlAPI": "vehicle_control"}
}

func (d *docs) functions(classes, excluded []string) (json.RawMessage, error) {
	var out []json.RawMessage
	for _, class := range classes {
		name, ok := apiFiles()[class]
		if !ok {
			return nil, fmt.Errorf("involved_classes: no API %q is known", class)
		}
		if d.read[name] == nil {
			var list []json.RawMessage
			err := eachLine(filepath.Join(d.folder, name+".json"), func(_ int, raw []byte) error { list = append(list, raw); return nil })
			if err != nil {
				return nil, fmt.Errorf("functions of %s: %w; set apis to the folder that describes them", class, err)
			}
			d.read[name] = list
		}
		for _, raw := range d.read[name] {
			var f function
			if err := json.Unmarshal(raw, &f); err != nil {
				return nil, fmt.Errorf("functions of %s: %w", class, err)
			}
			if !slices.Contains(excluded, f.Name) {
				out = append(out, raw)
			}
		}
	}
	return json.Marshal(out)
}
