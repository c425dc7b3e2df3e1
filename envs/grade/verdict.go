package grade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"hermes/backends"
	"hermes/envs"
	"hermes/internal/late"
	"hermes/trajectory"
)

// rewardVariable is where a checker finds the file for its verdict.
const rewardVariable = "HERMES_REWARD"

// outputKept is how much of a checker's output is kept, its beginning and its end.
const outputKept = 4 << 20

// span is what a grader may give, both ends included. The zero value is 0 to 1.
type span []float64

func (s span) check() error {
	if s == nil {
		return nil
	}
	if len(s) != 2 || !(s[0] < s[1]) || math.IsInf(s[0], 0) || math.IsInf(s[1], 0) {
		return fmt.Errorf("range %v: want two finite numbers, the smaller first", []float64(s))
	}
	return nil
}

func (s span) ends() (low, high float64) {
	if s == nil {
		return 0, 1
	}
	return s[0], s[1]
}

func (s span) holds(x float64) bool {
	low, high := s.ends()
	return x >= low && x <= high
}

// verdictOf reads what a checker that ended by itself has said: by its exit code first, then
// in its own file, then in the last reward line of its output.
func verdictOf(w envs.World, res backends.Result, in span) (trajectory.Score, error) {
	s := verdict(res.Code == 0, fmt.Sprintf("exit %d: %s", res.Code, short(string(res.Stdout)+string(res.Stderr))))
	if _, high := in.ends(); s.Reward > 0 {
		s.Reward = high
	}
	line, lineErr := rewardLine(w, res)
	filed, fileErr := rewardFile(res.Report)
	if res.Code != 0 { // it failed: what else was said may lower the reward, and never raise it
		for _, x := range []*trajectory.Score{line, filed} {
			if x != nil && x.Reward > 0 {
				w.Suspect("verdict_line", "reward %v was written, and the checker failed with exit code %d", x.Reward, res.Code)
			} else if x != nil && in.holds(x.Reward) {
				s.Reward = min(s.Reward, x.Reward)
			}
		}
		return s, nil
	}
	switch {
	case fileErr != nil:
		return s, fileErr
	case filed != nil && line != nil && line.Reward != filed.Reward:
		w.Suspect("verdict_line", "a line gives %v, $%s %v", line.Reward, rewardVariable, filed.Reward)
		return s, envs.Unjudged("checker: a line of its output gives the reward %v, $%s %v", line.Reward, rewardVariable, filed.Reward)
	case filed != nil:
		line = filed
	case lineErr != nil:
		return s, lineErr
	case line == nil:
		if near := nearMiss(res); near != "" {
			return s, envs.Unjudged("checker: %q: want a separate line like reward: 0.5 on stdout", near)
		}
		return s, nil
	}
	if !in.holds(line.Reward) {
		low, high := in.ends()
		none := &envs.NoVerdict{What: fmt.Sprintf("checker: %q: want a reward from %v to %v (range declares another)", line.Detail, low, high)}
		if line != filed {
			none.Reward = envs.RewardWritten
		}
		return s, none
	}
	s.Reward, s.Parts, s.Metrics = line.Reward, line.Parts, line.Metrics
	if filed != nil && filed.Detail != "" {
		s.Detail = filed.Detail
	}
	return s, nil
}

var (
	rewardAt = late.Regexp(`^reward: *(\S+)[ \t\r]*$`)
	// nearly is a line that was meant to be one: in colour, indented, in capitals, quoted, with
	// another sign behind the word, or with more behind the number.
	nearly = late.Regexp(`(?i)^[\s"'\x60*_>#|\-\[(<\x{feff}]*reward["'\x60*_\])>]*(?:\s*[:=\x{ff1a}]|\s+[-+.]?\d)`)
	ansi   = late.Regexp("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")
)

// rewardLine finds the last line of an output that gives a reward; nil: there is none.
func rewardLine(w envs.World, res backends.Result) (*trajectory.Score, error) {
	text := res.Stdout
	cut := res.OutBytes > int64(len(text))
	if cut { // only behind the gap nothing is missing
		text = text[min(len(text), outputKept*4/10):]
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	if bytes.IndexByte(text, 0) >= 0 { // UTF-16 has a zero beside each letter
		text = bytes.ReplaceAll(text, []byte{0}, nil)
	}
	var last string
	given := map[string]bool{}
	for line := range bytes.FieldsFuncSeq(text, endsLine) {
		if !bytes.Contains(bytes.ToLower(line), []byte("reward")) {
			continue
		}
		plain := string(line)
		if nearly.MatchString(ansi.ReplaceAllString(plain, "")) {
			last = plain
			given[strings.TrimSpace(plain)] = true
		}
	}
	if len(given) > 1 {
		w.Suspect("verdict_line", "%d lines of the output give different rewards", len(given))
	}
	switch {
	case last == "" && cut:
		return nil, envs.Unjudged("checker: its output was cut (%d bytes): whether a line gave a reward is not known", res.OutBytes)
	case last == "":
		return nil, nil
	case res.Left > 0 && (cut || len(given) > 1):
		return nil, envs.Unjudged("checker: its output gives different rewards, and %d processes that could write to it were still running at its end", res.Left)
	}
	m := rewardAt.FindStringSubmatch(last)
	if m == nil {
		return nil, unread("checker: %q: want a line like reward: 0.5", last)
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, unread("checker: %q: want a finite number", last)
	}
	return &trajectory.Score{Reward: x, Detail: last}, nil
}

// unread is the error of a line that gives no reward; it says whether something is behind the
// word.
func unread(format, line string) error {
	said := envs.RewardWritten
	if blank.MatchString(ansi.ReplaceAllString(line, "")) {
		said = envs.RewardBlank
	}
	return &envs.NoVerdict{What: fmt.Sprintf(format, line), Reward: said}
}

// blank is a reward line without a reward.
var blank = late.Regexp(`(?i)reward["'\x60*_\])]*\s*[:=\x{ff1a}]?["'\x60*_\s]*$`)

// endsLine: a carriage return ends a line too, as a progress display writes it.
func endsLine(r rune) bool { return r == '\n' || r == '\r' }

// nearLines is how many lines at the end of an output may be meant as a reward.
const nearLines = 20

// nearBytes is how much of a line is looked at: a longer one is data.
const nearBytes = 4 << 10

const (
	// meant is what follows the word: a number, and nothing behind that.
	meant = `["'\x60*_>)\]]*\s*(?:[:=\x{ff1a}>]|->|=>|\x{2192}|\bis\b)\s*["'\x60*_]*` +
		`(?:[-+]?(?:\d|\.\d)[\d.,eE+-]*|[-+]?nan|[-+]?inf(?:inity)?|none|null)` +
		`(?:\s*(?:/|(?:out )?of)\s*\d[\d.]*)?["'\x60*_,;.!%)\]}\s]*(?:</\w+>)?\s*$`
	// before is what may stand before a score: marks of a logger, and words that make it final.
	before = `(?i)^(?:[^\pL]|\d[TZ]|\b(?:debug|info|notice|warn|warning|error|log|checker|grader|verifier|result|the|your|final|total|overall|task)\b)*\b(?:the|your|final|total|overall|task)?[_-]?`
)

var (
	// rewardWord is a reward behind other words, or in an object that ends with it.
	rewardWord = late.Regexp(`(?i)(?:^|[^\pL\pN])rewards?` + meant)
	// scoreWord is a score that names nothing that it measures: "F1 score: 0.9" is a measure.
	scoreWord = late.Regexp(before + `scores?` + meant)
	// rewardMember is an object, in JSON or as another language prints it, with a reward.
	rewardMember = late.Regexp(`(?i)^\s*\[?\{(?:.*[^\pL\pN])?["']rewards?["']\s*:.*\}\]?,?\s*$`)
)

// nearMiss finds the last line that gives a reward in a way that is not read: in other words,
// as an object, or on stderr. It looks at the end of each output; "": there is none. It is
// asked only where nothing gave a reward as it should.
func nearMiss(res backends.Result) string {
	for _, out := range [][]byte{res.Stdout, res.Stderr} {
		left := nearLines
		for end := len(out); end > 0 && left > 0; {
			start := 1 + bytes.LastIndexFunc(out[:end], endsLine)
			line := bytes.TrimSpace(out[start:end])
			end = start - 1
			if len(line) == 0 {
				continue
			}
			left--
			plain := ansi.ReplaceAllString(strings.ReplaceAll(string(line[:min(len(line), nearBytes)]), "\x00", ""), "")
			for _, r := range []*late.Pattern{nearly, rewardWord, scoreWord, rewardMember} {
				if r.MatchString(plain) {
					return short(string(line))
				}
			}
		}
	}
	return ""
}

// rewardFile reads the file of a checker's own: a number, or {reward, rewards, metrics,
// detail}; nil: nothing was written.
func rewardFile(raw []byte) (*trajectory.Score, error) {
	text := bytes.TrimSpace(raw)
	bad := func(err error) error {
		return envs.Unjudged("checker: $%s: %s: %v", rewardVariable, clip(text), err)
	}
	switch {
	case len(raw) > backends.MaxReport:
		return nil, envs.Unjudged("checker: $%s: more than %d bytes", rewardVariable, backends.MaxReport)
	case len(text) == 0:
		return nil, nil
	case text[0] != '{':
		if !plainNumber.Match(text) {
			return nil, bad(fmt.Errorf("want a number or {\"reward\": 0.5}"))
		}
		x, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return nil, bad(err)
		}
		return &trajectory.Score{Reward: x, Detail: string(text)}, nil
	}
	var v struct {
		Reward  *float64           `json:"reward"`
		Rewards map[string]measure `json:"rewards"`
		Metrics map[string]measure `json:"metrics"`
		Detail  string             `json:"detail"`
	}
	err := strictJSON(text, &v)
	if err == nil && v.Reward == nil {
		err = fmt.Errorf("no reward")
	}
	if err == nil {
		err = onceEach(text)
	}
	if err != nil {
		return nil, bad(err)
	}
	s := &trajectory.Score{Reward: *v.Reward, Detail: v.Detail, Parts: plainMap(v.Rewards), Metrics: plainMap(v.Metrics)}
	if s.Detail == "" {
		s.Detail = string(text)
	}
	return s, nil
}

var plainNumber = late.Regexp(`^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$`)

// measure is a number; true and false are 1 and 0.
type measure float64

func (m *measure) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "true":
		*m = 1
	case "false":
		*m = 0
	default:
		var x *float64
		if err := json.Unmarshal(raw, &x); err != nil || x == nil {
			return fmt.Errorf("%s: want a number", clip(raw))
		}
		*m = measure(*x)
	}
	return nil
}

func plainMap(in map[string]measure) map[string]float64 {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]float64, len(in))
	for k, v := range in {
		out[k] = float64(v)
	}
	return out
}

// onceEach refuses an object that has a key twice, and text behind it. Keys that differ in
// case alone are the same: the decoder takes the last one. Those inside are names of the
// checker's own choice, where f1 and F1 may be two.
func onceEach(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		fold := strings.ToLower(name)
		if seen[fold] {
			return fmt.Errorf("%s is given twice", name)
		}
		seen[fold] = true
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("more than one value")
	}
	return nil
}
