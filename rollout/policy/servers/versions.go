package servers

import (
	"encoding/json"

	"hermes/rollout/policy"
	"hermes/rollout/policy/loose"
	"hermes/trajectory"
)

// versionSpan is one run of tokens that the same weights sampled, as vLLM and SGLang tell
// it: [start, end) counts the tokens of the answer.
type versionSpan struct {
	Version    json.RawMessage `json:"version"`
	Start, End *int
}

// ReadVersions reads which weights sampled which tokens of an answer of n; nil where the
// server does not say. Some builds write the three values as a list.
func ReadVersions(raw json.RawMessage, n int) ([]trajectory.Span, error) {
	if !loose.Present(raw) {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, policy.Inexactf("weight_versions is no list: %.200q", raw)
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
			return nil, policy.Inexactf("weight_versions do not cover the %d tokens of the answer one after the other: %.200q", n, raw)
		}
		if v := loose.Plain(s.Version); *s.End > at || len(list) == 1 { // an answer without tokens has a version too
			spans = append(spans, trajectory.Span{From: at, Version: v})
		}
		at = *s.End
	}
	if len(spans) > 0 && at != n {
		return nil, policy.Inexactf("weight_versions do not cover the %d tokens of the answer one after the other: %.200q", n, raw)
	}
	return spans, nil
}
