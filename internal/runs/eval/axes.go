package eval

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"hermes/configs"
	"hermes/internal/settings"
)

// mostCells bounds the runs of a matrix: its axes multiply.
const mostCells = 256

// cell is one run of a suite, with the settings that the matrix chose for it.
type cell struct {
	settings.Batch
	chosen []configs.Setting
}

// axis is a setting that a matrix can try. It has the name of its flag.
type axis struct {
	name string
	set  func(b *settings.Batch, value configs.Cell) error
}

// axes are those of [configs.Axes], in the order in which they name a run.
func axes() []axis {
	return []axis{
		{"model", text(func(b *settings.Batch) *string { return &b.Model })},
		{"toolsets", func(b *settings.Batch, value configs.Cell) error {
			if len(value) == 0 {
				return errNoValue
			}
			b.Toolsets = strings.Split(strings.Join(value, ","), ",")
			return nil
		}},
		{"system", text(func(b *settings.Batch) *string { return &b.System })},
		{"ephemeral-system", text(func(b *settings.Batch) *string { return &b.EphemeralSystem })},
		{"prefill", text(func(b *settings.Batch) *string { return &b.Prefill })},
		{"temperature", decimal(func(b *settings.Batch) **float64 { return &b.Temperature })},
		{"top-p", decimal(func(b *settings.Batch) **float64 { return &b.TopP })},
		{"min-p", decimal(func(b *settings.Batch) **float64 { return &b.MinP })},
		{"top-k", integer(func(b *settings.Batch, n int) { b.TopK = &n })},
		{"max-tokens", integer(func(b *settings.Batch, n int) { b.MaxTokens = n })},
		{"max-turns", integer(func(b *settings.Batch, n int) { b.MaxTurns = n })},
		{"reasoning-effort", effort},
	}
}

// errNoValue is the error of an empty value of a matrix.
var errNoValue = errors.New("want a value, got an empty one")

// single is the text of a value that is not a list.
func single(value configs.Cell) (string, error) {
	if len(value) == 0 {
		return "", errNoValue
	}
	if len(value) > 1 {
		return "", fmt.Errorf("want one value, not the list %s", strings.Join(value, ", "))
	}
	return value[0], nil
}

func text(field func(*settings.Batch) *string) func(*settings.Batch, configs.Cell) error {
	return func(b *settings.Batch, value configs.Cell) (err error) {
		*field(b), err = single(value)
		return err
	}
}

// effort takes what the flag takes.
func effort(b *settings.Batch, value configs.Cell) error {
	v, err := single(value)
	if err != nil {
		return err
	}
	field, _ := reflect.TypeFor[settings.SamplingFlags]().FieldByName("ReasoningEffort")
	if known := strings.Split(field.Tag.Get("enum"), ","); !slices.Contains(known, v) {
		return fmt.Errorf("%q is none of %s", v, strings.Join(known[1:], ", "))
	}
	b.ReasoningEffort = v
	return nil
}

func decimal(field func(*settings.Batch) **float64) func(*settings.Batch, configs.Cell) error {
	return func(b *settings.Batch, value configs.Cell) error {
		s, err := single(value)
		if err != nil {
			return err
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= 0 && f <= 1e6) { // NaN is refused too
			return fmt.Errorf("%q: want a number of at least 0", s)
		}
		*field(b) = &f
		return nil
	}
}

func integer(set func(*settings.Batch, int)) func(*settings.Batch, configs.Cell) error {
	return func(b *settings.Batch, value configs.Cell) error {
		s, err := single(value)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%q: want a whole number", s)
		}
		set(b, n)
		return nil
	}
}

// cells are the runs of the matrix, each value of an axis with each of the others; without a
// matrix it is the run itself.
func (e *Eval) cells() ([]cell, error) {
	list := []cell{{Batch: e.Batch}}
	if e.Suite == nil {
		return list, nil
	}
	for _, a := range axes() {
		values := e.Suite.Matrix[a.name]
		if len(values) == 0 {
			continue
		}
		if e.given(a.name) {
			return nil, fmt.Errorf("suite %s: its matrix tries values of %s, so the setting %s cannot be given too", e.Suite.Name, a.name, a.name)
		}
		if len(list)*len(values) > mostCells {
			return nil, fmt.Errorf("suite %s: the matrix has more than %d cells: leave values out", e.Suite.Name, mostCells)
		}
		var next []cell
		for _, c := range list {
			for i, v := range values {
				with := cell{Batch: c.Batch, chosen: append(slices.Clone(c.chosen), configs.Setting{Name: a.name, Value: strings.Join(v, ",")})}
				if err := a.set(&with.Batch, v); err != nil {
					return nil, fmt.Errorf("suite %s: matrix: %s: %w", e.Suite.Name, a.name, err)
				}
				with.RunFlags.Run += "-" + label(a.name, v, i)
				next = append(next, with)
			}
		}
		list = next
	}
	taken := map[string]bool{}
	for _, c := range list {
		if taken[c.RunFlags.Run] {
			return nil, fmt.Errorf("suite %s: two cells of the matrix would be called %s: give each value once, and files of prompts different names", e.Suite.Name, c.RunFlags.Run)
		}
		taken[c.RunFlags.Run] = true
	}
	return list, nil
}

// label is what a value adds to the name of its run. Prompts are named by their file, or by
// their place in the list.
func label(axis string, value configs.Cell, place int) string {
	joined := strings.Join(value, "+")
	switch axis {
	case "model", "toolsets":
		return plainName(strings.ReplaceAll(joined, ",", "+"))
	case "system", "ephemeral-system", "prefill":
		file, named := strings.CutPrefix(joined, "@")
		if !named && axis != "prefill" {
			return axis + "-" + strconv.Itoa(place+1)
		}
		joined = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	return axis + "-" + plainName(joined)
}

// given reports whether a flag is set, by whatever layer.
func (e *Eval) given(flag string) bool {
	return slices.ContainsFunc(e.Layers, func(s configs.Setting) bool { return s.Name == flag && s.Layer != configs.FromDefault })
}

// plainName makes a text fit to be part of a folder's name.
func plainName(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-+", r):
			return r
		}
		return '_'
	}, text)
}
