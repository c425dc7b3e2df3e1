package sink

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermes/internal/printable"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// reportFailures is how many samples that were not accepted the report names.
const reportFailures = 20

// reportHead is what the report says about the run itself.
type reportHead struct{ name, version, mode, model, accept string }

type failure struct {
	row    string
	sample int
	book   stats.Book
	sub    string
	reason string
}

// report is report.md: a function of the log and run.yaml, without the time of writing.
func report(h reportHead, s stats.Statistics, failures []failure) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s with %s, hermes %s; accepted: %s.\n\n", cell(h.name), cell(h.mode), cell(cmp.Or(h.model, "an unnamed model")),
		cmp.Or(h.version, "unknown"), cell(cmp.Or(h.accept, "all")))
	b.WriteString("| book | samples |\n|---|---:|\n")
	fmt.Fprintf(&b, "| planned | %d |\n| accepted | %d |\n", s.Planned, s.Accepted)
	for _, k := range slices.Sorted(maps.Keys(s.Rejected)) {
		fmt.Fprintf(&b, "| rejected: %s | %d |\n", k, s.Rejected[k])
	}
	for _, k := range slices.Sorted(maps.Keys(s.Failed)) {
		fmt.Fprintf(&b, "| failed: %s | %d |\n", k, s.Failed[k])
	}
	fmt.Fprintf(&b, "| pending | %d |\n\n", s.Pending)
	if s.Reward != nil {
		fmt.Fprintf(&b, "Reward: mean %.4f, standard deviation %.4f, over the %d scored samples; %d that failed by our fault have none.\n\n",
			s.Reward.Mean, s.Reward.Std, s.Scored, sum(s.Failed))
	}
	fmt.Fprintf(&b, "Turns: mean %.2f, median %d, 95th percentile %d, most %d. With thinking: %d.\n\n", s.Turns.Mean, s.Turns.P50, s.Turns.P95, s.Turns.Max, s.Reasoning)
	cost := "unknown"
	if s.CostUSD != nil {
		cost = fmt.Sprintf("$%.4f", *s.CostUSD)
	}
	fmt.Fprintf(&b, "Tokens: %d prompt (%d cached), %d completion (%d reasoning). Cost: %s. Attempts: %d; answers bought twice: %d. From first to last: %.1f s.\n",
		s.Tokens.Prompt, s.Tokens.Cached, s.Tokens.Completion, s.Tokens.Reasoning, cost, s.Attempts, s.Rebought, s.Seconds)
	if said := s.Verdicts(); said != "" {
		fmt.Fprintf(&b, "\nAnswers: %s.\n", cell(said))
	}
	if j := s.Judge; j != nil {
		fmt.Fprintf(&b, "\nJudge: %s was asked %d times; %d prompt and %d completion tokens, which are not among those above; its cost is.\n",
			j.Model, j.Asked, j.Tokens.Prompt, j.Tokens.Completion)
	}
	judged(&b, s)
	tools(&b, s.Tools)
	if len(s.Causes) > 0 {
		b.WriteString("\n## Failed attempts by cause\n\n| cause | attempts |\n|---|---:|\n")
		for _, k := range slices.Sorted(maps.Keys(s.Causes)) {
			fmt.Fprintf(&b, "| %s | %d |\n", cell(k), s.Causes[k])
		}
	}
	if len(failures) > 0 {
		fmt.Fprintf(&b, "\n## Not accepted (the first %d)\n\n| row | sample | book | reason |\n|---|---:|---|---|\n", len(failures))
		for _, f := range failures {
			fmt.Fprintf(&b, "| %s | %d | %s.%s | %s |\n", cell(f.row), f.sample, f.book, f.sub, cell(f.reason))
		}
	}
	return []byte(printable.Text(b.String()))
}

// judged says where samples were judged, and what a reader must know of it.
func judged(b *bytes.Buffer, s stats.Statistics) {
	if len(s.Verified) > 0 {
		b.WriteString("\nJudged in a box:")
		for i, mode := range slices.Sorted(maps.Keys(s.Verified)) {
			fmt.Fprintf(b, "%s %d %s", map[bool]string{true: ",", false: ""}[i > 0], s.Verified[mode], cell(mode))
		}
		b.WriteString(".")
		if s.Verified["same"] > 0 {
			b.WriteString(" The same box is the model's own: open to tampering, and so is whatever runs in the checker's own process (docs/graders.md).")
		}
		b.WriteString("\n")
	}
	if s.Hacks > 0 {
		fmt.Fprintf(b, "\n**reward/hack: %d samples show signs of a hack**; their notes say which. No reward was changed for it.\n", s.Hacks)
	}
}

func tools(b *bytes.Buffer, counts map[string]trajectory.ToolCount) {
	if len(counts) == 0 {
		return
	}
	b.WriteString("\n## Tools\n\n| tool | calls | succeeded | failed |\n|---|---:|---:|---:|\n")
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		c := counts[k]
		fmt.Fprintf(b, "| %s | %d | %d | %d |\n", cell(k), c.Count, c.Success, c.Failure)
	}
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// cell makes a text fit into one cell of a table.
func cell(s string) string {
	s = strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "`", "'", "<", "&lt;").Replace(s)
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + " …"
	}
	return s
}
