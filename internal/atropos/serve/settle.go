package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hermes/internal/atropos/client"
	"hermes/internal/atropos/encode"
	"hermes/internal/atropos/shape"
	"hermes/rollout/sink"
	"hermes/trajectory"
)

// mostFills bounds how many samples are rolled out for one group: this many times its size.
const mostFills = 3

// room is where one settler makes its groups, one after the other: as garbage a group's lists
// and its JSON would be a quarter of all that is allocated.
type room struct {
	lists encode.Room
	json  []byte
}

// maxJSON bounds what a room keeps of a large group, in bytes.
const maxJSON = 16 << 20

// settle shapes a complete group and sends it, drops it with a reason, or asks for more
// samples.
func (s *Server) settle(ctx context.Context, g *group, in *room) {
	in.lists.Reset()
	if s.old(g) {
		s.settled(ctx, g, "rewound")
		return
	}
	slices.SortFunc(g.recs, func(a, b *trajectory.Record) int { return cmp.Compare(a.Sample, b.Sample) })
	recs, encoded := s.usable(g, in)
	fin, err := s.finished(ctx, g, recs)
	if err != nil {
		s.o.Log.Warn("a group cannot be scored", "group", g.name, "err", err)
		s.settled(ctx, g, "unscored")
		return
	}
	samples := make([]shape.Sample, len(recs))
	for i, r := range recs {
		samples[i] = shape.Sample{Reward: fin.Scores[i].Reward, Truncated: r.Outcome == trajectory.Truncated, Length: encoded[i].Sampled}
	}
	out := s.o.Rules.Group(samples, s.o.GroupSize, shape.Chances{
		Fill: g.sample < mostFills*(s.o.GroupSize+s.o.Rules.Oversample), Resample: g.again < s.o.Rules.Again()})
	s.met.dropSamples(g.env, "truncated", out.Dropped)
	switch out.Verdict {
	case shape.Fill, shape.Resample:
		g.recs = slices.DeleteFunc(recs, func(r *trajectory.Record) bool { // what was left out is counted already
			return r.Outcome == trajectory.Truncated && s.o.Rules.Truncated == "drop"
		})
		s.again(g, out)
		return
	case shape.Drop:
		s.settled(ctx, g, out.Why)
		return
	}
	s.met.dropSamples(g.env, "surplus", out.Surplus)
	wire, err := s.wire(g, recs, encoded, fin, samples, out)
	if err != nil {
		s.o.Log.Warn("a group cannot be sent", "group", g.name, "err", err)
		s.settled(ctx, g, "invalid")
		return
	}
	s.deliver(ctx, g, wire, out, samples, in)
}

// old reports whether the trainer has gone back behind a group.
func (s *Server) old(g *group) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.gen != s.gen
}

// usable leaves the samples that can train: with a score, with exact tokens, not longer
// than the trainer takes.
func (s *Server) usable(g *group, in *room) (recs []*trajectory.Record, list []encode.Sequence) {
	s.mu.Lock()
	maxLen := s.maxLen
	s.mu.Unlock()
	for _, r := range g.recs {
		why := ""
		var x encode.Sequence
		switch {
		case r.Outcome.Failure():
			why = "failed_" + string(r.Outcome)
		case r.Score == nil:
			why = "unscored"
		case math.IsNaN(r.Score.Reward) || math.IsInf(r.Score.Reward, 0):
			why = "not_finite"
		case r.Trace == nil || r.Trace.Mode != trajectory.ModeExact:
			why = "not_exact"
		default:
			why = s.encode(g, r, maxLen, &x, in)
		}
		if why != "" {
			s.met.dropSamples(g.env, why, 1)
			continue
		}
		recs, list = append(recs, r), append(list, x)
	}
	return recs, list
}

func (s *Server) encode(g *group, r *trajectory.Record, maxLen int, x *encode.Sequence, in *room) (why string) {
	*x = in.lists.Sample(r.Trace)
	s.met.forks(g.env, x.Left)
	switch n := len(x.Tokens); {
	case x.Sampled == 0:
		return "empty"
	case maxLen > 0 && n >= maxLen: // as Atropos' environments count
		return "too_long"
	}
	return ""
}

// finished lets the environment look at the group as a whole.
func (s *Server) finished(ctx context.Context, g *group, recs []*trajectory.Record) (f Finished, err error) {
	if g.env.Finish == nil || len(recs) == 0 {
		for _, r := range recs {
			f.Scores = append(f.Scores, *r.Score)
		}
		return f, nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the environment panicked: %v", p)
		}
	}()
	f, err = g.env.Finish(ctx, g.row, recs)
	if err != nil {
		return f, err
	}
	if len(f.Scores) != len(recs) || len(f.Notes) != 0 && len(f.Notes) != len(recs) {
		return f, fmt.Errorf("%d scores and %d annotations for %d samples", len(f.Scores), len(f.Notes), len(recs))
	}
	for i, x := range f.Scores {
		if math.IsNaN(x.Reward) || math.IsInf(x.Reward, 0) {
			return f, fmt.Errorf("sample %d has the reward %v", recs[i].Sample, x.Reward)
		}
	}
	return f, nil
}

// wire is the group as it is sent, but for the number of its environment.
func (s *Server) wire(g *group, recs []*trajectory.Record, list []encode.Sequence, fin Finished, samples []shape.Sample, out shape.Result) (w encode.ScoredDataGroup, err error) {
	w.GroupOverrides = map[string]any{"group_size": len(out.Samples), "row": g.row.ID, "epoch": g.at.Epoch}
	maps.Copy(w.GroupOverrides, fin.Group)
	w.GenerationParams = s.o.Generation
	notes := make([]Annotation, len(recs))
	copy(notes, fin.Notes)
	ref, distill := 0, 0
	for _, x := range out.Samples {
		o, n := list[x.Index], notes[x.Index]
		tokens := o.Tokens
		masks := o.Masks
		probs := o.Logprobs
		if math.IsNaN(x.Score) || math.IsInf(x.Score, 0) || math.IsNaN(x.Advantage) || math.IsInf(x.Advantage, 0) {
			return w, fmt.Errorf("sample %d has the score %v and the advantage %v after shaping", recs[x.Index].Sample, x.Score, x.Advantage)
		}
		if err := n.check(len(tokens)); err != nil {
			return w, fmt.Errorf("sample %d: %w", recs[x.Index].Sample, err)
		}
		hints := map[string]any{}
		maps.Copy(hints, n.Overrides)
		hints["raw_score"] = samples[x.Index].Reward
		if o.Versions != nil {
			hints["weight_versions"] = o.Versions
		}
		if s.o.Rules.Advantages != "none" {
			w.Advantages = append(w.Advantages, spread(x.Advantage, masks))
		}
		if x.Masked { // both kinds of trainers: those that read masks and those that read log-probs
			hints["set_advantage_to_zero"] = true
			masks, probs = slices.Repeat([]trajectory.Token{encode.Ignored}, len(tokens)), slices.Repeat([]encode.Logprob{encode.NotSampled}, len(tokens))
		}
		w.Tokens = append(w.Tokens, tokens)
		w.Masks = append(w.Masks, masks)
		w.InferenceLogprobs = append(w.InferenceLogprobs, probs)
		w.Scores, w.Overrides = append(w.Scores, x.Score), append(w.Overrides, hints)
		if s.o.Messages {
			w.Messages = append(w.Messages, sink.Chat(recs[x.Index].Trace.Visible()))
		}
		if n.RefLogProbs != nil {
			w.RefLogprobs, ref = append(w.RefLogprobs, n.RefLogProbs), ref+1
		}
		if n.DistillTokens != nil {
			w.DistillTokenIDs = append(w.DistillTokenIDs, n.DistillTokens)
			w.DistillLogprobs = append(w.DistillLogprobs, n.DistillLogProbs)
			distill++
		}
	}
	if n := len(out.Samples); ref != 0 && ref != n || distill != 0 && distill != n {
		return w, fmt.Errorf("reference log-probs for %d and distillation for %d of %d samples: want all or none", ref, distill, n)
	}
	return w, nil
}

// check holds an annotation against its sequence.
func (a Annotation) check(tokens int) error {
	if a.RefLogProbs != nil && len(a.RefLogProbs) != tokens {
		return fmt.Errorf("%d reference log-probs for %d tokens", len(a.RefLogProbs), tokens)
	}
	if len(a.DistillTokens) != len(a.DistillLogProbs) || a.DistillTokens != nil && len(a.DistillTokens) != tokens {
		return fmt.Errorf("%d lists of tokens and %d of log-probs for distillation, for %d tokens", len(a.DistillTokens), len(a.DistillLogProbs), tokens)
	}
	for i, list := range a.DistillTokens {
		if len(list) != len(a.DistillLogProbs[i]) {
			return fmt.Errorf("token %d has %d tokens and %d log-probs for distillation", i, len(list), len(a.DistillLogProbs[i]))
		}
	}
	return nil
}

// spread gives the advantage of a sample to each of its trained tokens.
func spread(a float64, masks []trajectory.Token) []float64 {
	out := make([]float64, len(masks))
	for i, m := range masks {
		if m != encode.Ignored {
			out[i] = a
		}
	}
	return out
}

// again puts a group into the backlog: for more samples of the same row, or again.
func (s *Server) again(g *group, out shape.Result) {
	if out.Verdict == shape.Resample {
		s.drop(g, "resampled")
		s.useless(g, out.Why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.groups, g.name)
	n := out.Missing
	if out.Verdict == shape.Resample {
		g.again++
		g.sample = 0
		g.recs = nil
		n = s.o.GroupSize + s.o.Rules.Oversample
	} else {
		s.met.filled(g.env, n)
	}
	s.enter(g, n)
	s.backlog = append(s.backlog, g)
	s.changed()
}

// patience is how many groups of an environment in a row may yield nothing to send before
// that is reported, and the other environments go on without it.
const patience = 10

// streak is how many posts in a row a server may refuse before the run is stopped.
const streak = 3

// postTries is how often a post is sent that the server has refused with a status of 500 or
// more.
const postTries = 3

// key is the name under which the row of a group is posted. It is the same in every start
// until the trainer goes back, so that hermes' own server takes a row once; with other rows
// in its place it is another one.
func (s *Server) key(g *group) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%s/%s/%d.%d/%s", s.series, g.env.Name, g.at.Epoch, g.at.Row, trajectory.NewKey(g.row.ID, int(g.at.Epoch), 0, 0))
}

// deliver posts a group: once the server has it, or may have it, it is not sent again,
// unless the server knows posts by their keys.
func (s *Server) deliver(ctx context.Context, g *group, w encode.ScoredDataGroup, out shape.Result, samples []shape.Sample, in *room) {
	key := s.key(g)
	unsure := false
	raw := []byte(nil)
	drop := func(why string) {
		if unsure {
			s.sent(ctx, g, w, raw, out, samples, "unknown")
		} else {
			s.settled(ctx, g, why)
		}
	}
	for refused, try := 0, 1; ; try++ {
		id, err := s.session(ctx, g.env)
		if err != nil {
			drop("unsent")
			return
		}
		if s.old(g) {
			drop("rewound")
			return
		}
		// A group that reaches a restarted server before its trainer does makes Atropos' own
		// one useless until it is reset: it is asked right before each post.
		if _, err := s.c.Status(ctx, id); err != nil {
			s.suspect()
			s.c.Wait(ctx, try, 0)
			continue
		}
		w.EnvID = &id
		raw, err = w.AppendJSON(slices.Grow(in.json[:0], w.Room()))
		in.json = raw
		if cap(raw) > maxJSON {
			in.json = nil
		}
		if err != nil {
			s.o.Log.Warn("a group cannot be written", "group", g.name, "err", err)
			s.settled(ctx, g, "invalid")
			return
		}
		p, err := s.c.Post(ctx, key, raw)
		var e *client.Error
		switch {
		case err == nil && p.Again && !unsure:
			s.o.Log.Info("the server has this row from a start that was killed: its group counts, and this one does not", "group", g.name)
			s.arrived(ctx, g)
			return
		case err == nil:
			s.mu.Lock()
			s.rejected = 0
			s.mu.Unlock()
			s.sent(ctx, g, w, raw, out, samples, "sent")
			return
		case client.FateOf(err) == client.Unknown && s.c.Keyed():
			s.o.Log.Info("it is not known whether a group arrived: it is sent again under its key", "group", g.name, "err", err)
			unsure = true
		case client.FateOf(err) == client.Unknown:
			s.o.Log.Warn("it is not known whether a group arrived: it is not sent again", "group", g.name, "err", err)
			s.suspect()
			s.sent(ctx, g, w, raw, out, samples, "unknown")
			return
		case errors.As(err, &e) && e.Busy():
			s.o.Log.Info("the trajectory server is full: the group waits", "group", g.name)
			s.c.Wait(ctx, try, e.After)
			continue
		case errors.As(err, &e) && e.Status >= 400 && e.Status < 500:
			s.reject(ctx, g, err)
			return
		}
		s.suspect()
		if errors.As(err, &e) && e.Status >= 500 {
			refused++
			if refused >= postTries {
				s.reject(ctx, g, err)
				return
			}
		}
		s.c.Wait(ctx, try, 0)
	}
}

// reject drops a group that the server does not take; several in a row stop the run, for
// the next one would fare no better.
func (s *Server) reject(ctx context.Context, g *group, err error) {
	s.o.Log.Warn("the trajectory server refused a group", "group", g.name, "err", err)
	s.settled(ctx, g, "rejected")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected++
	if s.rejected >= streak {
		s.stop(fmt.Errorf("the trajectory server refused %d groups in a row, the last with: %w", s.rejected, err))
	}
}

// sent books a group that the server has, or may have.
func (s *Server) sent(ctx context.Context, g *group, w encode.ScoredDataGroup, raw []byte, out shape.Result, samples []shape.Sample, how string) {
	s.met.sent(g.env, g, w, out, samples, how, s.limit(), s.now())
	if err := s.file.sent(g, w, raw, out, samples, how, s.now()); err != nil {
		s.stop(err)
	}
	s.close(ctx, g, true)
}

// arrived books a group that is not sent, because an earlier start has sent its row and was
// killed before it could write that down.
func (s *Server) arrived(ctx context.Context, g *group) {
	s.drop(g, "arrived")
	s.close(ctx, g, true)
}

// drop books samples of a row that are not sent: a line, and the count of their reason.
func (s *Server) drop(g *group, why string) {
	s.met.drop(g.env, why)
	if err := s.file.dropped(g, why, s.now()); err != nil {
		s.stop(err)
	}
}

// settled books a group that is not sent.
func (s *Server) settled(ctx context.Context, g *group, why string) {
	s.drop(g, why)
	s.met.failed(g.env, g.took())
	if why == "unsent" { // its row is served again by the next start
		s.mu.Lock()
		delete(s.groups, g.name)
		s.mu.Unlock()
		return
	}
	if why != "rewound" {
		s.useless(g, why)
	}
	s.close(ctx, g, false)
}

// useless counts groups in a row that no trainer can use. Where nothing else comes for long,
// every reward is the same, say, more of them would come for ever.
func (s *Server) useless(g *group, why string) {
	if s.o.MaxStale <= 0 {
		return
	}
	s.mu.Lock()
	if s.stale == 0 {
		s.reasons = map[string]int64{}
	}
	s.stale++
	s.reasons[why]++
	enough, reasons := s.stale == s.o.MaxStale, maps.Clone(s.reasons)
	s.mu.Unlock()
	if !enough {
		return
	}
	var list []string
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, fmt.Sprintf("%s %d", why, reasons[why]))
	}
	text := fmt.Sprintf("no trainer can use the last %d groups (%s), and --max-stale-groups allows no more", s.o.MaxStale, strings.Join(list, ", "))
	if a := advice(reasons, s.Totals().Envs[g.env.Name].Samples); a != "" {
		text += "; " + a
	}
	s.stop(fmt.Errorf("%w: %s", ErrStale, text))
}

// close takes a group out of flight and keeps the place.
func (s *Server) close(ctx context.Context, g *group, sent bool) {
	s.mu.Lock()
	delete(s.groups, g.name)
	if g.gen == s.gen {
		g.env.place.settle(g.at, sent)
	}
	warn := false
	if sent {
		g.env.sent++
		g.env.posted++
		g.env.dry = 0
		s.stale = 0
	} else {
		g.env.dry++
		if g.env.dry >= patience {
			g.env.extra++
			n := g.env.dry / patience
			warn = g.env.dry%patience == 0 && n&(n-1) == 0 // ever more seldom: a dry hour is one line, not thousands
		}
	}
	s.changed()
	dry, maxLen := g.env.dry, s.maxLen
	s.mu.Unlock()
	if warn {
		t := s.Totals().Envs[g.env.Name]
		s.o.Log.Warn("nothing of an environment could be sent for a while", "env", g.env.Name, "groups", dry, "dropped", t.Dropped, "samples", t.Samples,
			"longest sequence", maxLen, "advice", advice(t.Dropped, t.Samples))
	}
	if err := s.keep(ctx, false); err != nil {
		s.stop(err)
	}
}

// advice says what to change where groups of these many reasons, and samples of them, could
// not be sent.
func advice(groups, samples map[string]int64) string {
	var out []string
	for _, x := range []struct {
		why, text string
		in        map[string]int64
	}{
		{"equal", "another difficulty, a larger --group-size, or --equal-scores send", groups},
		{"masked", "a larger --max-tokens or --max-turns, or training.truncated: score", groups},
		{"truncated", "a larger --max-tokens or --max-turns, or training.truncated: score", samples},
		{"too_long", "a smaller --max-tokens or --max-turns, or a larger max_token_len of the trainer", samples},
		{"failed_environment", "failed_trajectories.jsonl of the run directory says what the environment raised", samples},
		{"unscored", "the environment gives no score: see its log", samples},
	} {
		if x.in[x.why] > 0 {
			out = append(out, x.why+": "+x.text)
		}
	}
	return strings.Join(out, "; ")
}

func (s *Server) now() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step
}

func (s *Server) limit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxLen
}

// took is how long a group has been in flight.
func (g *group) took() time.Duration { return time.Since(g.started) }
