package progress

import (
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	defaultWidth = 80
	minBar       = 10 // columns below which the bar is left out
	barExtra     = 9  // percentage, brackets and spaces that the bar adds
)

// columns is the present width of the terminal.
func (p *Progress) columns() int {
	if p.o.Width == nil {
		return defaultWidth
	}
	if w := p.o.Width(); w > 0 {
		return w
	}
	return defaultWidth
}

// draw replaces the last line by a bar with the present counts behind it, in one line: a line
// that wraps could not be replaced. Where all has no room, the bar becomes shorter and goes
// first, then the least important counts.
func (p *Progress) draw(now time.Time) {
	p.clear()
	cols := p.columns() - 1
	text := p.counts.fitted(now, cols)
	room := min(cols-len([]rune(text))-barExtra, 40)
	if p.counts.total <= 0 || room < minBar {
		p.write(cut(text, cols))
		p.drawn = true
		return
	}
	p.write(p.render(room) + text)
	p.drawn = true
}

// render is the bar alone, so many columns wide, with its percentage in front. It never
// reaches its end, where the library would begin a new line.
func (p *Progress) render(columns int) string {
	if p.bar == nil || p.width != columns {
		p.bar = progressbar.NewOptions64(p.counts.total, progressbar.OptionSetWriter(io.Discard),
			progressbar.OptionSetWidth(columns), progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false))
		p.width = columns
	}
	if p.bar.Set64(min(p.counts.done, p.counts.total-1)) != nil {
		return ""
	}
	p.bar.Describe("") // draws, also when the percentage stayed the same
	return strings.TrimSpace(p.bar.String()) + " "
}

// clear empties the line of the bar.
func (p *Progress) clear() {
	if p.drawn {
		p.write("\r\x1b[2K")
		p.drawn = false
	}
}

func cut(text string, columns int) string {
	r := []rune(text)
	if len(r) <= columns {
		return text
	}
	return string(r[:max(columns-1, 0)]) + "…"
}
