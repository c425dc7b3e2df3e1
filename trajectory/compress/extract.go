package compress

import (
	"fmt"
	"strings"

	"hermes/trajectory"
)

// extract is a summary without a model: the first words of each turn, as many as fit.
// The same turns give the same text.
func (c *Compressor) extract(turns []Turn) (string, error) {
	best := fmt.Sprintf("%d turns were left out here.", len(turns))
	low, high := 16, 400 // characters of one turn
	for low <= high {
		width := (low + high) / 2
		text := digest(turns, width)
		n, err := c.count.Count(Mark + text)
		if err != nil {
			return "", err
		}
		if n <= c.o.Summary {
			best, low = text, width+1
		} else {
			high = width - 1
		}
	}
	if low == 16 { // even the shortest lines are too many: as many of the last ones as fit
		for n := len(turns) / 2; n > 0; n /= 2 {
			text := fmt.Sprintf("%d earlier turns are not listed.\n", len(turns)-n) + digest(turns[len(turns)-n:], 16)
			size, err := c.count.Count(Mark + text)
			if err != nil {
				return "", err
			}
			if size <= c.o.Summary {
				return text, nil
			}
		}
	}
	return best, nil
}

func digest(turns []Turn, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d earlier turns in short:", len(turns))
	for _, t := range turns {
		who := "assistant"
		switch t.Role {
		case trajectory.User:
			who = "user"
		case trajectory.Tool:
			who = "tool"
		case trajectory.System:
			who = "system"
		}
		b.WriteString("\n- " + who + ": " + firstWords(t.Text, width))
	}
	return b.String()
}

// firstWords is a text on one line without tags, of at most width characters.
func firstWords(s string, width int) string {
	s = strings.NewReplacer("<think>", "", "</think>", "", "<tool_call>", "", "</tool_call>", "", "<tool_response>", "", "</tool_response>", "").Replace(s)
	if len(s) > 8*width {
		s = strings.ToValidUTF8(s[:8*width], "")
	}
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > width {
		return strings.TrimRight(string(r[:width-1]), " ") + "…"
	}
	return s
}
