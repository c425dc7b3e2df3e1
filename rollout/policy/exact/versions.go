package exact

import (
	"fmt"

	"hermes/rollout/policy"
	"hermes/rollout/policy/servers"
	"hermes/trajectory"
)

// versions notes the weights of an answer that begins at the token at.
func (e *exact) versions(spans []trajectory.Span, got servers.Completion, at int) ([]trajectory.Span, error) {
	list := got.Versions
	if len(list) == 0 && got.Version != "" {
		list = []trajectory.Span{{Version: got.Version}}
	}
	switch {
	case e.VersionFrom == FromNone:
		return nil, nil
	case len(list) == 0 && e.VersionFrom == FromServer:
		return nil, policy.Inexactf("%s: the server tells no version of its weights; use --version-from none", e.Generator.Form())
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
func (s *sampler) tellMasked(got servers.Completion) {
	if s.bare || len(got.Masked) == 0 || s.o.Notes == nil {
		return
	}
	s.bare = true
	n := 0
	for _, r := range got.Masked {
		n += r.To - r.From
	}
	s.o.Notes(fmt.Sprintf("turn %d: the server sent no log-prob for %d of %d tokens (of a character that is written with several, all but the last); they are recorded, and not trained", s.turn, n, len(got.Tokens)))
}

// joined is an answer with what follows it.
func joined(c, next servers.Completion) servers.Completion {
	if c.Tokens == nil {
		return next
	}
	took := c.Took + next.Took
	next.Tokens = append(c.Tokens, next.Tokens...)
	next.LogProbs = append(c.LogProbs, next.LogProbs...)
	next.Top = append(c.Top, next.Top...)
	next.Masked = append(c.Masked, shifted(next.Masked, len(c.Tokens))...)
	next.Cached, next.Took, next.Replayed = c.Cached, took, c.Replayed && next.Replayed
	return next
}
