package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Latency is how long an answer takes: the sum of a fixed time, a lognormal time, and
// times by the number of tokens. The zero value answers at once.
type Latency struct {
	Fixed      time.Duration
	Median     time.Duration // of the lognormal part
	Sigma      float64       // of the lognormal part; 0 makes it constant
	PromptRate float64       // prompt tokens a second; 0: prompts cost nothing
	TokenRate  float64       // answer tokens a second; 0: tokens cost nothing
}

// Validate refuses parts that are negative.
func (l Latency) Validate() error {
	if l.Fixed < 0 || l.Median < 0 || l.Sigma < 0 || l.PromptRate < 0 || l.TokenRate < 0 {
		return fmt.Errorf("latency %+v: no part may be negative", l)
	}
	return nil
}

// Spans returns the time to the first token and the time of generation.
func (l Latency) Spans(r *Dice, prompt, out int) (first, rest time.Duration) {
	first = l.Fixed
	if l.Median > 0 {
		z := math.Sqrt(-2*math.Log(1-r.Float())) * math.Cos(2*math.Pi*r.Float())
		first += time.Duration(float64(l.Median) * math.Exp(l.Sigma*z))
	}
	if l.PromptRate > 0 {
		first += time.Duration(float64(prompt) / l.PromptRate * float64(time.Second))
	}
	if l.TokenRate > 0 {
		rest = time.Duration(float64(out) / l.TokenRate * float64(time.Second))
	}
	return first, rest
}

// ParseLatency reads parts joined by "+": "200ms", "fixed:200ms", "lognormal:1s,0.5",
// "tokens:80" (answer tokens a second), "prompt:20000" (prompt tokens a second).
func ParseLatency(s string) (Latency, error) {
	var l Latency
	for part := range strings.SplitSeq(s, "+") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		kind, val, ok := strings.Cut(part, ":")
		if !ok {
			kind, val = "fixed", part
		}
		var err error
		switch kind {
		case "fixed":
			l.Fixed, err = time.ParseDuration(val)
		case "lognormal":
			median, sigma, _ := strings.Cut(val, ",")
			l.Median, err = time.ParseDuration(median)
			if err == nil && sigma != "" {
				l.Sigma, err = strconv.ParseFloat(sigma, 64)
			}
		case "tokens":
			l.TokenRate, err = strconv.ParseFloat(val, 64)
		case "prompt":
			l.PromptRate, err = strconv.ParseFloat(val, 64)
		default:
			err = fmt.Errorf("unknown kind %q (have fixed, lognormal, tokens, prompt)", kind)
		}
		if err != nil {
			return Latency{}, fmt.Errorf("latency %q: %w", s, err)
		}
	}
	return l, l.Validate()
}

// Dice is a small generator of random numbers (splitmix64).
type Dice struct{ state uint64 }

// NewDice returns a generator that begins at a seed.
func NewDice(seed uint64) Dice { return Dice{seed} }

func (d *Dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	return Mix(d.state)
}

// Float returns a number in [0, 1).
func (d *Dice) Float() float64 { return float64(d.next()>>11) / (1 << 53) }
