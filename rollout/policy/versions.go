package policy

import (
	"encoding/json"
	"fmt"

	"hermes/trajectory"
)

// versionSpan is one run of tokens that the same weights sampled, as vLLM and SGLang tell
// it: [start, end) counts the tokens of the answer.
type versionSpan struct {
	Version    json.RawMessage `json:"version"`
	Start, End *int
}

// readVersions reads which weights sampled which tokens of an answer of n; nil where the
// server does not say. Some builds write the three values as a list.
func readVersions(raw json.RawMessage, n int) ([]trajectory.Span, error) {
	if !present(raw) {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, inexact("weight_versions is no list: %.200q", raw)
	}
	var spans []trajectory.Span
	at := 0
	for _, one := range list {
		var s versionSpan
		var err error
		if len(one) > 0 && one[0] == '[' {
			err = json.Unmarshal(one, &[]any{&s.Version, &s.Start, &s.End})
		} else {
			err = json.Unmarshal(one, &s)
		}
		if err != nil || s.Start == nil || s.End == nil || *s.Start != at || *s.End < at || *s.End > n {
			return nil, inexact("weight_versions do not cover the %d tokens of the answer one after the other: %.200q", n, raw)
		}
		if v := plainText(s.Version); *s.End > at || len(list) == 1 { // an answer without tokens has a version too
			spans = append(spans, trajectory.Span{From: at, Version: v})
		}
		at = *s.End
	}
	if len(spans) > 0 && at != n {
		return nil, inexact("weight_versions do not cover the %d tokens of the answer one after the other: %.200q", n, raw)
	}
	return spans, nil
}

// versions notes the weights of an answer that begins at the token at.
func (e *exact) versions(spans []trajectory.Span, got Completion, at int) ([]trajectory.Span, error) {
	list := got.Versions
	if len(list) == 0 && got.Version != "" {
		list = []trajectory.Span{{Version: got.Version}}
	}
	switch {
	case e.VersionFrom == FromNone:
		return nil, nil
	case len(list) == 0 && e.VersionFrom == FromServer:
		return nil, inexact("%s: the server tells no version of its weights; use --version-from none", e.Generator.Form())
	}
	for _, v := range list {
		if n := len(spans); n == 0 || spans[n-1].Version != v.Version {
			spans = append(spans, trajectory.Span{From: at + v.From, Version: v.Version})
		}
	}
	return spans, nil
}

// shifted are runs of tokens behind n others.
func shifted(runs []trajectory.Run, n int) []trajectory.Run {
	out := make([]trajectory.Run, len(runs))
	for i, r := range runs {
		out[i] = trajectory.Run{From: r.From + n, To: r.To + n}
	}
	return out
}

// tellMasked says once in a rollout that the server gave no log-probs for some tokens.
func (s *exactSampler) tellMasked(got Completion) {
	if s.bare || len(got.Masked) == 0 || s.o.Notes == nil {
		return
	}
	s.bare = true
	n := 0
	for _, r := range got.Masked {
		n += r.To - r.From
	}
	s.o.Notes(fmt.Sprintf("turn %d: the server told no log-prob for %d of %d tokens (of a character that is written with several, all but the last); they are recorded, and not trained", s.turn, n, len(got.Tokens)))
}
