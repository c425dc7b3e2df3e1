package prom

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// page writes metric families in the text exposition format.
type page struct{ bytes.Buffer }

func (p *page) head(name, help, kind string) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *page) gauge(name, help string, v float64) {
	p.head(name, help, "gauge")
	fmt.Fprintf(p, "%s %s\n", name, number(v))
}

func (p *page) counter(name, help string, v float64) {
	p.head(name, help, "counter")
	fmt.Fprintf(p, "%s %s\n", name, number(v))
}

func (p *page) counters(name, help, label string, values map[string]int64) {
	p.head(name, help, "counter")
	for _, k := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(p, "%s{%s=\"%s\"} %d\n", name, label, escape(k), values[k])
	}
}

func (p *page) calls(name, help string, values map[callKey]int64) {
	p.head(name, help, "counter")
	keys := slices.SortedFunc(maps.Keys(values), func(a, b callKey) int {
		return cmp.Or(strings.Compare(a.tool, b.tool), strings.Compare(a.result, b.result))
	})
	for _, k := range keys {
		fmt.Fprintf(p, "%s{tool=\"%s\",result=\"%s\"} %d\n", name, escape(k.tool), escape(k.result), values[k])
	}
}

func (p *page) histogram(name, help string, h histogram) {
	p.head(name, help, "histogram")
	var sum int64
	for i, le := range h.bounds {
		sum += h.counts[i]
		fmt.Fprintf(p, "%s_bucket{le=\"%s\"} %d\n", name, number(le), sum)
	}
	sum += h.counts[len(h.bounds)]
	fmt.Fprintf(p, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %s\n%s_count %d\n", name, sum, name, number(h.sum), name, sum)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// escape writes the value of a label. Names of tools come from models: what is not
// UTF-8 is replaced and long ones are cut.
func escape(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80])
	}
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(s)
}

// histogram counts values in buckets; the last one has no upper bound.
type histogram struct {
	bounds []float64
	counts []int64
	sum    float64
}

func newHistogram(bounds ...float64) histogram {
	return histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
}
