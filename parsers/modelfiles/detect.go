package modelfiles

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"hermes/internal/jinja"
	"hermes/parsers"
)

// Think is what a model's prompt does with the think block.
type Think string

// The states of the think block where the model begins to write.
const (
	ThinkNone   Think = "none"   // the template knows no think block
	ThinkModel  Think = "model"  // the model opens it, or not
	ThinkOpen   Think = "open"   // the prompt has opened it: the answer starts in reasoning
	ThinkClosed Think = "closed" // the prompt has opened and closed it: no reasoning follows
)

// Traits are what a template says about its model.
type Traits struct {
	Family string // of parsers; empty: the template writes no calls that hermes knows
	Why    string // the marker by which the family was found
	Think  Think
	Tag    string   // what opens the think block
	Stops  []string // spellings that end a turn of the assistant, most certain first
}

// thinkTags open think blocks; the closing tag has a slash or its own spelling.
var thinkTags = []struct{ open, close string }{
	{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}, {"<mm:think>", "</mm:think>"},
	{"<|START_THINKING|>", "<|END_THINKING|>"}, {"◁think▷", "◁/think▷"}, {"<|channel>thought", "<channel|>"},
	{"<ifm|think>", "</ifm|think>"}, {"<ifm|think_fast>", "</ifm|think_fast>"}, {"<ifm|think_faster>", "</ifm|think_faster>"},
	{"<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"},
}

// The words of the probe; no template has them.
const (
	probeQuestion = "Hermes-probe-question"
	probeAnswer   = "Hermes-probe-answer"
)

// probeTime is what templates that print the date see here.
var probeTime = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

// Detect reads the traits out of a template's source. vars are further variables of the
// template (its thinking switch, say). The error of a template that is none is a
// [*jinja.Error] with line and column.
func (f *Files) Detect(source string, vars map[string]any) (Traits, error) {
	t := Traits{Think: ThinkNone}
	t.Family, t.Why, _ = parsers.DetectFamily(source)
	tmpl, err := jinja.Parse(source, jinja.Options{})
	if err != nil {
		return t, err
	}
	for _, tag := range thinkTags {
		if strings.Contains(source, tag.open) || strings.Contains(source, tag.close) {
			t.Think, t.Tag = ThinkModel, tag.open
			break
		}
	}
	open, err := f.probe(tmpl, vars, true, probeQuestion)
	if err != nil {
		return t, fmt.Errorf("the probe conversation: %w", err)
	}
	t.thinkState(open[strings.LastIndex(open, probeQuestion)+len(probeQuestion):])
	// Not every template takes a conversation that ends with the assistant.
	closed, err := f.probe(tmpl, vars, false, probeQuestion, probeAnswer)
	if err == nil {
		if i := strings.LastIndex(closed, probeAnswer); i >= 0 {
			t.stop(firstMarker(closed[i+len(probeAnswer):]))
		}
	}
	t.stop(f.EOS)
	return t, nil
}

func (t *Traits) stop(s string) {
	for _, have := range t.Stops {
		if have == s {
			return
		}
	}
	if s != "" {
		t.Stops = append(t.Stops, s)
	}
}

// thinkState looks at what the template put behind the last message of the user.
func (t *Traits) thinkState(tail string) {
	for _, tag := range thinkTags {
		opened, closed := strings.LastIndex(tail, tag.open), strings.LastIndex(tail, tag.close)
		if opened < 0 && closed < 0 {
			continue
		}
		t.Tag, t.Think = tag.open, ThinkOpen
		if closed > opened { // DeepSeek V3.1 writes the closing tag alone
			t.Think = ThinkClosed
		}
		return
	}
}

// firstMarker is the control token with which a text begins, blanks aside: <|…|>, <…>,
// [/…] or </s>.
func firstMarker(text string) string {
	text = strings.TrimLeft(text, " \t\r\n")
	for _, frame := range []struct{ open, close string }{{"<|", "|>"}, {"<｜", "｜>"}, {"<", ">"}, {"[", "]"}} {
		if strings.HasPrefix(text, frame.open) {
			if end := strings.Index(text, frame.close); end > 0 && !strings.ContainsAny(text[:end], " \n") {
				return text[:end+len(frame.close)]
			}
		}
	}
	return ""
}

// probeTool is offered to templates that work with tools only.
const probeTool = `[{"type":"function","function":{"name":"probe","description":"A probe.","parameters":{"type":"object","properties":{"text":{"type":"string","description":"Text."}},"required":["text"]}}}]`

// probe renders user and assistant messages in turn, without tools where that goes.
func (f *Files) probe(tmpl *jinja.Template, vars map[string]any, generation bool, texts ...string) (string, error) {
	text, err := f.render(tmpl, vars, generation, nil, texts...)
	if err == nil {
		return text, nil
	}
	tools, bad := jinja.Decode([]byte(probeTool))
	if bad != nil {
		return "", bad
	}
	if again, e := f.render(tmpl, vars, generation, tools, texts...); e == nil {
		return again, nil
	}
	return "", err
}

func (f *Files) render(tmpl *jinja.Template, vars map[string]any, generation bool, tools any, texts ...string) (string, error) {
	var b strings.Builder
	b.WriteByte('[')
	for i, text := range texts {
		if i > 0 {
			b.WriteByte(',')
		}
		role := [2]string{"user", "assistant"}[i%2]
		b.WriteString(`{"role":"` + role + `","content":` + strconv.Quote(text) + `}`)
	}
	messages, err := jinja.Decode([]byte(b.String() + "]"))
	if err != nil {
		return "", err
	}
	d := jinja.NewDict().Set("messages", messages).Set("tools", tools).Set("documents", nil).Set("add_generation_prompt", generation).
		Set("bos_token", f.BOS).Set("eos_token", f.EOS)
	for k, v := range vars {
		d.Set(k, v)
	}
	out, err := tmpl.Render(d, jinja.RenderOptions{Now: probeTime})
	return out.Text, err
}

// Lines say the traits aloud, one a line.
func (t Traits) Lines() []string {
	family := "family: none found in the template; give --family (hermes model parse --list), or plain for text only"
	if t.Family != "" {
		family = fmt.Sprintf("family: %s (the template has %s)", t.Family, t.Why)
	}
	think := map[Think]string{
		ThinkNone:   "think block: none",
		ThinkModel:  "think block: the model opens " + t.Tag + " itself",
		ThinkOpen:   "think block: the prompt opens " + t.Tag + ", answers start in reasoning",
		ThinkClosed: "think block: the prompt opens and closes " + t.Tag + ", no reasoning follows",
	}[t.Think]
	stops := "stops: none found; give --stop"
	if len(t.Stops) > 0 {
		stops = "stops: " + strings.Join(t.Stops, " ")
	}
	return []string{family, think, stops}
}
