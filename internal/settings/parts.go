package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hermes/rollout/policy"
)

// PartsFlags are the flags that model, boxes and tools are made from, by the groups of the help.
type PartsFlags struct {
	ModelFlags    `group:"Model and server:"`
	SamplingFlags `group:"Sampling:"`
	ProviderFlags `group:"OpenRouter:"`
	ToolFlags     `group:"Tools and boxes:"`
	BudgetFlags   `group:"Budget and price:"`
	ExactFlags    `group:"Exact tokens:"`
}

// Models that are part of hermes, by the name that --model gives them.
const (
	Scripted = "scripted" // it plays the scripts of the rows
	Oracle   = "oracle"   // it plays each task of an environment perfectly
)

// NoTools is what --toolsets names to have none at all.
const NoTools = "none"

// Parts is what model, boxes and tools are made from: the flags, and what the command
// decides.
type Parts struct {
	PartsFlags
	Embedded bool                     // the scripted model answers, on a port of this process
	Oracle   bool                     // with the environment's own solutions
	Prices   map[string]*policy.Price // by model; "": the run's own
	Limits   policy.Limits

	RunDir   string // of a run; empty: none
	Offline  bool   // the hub is not asked
	Requests int    // to the model at once
	Watch    bool   // follow the length of the server's queue
	Seed     int64
	Usual    []string // toolsets where the flags name none; nil: those of hermes
}

// NewParts reads the flags. env: the tasks are an environment's, which may have an oracle.
func NewParts(f PartsFlags, env bool) (p Parts, err error) {
	p = Parts{PartsFlags: f, Oracle: env && f.Model == Oracle, Limits: policy.Limits{USD: f.BudgetUSD, Tokens: f.BudgetTokens, Time: f.BudgetTime}}
	if p.Oracle {
		p.Model = Scripted
	}
	p.Embedded = p.Model == Scripted
	if p.Embedded {
		if len(f.BaseURL) > 0 {
			return p, fmt.Errorf("--model %s is embedded: leave --base-url out", f.Model)
		}
		if p.Exact {
			p.ExactFlags.Builtins()
		}
	}
	if f.ExtraBody != "" && !isObject(f.ExtraBody) {
		return p, fmt.Errorf("--extra-body %q: want a JSON object", f.ExtraBody)
	}
	p.Prices, err = parsePrices(f.Price)
	return p, err
}

// CheckModel refuses what no server could make good.
func (p Parts) CheckModel() error {
	switch {
	case p.Cassette != "" && p.Record != "":
		return errors.New("--record with --cassette: there is nothing new to record")
	case p.Cassette != "" && (p.Model == "" || p.Model == "auto"):
		return errors.New("--cassette: give --model NAME, the name that was recorded; no server is asked for it")
	case p.Model == "":
		return errors.New("no model: give --model NAME and --base-url URL, or --model scripted for the embedded one")
	}
	return nil
}

// Options are what every request carries.
func (b SamplingFlags) Options() policy.Options {
	return policy.Options{MaxTokens: b.MaxTokens, Temperature: b.Temperature, TopP: b.TopP, TopK: b.TopK, MinP: b.MinP, Stop: b.Stop, ReasoningEffort: b.ReasoningEffort}
}

// Generation are the sampling parameters that were sent. Exact requests name all of them.
func (b PartsFlags) Generation() map[string]any {
	g := map[string]any{}
	if b.Exact {
		g["temperature"] = 1.0
		g["top_p"] = 1.0
		g["top_k"] = -1
		g["min_p"] = 0.0
	}
	if b.Temperature != nil {
		g["temperature"] = *b.Temperature
	}
	if b.TopP != nil {
		g["top_p"] = *b.TopP
	}
	if b.TopK != nil && (!b.Exact || *b.TopK > 0) {
		g["top_k"] = *b.TopK
	}
	if b.MinP != nil {
		g["min_p"] = *b.MinP
	}
	if b.MaxTokens > 0 {
		g["max_tokens"] = b.MaxTokens
	}
	return g
}

// parsePrices maps model names to what they cost; "" is the run's own model.
func parsePrices(list []string) (map[string]*policy.Price, error) {
	prices := map[string]*policy.Price{}
	for _, text := range list {
		name, value := "", text
		if i := strings.LastIndexByte(text, '='); i >= 0 {
			name, value = text[:i], text[i+1:]
		}
		p, err := parsePrice(value)
		if err != nil {
			return nil, err
		}
		if prices[name] != nil {
			return nil, fmt.Errorf("--price %q: the model has a price already", text)
		}
		prices[name] = p
	}
	return prices, nil
}

func parsePrice(text string) (*policy.Price, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) != 2 && len(parts) != 3 {
		return nil, fmt.Errorf("--price %q: want IN,OUT or IN,OUT,CACHED in dollars per million tokens", text)
	}
	var f [3]float64
	for i, p := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("--price %q: %q is no price", text, p)
		}
		f[i] = v
	}
	price := &policy.Price{Prompt: f[0], Completion: f[1]}
	if len(parts) == 3 {
		price.Cached = &f[2]
	}
	return price, nil
}

func isObject(text string) bool {
	var v map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &v) == nil
}
