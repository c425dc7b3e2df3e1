package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hermes/internal/fakellm/rawjson"
)

// Turn is one answer of the scripted model. Content, and the strings inside arguments,
// may hold {{task}} (the first user message), {{turn}} (its number from 0), {{last_result}}
// (the text of the last tool result) and {{last_result.KEY}} (a field of it when it is a
// JSON object).
type Turn struct {
	Content   string `json:"content,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	Calls     []Call `json:"calls,omitempty"`
	Finish    string `json:"finish,omitempty"` // empty: tool_calls with calls, else stop
	// Fault is a name of a fault of the server; the first FaultTimes (0: one, negative: all)
	// requests with this digest meet it.
	Fault      string `json:"fault,omitempty"`
	FaultTimes int    `json:"fault_times,omitempty"`
	Repeat     bool   `json:"repeat,omitempty"`   // the last turn of a script is given for all further turns
	DelayMS    int    `json:"delay_ms,omitempty"` // added to the latency
	Again      []Turn `json:"again,omitempty"`    // what is said when the same digest was already answered
}

// Call is one tool call. Arguments is an object, or a JSON string that is sent as it is
// (so that a script can hold arguments which are no JSON).
type Call struct {
	ID        string          `json:"id,omitempty"` // empty: made from the digest
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Script is the turns for conversations whose first user message matches.
type Script struct {
	Match string `json:"match"` // a substring, or a regular expression between slashes; empty: everything
	Turns []Turn `json:"turns"`

	re *regexp.Regexp
}

func (s *Script) validate(faults []string) error {
	if len(s.Turns) == 0 {
		return fmt.Errorf("match %q: no turns", s.Match)
	}
	for i, t := range s.Turns {
		if err := t.validate(faults); err != nil {
			return fmt.Errorf("turn %d: %w", i, err)
		}
	}
	if m := s.Match; len(m) >= 2 && m[0] == '/' && m[len(m)-1] == '/' {
		re, err := regexp.Compile(m[1 : len(m)-1])
		if err != nil {
			return fmt.Errorf("match %q: %w", m, err)
		}
		s.re = re
	}
	return nil
}

func (t Turn) validate(faults []string) error {
	if t.Fault != "" && !slices.Contains(faults, t.Fault) {
		return fmt.Errorf("unknown fault %q (have %s)", t.Fault, strings.Join(faults, ", "))
	}
	for _, c := range t.Calls {
		if c.Name == "" {
			return errors.New("a call has no name")
		}
	}
	return nil
}

func (s *Script) matches(task string) bool {
	if s.re != nil {
		return s.re.MatchString(task)
	}
	return strings.Contains(task, s.Match)
}

// ReadScripts reads scripts, one JSON object {match, turns} a line, whose turns may have these
// faults. An error names the line.
func ReadScripts(r io.Reader, faults []string) ([]Script, error) {
	var out []Script
	in := bufio.NewReader(r)
	for line := 1; ; line++ {
		raw, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("read scripts: %w", err)
		}
		raw = bytes.TrimSpace(raw)
		if len(raw) > 0 {
			var s Script
			d := json.NewDecoder(bytes.NewReader(raw))
			d.DisallowUnknownFields()
			if e := d.Decode(&s); e != nil {
				return nil, fmt.Errorf("scripts line %d: %w", line, e)
			}
			if e := s.validate(faults); e != nil {
				return nil, fmt.Errorf("scripts line %d: %w", line, e)
			}
			out = append(out, s)
		}
		if err == io.EOF {
			return out, nil
		}
	}
}

// past is what the model says when its script has ended.
var past = Turn{Content: "I have nothing more to do."}

// nth picks a turn of a list.
func nth(turns []Turn, i int) Turn {
	if i < len(turns) {
		return turns[i]
	}
	if n := len(turns); n > 0 && turns[n-1].Repeat {
		return turns[n-1]
	}
	return past
}

// nthRaw picks a turn of a script that came with a request, decoding only that turn.
func nthRaw(raw []byte, i int, faults []string) (Turn, error) {
	var pick, last []byte
	n := 0
	err := rawjson.Elems(raw, func(val []byte) bool {
		if n == i {
			pick = val
		}
		n, last = n+1, val
		return pick == nil
	})
	if err != nil {
		return Turn{}, fmt.Errorf("hermes_script: %w", err)
	}
	var t Turn
	decode := func(b []byte) error {
		if err := json.Unmarshal(b, &t); err != nil {
			return fmt.Errorf("hermes_script, turn %d: %w", i, err)
		}
		return t.validate(faults)
	}
	if pick != nil {
		return t, decode(pick)
	}
	if last != nil {
		if err := decode(last); err != nil || t.Repeat {
			return t, err
		}
	}
	return past, nil
}

// fill replaces the templates in s. enc is applied to each value.
func fill(s string, c *Talk, enc func(string) string) string {
	if !strings.Contains(s, "{{") {
		return s
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "{{")
		name, after, closed := strings.Cut(rest, "}}")
		if !ok || !closed {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(before)
		if v, known := c.value(strings.TrimSpace(name)); known {
			b.WriteString(enc(v))
			s = after
			continue
		}
		b.WriteString("{{") // not ours: it stays
		s = rest
	}
}

// value looks a template name up.
func (c *Talk) value(name string) (string, bool) {
	key, isField := strings.CutPrefix(name, "last_result.")
	switch {
	case name == "task":
		return c.task(), true
	case name == "turn":
		return strconv.Itoa(c.Turns), true
	case name == "last_result":
		return c.result(), true
	case isField:
		raw := rawjson.Field([]byte(c.result()), key)
		if len(raw) > 0 && raw[0] != '"' {
			return string(raw), true
		}
		return rawjson.Text(raw), true
	}
	return "", false
}

// arguments returns the text of a call's arguments with its templates filled.
func (c Call) arguments(t *Talk) string {
	raw := string(bytes.TrimSpace(c.Arguments))
	if raw == "" {
		return "{}"
	}
	inner := func(s string) string {
		q := rawjson.Quote(nil, s)
		return string(q[1 : len(q)-1])
	}
	if raw[0] == '"' {
		return fill(rawjson.Text([]byte(raw)), t, inner)
	}
	return fill(raw, t, inner)
}
