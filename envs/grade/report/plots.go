package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hermes/envs/grade/figures"
	"hermes/internal/printable"
)

// The pages, and what they have in common.
var (
	//go:embed page.html
	page string
	//go:embed matrix.html
	matrixPage string
	//go:embed groups.html
	groupsPage string
	//go:embed shared.html
	shared string
)

// plots is what the page draws beside the figures of report.json.
type plots struct {
	curve []point
	dots  []dot
	turns []bar
	paid  bool // dots show dollars, else tokens
	left  int  // dots that are not drawn
}

// point is one k of the pass@k curve.
type point struct {
	k       int
	at, hat figures.Estimate
	maj     *figures.Estimate // nil: nothing to vote on
}

// dot is a task: what it cost on average, what it earned.
type dot struct{ cost, reward float64 }

type bar struct {
	Name string
	N    int64
}

// mostDots is how many tasks a page draws: more make it slow and show nothing else.
const mostDots = 2000

func (r *Report) plot(tasks []*task, turns map[int]int64) {
	priced := slices.ContainsFunc(tasks, func(t *task) bool { return t.cost > 0 })
	r.plots.paid = priced
	step := max(1, len(tasks)/mostDots)
	for i := 0; i < len(tasks); i++ {
		t := tasks[i]
		if len(t.rewards) == 0 || t.seen == 0 || priced && t.priced == 0 {
			continue
		}
		if i%step != 0 {
			r.plots.left++
			continue
		}
		d := dot{cost: float64(t.tokens) / float64(t.seen)}
		if priced {
			d.cost = t.cost / float64(t.priced)
		}
		for _, x := range t.rewards {
			d.reward += x / float64(len(t.rewards))
		}
		r.plots.dots = append(r.plots.dots, d)
	}
	for _, n := range slices.Sorted(maps.Keys(turns)) {
		r.plots.turns = append(r.plots.turns, bar{fmt.Sprint(n), turns[n]})
	}
}

// HTML writes report.html: one page that needs nothing else.
func (r *Report) HTML(w io.Writer) error {
	t, err := parse(page)
	if err != nil {
		return err
	}
	var failed []bar
	for _, k := range slices.Sorted(maps.Keys(r.Causes)) {
		failed = append(failed, bar{k, r.Causes[k]})
	}
	slices.SortStableFunc(failed, func(a, b bar) int { return cmp.Compare(b.N, a.N) })
	type row struct {
		Name string
		figures.Estimate
	}
	var rows []row
	for _, name := range r.names() {
		rows = append(rows, row{name, r.Metrics[name]})
	}
	return execute(w, t, "page", map[string]any{
		"R": r, "Title": cmp.Or(r.Suite, r.Run), "Rows": rows, "PerSample": r.perSampleText(),
		"Forest": r.forest(), "Curve": r.curve(), "Scatter": r.scatter(), "Failures": bars(failed), "Turns": bars(r.plots.turns),
		"Paid": r.plots.paid, "Left": r.plots.left, "Tasks": r.tasks, "Unlined": r.unlined,
		"Graders": sorted(r.Graders), "Categories": r.categoryTables(), "Parts": r.parts(),
	})
}

// parts are links to the parts that the page has.
func (r *Report) parts() (list []Link) {
	for _, p := range []struct {
		name, id string
		has      bool
	}{
		{"figures", "figures", len(r.Metrics) > 0},
		{"graders", "graders", len(r.Graders) > 0},
		{"categories", "categories", len(r.Categories) > 0},
		{"samples", "samples", true},
		{"failures", "failures", len(r.Failed) > 0},
		{"lowest rewards", "lowest", len(r.Lowest) > 0},
		{"tasks", "tasks", len(r.tasks) > 0},
		{"over k samples", "over-k", len(r.plots.curve) > 1},
		{"cost", "cost", len(r.plots.dots) > 0},
		{"failed attempts", "causes", len(r.Causes) > 0},
		{"turns", "turns", len(r.plots.turns) > 0},
		{"tools", "tools", len(r.Tools) > 0},
		{"settings", "settings", len(r.Settings) > 0},
	} {
		if p.has {
			list = append(list, Link{p.name, p.id})
		}
	}
	return list
}

// thousands is a count with a comma between each three digits.
func thousands(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// categoryTable is the means of one label.
type categoryTable struct {
	Name   string
	Values any
	Plot   *svg
}

func (r *Report) categoryTables() (out []categoryTable) {
	for _, c := range sorted(r.Categories) {
		var list []drawn
		values := sorted(c.V)
		for _, v := range values {
			list = append(list, drawn{v.Name, v.V.Reward})
		}
		out = append(out, categoryTable{c.Name, values, forest("rewards by "+c.Name, list, 0, 1)})
	}
	return out
}

// parse reads the template of a page with what all pages share.
func parse(text string) (*template.Template, error) {
	return template.New("page").Funcs(template.FuncMap{"interval": Interval, "usd": dollars, "tone": tone, "tone1": func(v *float64) string { return tone(*v) },
		"four": func(v *float64) string { return fmt.Sprintf("%.4f", *v) }, "num": func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }, "count": thousands}).Parse(shared + text)
}

// execute writes a page or a part of one, in which nothing steers a terminal either.
func execute(w io.Writer, t *template.Template, part string, data any) error {
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, part, data); err != nil {
		return err
	}
	_, err := io.WriteString(w, printable.HTML(b.String()))
	return err
}

// Shapes of SVG, in the coordinates of its view box.
type (
	line struct {
		X1, Y1, X2, Y2 float64
		Class          string
	}
	mark struct {
		X, Y float64
		Tip  string
	}
	label struct {
		X, Y   float64
		Text   string
		Anchor string // end or mid; empty: it begins at X
	}
	rect struct{ X, Y, W, H float64 }
	path struct{ D, Class string }
	svg  struct {
		W, H   float64
		Title  string
		Lines  []line
		Marks  []mark
		Labels []label
		Rects  []rect
		Paths  []path
	}
)

// A view box is narrow, so that its letters can be read on a narrow screen, too.
const (
	left, right, top = 124.0, 400.0, 12.0
	width            = 440.0
	rowHeight        = 22.0
	namedHeight      = 38.0 // of a row whose name is above it
)

// scale maps low…high to the width of a plot that begins at from.
func scale(low, high, from float64) func(float64) float64 {
	if high <= low {
		high = low + 1
	}
	return func(x float64) float64 { return from + (x-low)/(high-low)*(right-from) }
}

// axis draws ticks at round numbers below a plot.
func (s *svg) axis(low, high, y float64, at func(float64) float64) {
	if high <= low {
		high = low + 1
	}
	step := round((high - low) / 4)
	for i := math.Ceil(low / step); i*step <= high+step*1e-9; i++ {
		v := i * step
		s.Lines = append(s.Lines, line{at(v), top, at(v), y, "grid"})
		s.Labels = append(s.Labels, label{X: at(v), Y: y + 15, Text: strconv.FormatFloat(v, 'g', 10, 64), Anchor: "mid"})
	}
}

// round is the largest of 1, 2, 2.5 and 5 times a power of ten that is not above x.
func round(x float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{5, 2.5, 2} {
		if f*base <= x*(1+1e-9) {
			return f * base
		}
	}
	return base
}

// drawn is a figure of a plot, with its name.
type drawn struct {
	name string
	figures.Estimate
}

// forest draws every metric with its interval.
func (r *Report) forest() *svg {
	var list []drawn
	for _, n := range r.names() {
		list = append(list, drawn{n, r.Metrics[n]})
	}
	return forest("metrics with their intervals", list, 0, 1)
}

// Bounds of the letters of a name beside a plot, and above it; the tip has all of it.
const (
	mostName  = 16
	mostAbove = 58
)

// clipped is the end of a name: runs of a matrix differ at their ends.
func clipped(name string, most int) string {
	if runes := []rune(name); len(runes) > most {
		return "…" + string(runes[len(runes)-most+1:])
	}
	return name
}

// forest draws figures with their intervals on a scale from low to high at least.
func forest(title string, list []drawn, low, high float64) *svg {
	if len(list) == 0 {
		return nil
	}
	for _, e := range list {
		low, high = min(low, e.Value), max(high, e.Value)
		if e.Low != nil {
			low, high = min(low, *e.Low), max(high, *e.High)
		}
	}
	from, height := left, rowHeight
	above := slices.ContainsFunc(list, func(e drawn) bool { return utf8.RuneCountInString(e.name) > mostName })
	if above {
		from, height = 20, namedHeight
	}
	s := &svg{W: width, H: top + height*float64(len(list)) + 24, Title: title}
	at := scale(low, high, from)
	s.axis(low, high, s.H-24, at)
	for i, e := range list {
		y := top + height*(float64(i)+0.5)
		if above {
			s.Labels = append(s.Labels, label{Y: y - 8, Text: clipped(e.name, mostAbove)})
		} else {
			s.Labels = append(s.Labels, label{X: left - 8, Y: y + 4, Text: e.name, Anchor: "end"})
		}
		if e.Low != nil {
			s.Lines = append(s.Lines, line{at(*e.Low), y, at(*e.High), y, "bar"})
		}
		s.Marks = append(s.Marks, mark{at(e.Value), y, fmt.Sprintf("%s %.4f, %s, n = %d", e.name, e.Value, Interval(e.Estimate), e.N)})
	}
	return s
}

// curve draws pass@k, pass^k and maj@k over k, with the band of pass@k.
func (r *Report) curve() *svg {
	if len(r.plots.curve) < 2 {
		return nil
	}
	const height = 200.0
	last := r.plots.curve[len(r.plots.curve)-1].k
	x := scale(0, math.Log2(float64(last)), left)
	y := func(v float64) float64 { return top + (1-v)*(height-top) }
	s := &svg{W: width, H: height + 24, Title: "pass@k, pass^k and maj@k"}
	for i := range 5 {
		v := float64(i) / 4
		s.Lines = append(s.Lines, line{left, y(v), right, y(v), "grid"})
		s.Labels = append(s.Labels, label{X: left - 8, Y: y(v) + 4, Text: fmt.Sprint(v), Anchor: "end"})
	}
	band, back := "", ""
	var ways [3]string
	for i, p := range r.plots.curve {
		px := x(math.Log2(float64(p.k)))
		step := map[bool]string{true: "M", false: "L"}[i == 0]
		if p.at.Low != nil {
			band += fmt.Sprintf("%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[band == ""], px, y(*p.at.High))
			back = fmt.Sprintf("L%.1f %.1f", px, y(*p.at.Low)) + back
		}
		for j, e := range []*figures.Estimate{&p.at, &p.hat, p.maj} {
			if e != nil {
				ways[j] += fmt.Sprintf("%s%.1f %.1f", step, px, y(e.Value))
			}
		}
		s.Marks = append(s.Marks, mark{px, y(p.at.Value), fmt.Sprintf("pass@%d %.4f, %s", p.k, p.at.Value, Interval(p.at))})
		s.Labels = append(s.Labels, label{X: px, Y: height + 16, Text: fmt.Sprint(p.k), Anchor: "mid"})
	}
	s.Paths = append(s.Paths, path{band + back + "Z", "band"})
	for j, class := range []string{"at", "hat", "maj"} {
		s.Paths = append(s.Paths, path{ways[j], class})
	}
	return s
}

// scatter draws one dot a task: cost against reward.
func (r *Report) scatter() *svg {
	if len(r.plots.dots) == 0 {
		return nil
	}
	const height = 220.0
	low := 0.0
	high := 1.0
	most := 0.0
	for _, d := range r.plots.dots {
		low, high, most = min(low, d.reward), max(high, d.reward), max(most, d.cost)
	}
	s := &svg{W: width, H: height + 24, Title: map[bool]string{true: "cost", false: "tokens"}[r.plots.paid] + " against reward, one dot a task"}
	x := scale(0, most, left)
	s.axis(0, most, height, x)
	y := func(v float64) float64 { return top + (high/2-v/2)/(high/2-low/2)*(height-2*top) }
	for _, v := range []float64{low, low/2 + high/2, high} {
		s.Labels = append(s.Labels, label{X: left - 8, Y: y(v) + 4, Text: fmt.Sprintf("%.3g", v), Anchor: "end"})
	}
	for _, d := range r.plots.dots {
		s.Marks = append(s.Marks, mark{x(d.cost), y(d.reward), fmt.Sprintf("%.4g, reward %.4g", d.cost, d.reward)})
	}
	return s
}

// bars draws counts, one line each.
func bars(list []bar) *svg {
	if len(list) == 0 {
		return nil
	}
	if len(list) > 40 { // the rest in one
		rest := bar{Name: "others"}
		for _, b := range list[39:] {
			rest.N += b.N
		}
		list = append(slices.Clone(list[:39]), rest)
	}
	most := int64(1)
	for _, b := range list {
		most = max(most, b.N)
	}
	s := &svg{W: width, H: top + rowHeight*float64(len(list)) + 6, Title: "counts"}
	for i, b := range list {
		y, wide := top+rowHeight*float64(i), (right-left)*float64(b.N)/float64(most)
		s.Rects = append(s.Rects, rect{left, y, wide, rowHeight - 6})
		s.Labels = append(s.Labels, label{X: left - 8, Y: y + 13, Text: clipped(b.Name, mostName), Anchor: "end"}, label{X: left + wide + 6, Y: y + 13, Text: fmt.Sprint(b.N)})
	}
	return s
}
