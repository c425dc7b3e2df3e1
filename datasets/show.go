package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"hermes/datasets/scan"
)

// Show writes the mapping of the first rows and then n of them for people: id, place,
// the turns of the task, what else is used. Texts are cut at width characters a line.
func (d *Dataset) Show(ctx context.Context, w io.Writer, n, width int) error {
	if n <= 0 || width < 20 {
		return fmt.Errorf("show %d rows, %d wide: want at least 1 row, 20 wide", n, width)
	}
	m, err := d.Mapping(ctx, max(n, 100))
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, m.String()); err != nil {
		return err
	}
	for row, err := range d.Rows(ctx) {
		var bad *RowError
		text := ""
		switch {
		case errors.As(err, &bad):
			text = fmt.Sprintf("\nbad row: %v\n", err)
		case err != nil:
			return err
		default:
			text = showRow(&row, width)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		n--
		if n == 0 {
			break
		}
	}
	return nil
}

func showRow(r *Row, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s  (%s)\n", r.ID, where(r.File, r.Line, r.Index))
	for _, m := range r.Prompt {
		text := m.Content()
		for _, c := range m.Calls {
			text += fmt.Sprintf(" [%s %s]", c.Name, c.Arguments)
		}
		for _, p := range m.Parts {
			if p.Kind != "text" {
				text += fmt.Sprintf(" [%s]", p.Kind)
			}
		}
		fmt.Fprintf(&b, "  %-9s %s\n", m.Role, clip(text, width))
	}
	line := func(key, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", key, clip(text, width))
		}
	}
	line("image", r.Hermes.Image)
	line("cwd", r.Hermes.Cwd)
	line("files", strings.Join(sortedKeys(r.Hermes.Files), ", "))
	line("toolsets", strings.Join(r.Hermes.Toolsets, ", "))
	if r.Hermes.Network != nil {
		line("network", cmp.Or(strings.Join(r.Hermes.Network, ", "), "none"))
	}
	line("verify", strings.Join(append([]string{r.Hermes.Verify.Mode}, r.Hermes.Verify.Paths...), " "))
	line("answer", plainText(r.Scoring.Answer))
	line("expected", plainText(r.Scoring.Expected))
	line("truth", plainText(r.Scoring.GroundTruth))
	line("checker", plainText(r.Scoring.Checker))
	line("rubric", plainText(r.Scoring.Rubric))
	line("metadata", strings.Join(sortedKeys(r.Extra), ", "))
	return b.String()
}

func plainText(v []byte) string {
	if scan.Kind(v) == "text" {
		if s, err := scan.Unquote(v); err == nil {
			return s
		}
	}
	return string(v)
}

// clip makes text one line of printable characters.
func clip(text string, width int) string {
	n := 0
	out := strings.Map(func(r rune) rune {
		n++
		if n > width {
			return -1
		}
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	if n > width {
		out += "…"
	}
	return out
}
