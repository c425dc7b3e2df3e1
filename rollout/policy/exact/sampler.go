package exact

import (
	"context"
	"errors"
	"fmt"

	"hermes/parsers/chattemplate"
	"hermes/rollout/policy"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// maxParts bounds how often one answer is taken up again after the server aborted it.
const maxParts = 1000

// errTemplate says that the template cannot render a conversation.
var errTemplate = errors.New("chat template")

// sampler asks for one rollout. It is used by one goroutine at a time.
type sampler struct {
	p      *exact
	o      policy.Options
	key    string
	tools  []trajectory.ToolSpec
	line   servers.Line
	prompt *prompt
	cache  map[string][]trajectory.Token // spellings of special pieces

	path  []trajectory.NodeID // what msgs holds
	msgs  []trajectory.Message
	calls int  // made in msgs
	turn  int  // answers so far, abandoned ones too: equal requests of different turns differ
	think bool // the prompt opened a block of reasoning
	noted bool
	bare  bool // tokens without log-probs were reported

	rendered, tokenized int64
}

// Counts implements policy.Counting.
func (s *sampler) Counts() policy.Counts {
	return policy.Counts{Rendered: s.rendered, Tokenized: s.tokenized, Encoded: s.prompt.spelled, Sent: s.prompt.sent.Load()}
}

// Close gives the sampler's memory back.
func (s *sampler) Close() error {
	s.line = nil
	s.msgs = nil
	s.path = nil
	s.cache = nil
	s.prompt.cut(0)
	return nil
}

// Next asks for the next turn. The answer does not stream: on sees it whole.
func (s *sampler) Next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk)) (trajectory.Turn, error) {
	return s.next(ctx, p, pending, on, false)
}

// Stored answers from the tape or not at all: wire.ErrNotTaped.
func (s *sampler) Stored(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk)) (trajectory.Turn, error) {
	return s.next(ctx, p, pending, on, true)
}

func (s *sampler) next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk), taped bool) (trajectory.Turn, error) {
	if s.line == nil {
		return trajectory.Turn{}, errors.New("the sampler is closed")
	}
	if len(pending) == 0 {
		return trajectory.Turn{}, errors.New("exact policy: no new message to answer")
	}
	s.follow(p)
	turn := trajectory.Turn{}
	given, err := s.extend(p, pending)
	if errors.Is(err, chattemplate.ErrRewrites) {
		turn.Fork = true
		given, err = s.fork(pending, err)
	}
	if err != nil {
		return trajectory.Turn{}, err
	}
	turn.Given = given
	got, spans, err := s.sample(ctx, taped)
	if err != nil {
		return trajectory.Turn{}, err
	}
	if err := s.fresh(p, turn.Fork, spans); err != nil {
		return trajectory.Turn{}, err
	}
	if err := s.finish(&turn, got, spans); err != nil {
		return trajectory.Turn{}, err
	}
	if on != nil {
		m := turn.Sampled.Message
		on(policy.Chunk{Reasoning: m.Reasoning, Content: m.Content()})
	}
	return turn, nil
}

// follow makes prompt and messages those of the path: what a rewind left is cut, what was
// committed is taken from the trace.
func (s *sampler) follow(p trajectory.Prefix) {
	n := p.Len()
	for i := range n {
		if i < len(s.path) {
			if s.path[i] == p.ID(i) {
				continue
			}
			s.forget(i)
		}
		id, node := p.Node(i)
		s.prompt.hold(i, id, node.Delta.Tokens)
		s.path, s.msgs = append(s.path, id), append(s.msgs, node.Delta.Message)
		s.calls += len(node.Delta.Message.Calls)
	}
	s.forget(n)
}

func (s *sampler) forget(i int) {
	if i >= len(s.path) {
		return
	}
	for _, m := range s.msgs[i:] {
		s.calls -= len(m.Calls)
	}
	s.path, s.msgs = s.path[:i], s.msgs[:i]
	s.prompt.cut(i)
}

// extend renders what is new behind the path and makes it the end of the prompt.
func (s *sampler) extend(p trajectory.Prefix, pending []trajectory.Message) ([]trajectory.Delta, error) {
	n := p.Len()
	if n == 0 {
		pieces, err := s.p.Renderer.Prompt(pending, s.tools)
		if err != nil {
			return nil, &policy.Error{Kind: policy.Rejected, Err: fmt.Errorf("%w: %w", errTemplate, err)}
		}
		return s.hold(nil, pieces, pending)
	}
	last, ok := s.prompt.last()
	if _, node := p.Node(n - 1); !ok || !node.Sampled() {
		return nil, chattemplate.ErrRewrites // a head between the messages of a turn
	}
	pieces, err := s.p.Renderer.Bridge(s.msgs, s.p.ending(last), pending, s.tools)
	if errors.Is(err, chattemplate.ErrRewrites) {
		return nil, err
	}
	if err != nil {
		return nil, &policy.Error{Kind: policy.Rejected, Err: fmt.Errorf("%w: %w", errTemplate, err)}
	}
	return s.hold(&last, pieces, pending)
}

// fork renders the whole conversation again: a new root. Nothing of it was sampled.
func (s *sampler) fork(pending []trajectory.Message, why error) ([]trajectory.Delta, error) {
	if !s.noted && s.o.Notes != nil {
		s.noted = true
		s.o.Notes(fmt.Sprintf("turn %d: the conversation is rendered again as a fork: %v", s.turn, why))
	}
	all := append(append([]trajectory.Message{}, s.msgs...), pending...)
	s.prompt.cut(0)
	s.path = nil
	s.msgs = nil
	s.calls = 0
	pieces, err := s.p.Renderer.Prompt(all, s.tools)
	if err != nil {
		return nil, &policy.Error{Kind: policy.Rejected, Err: fmt.Errorf("%w: %w", errTemplate, err)}
	}
	return s.hold(nil, pieces, all)
}

// hold tokenizes pieces and puts them behind the path.
func (s *sampler) hold(after *trajectory.Token, pieces []chattemplate.Piece, msgs []trajectory.Message) ([]trajectory.Delta, error) {
	for _, p := range pieces {
		s.rendered += int64(len(p.Text))
	}
	lists, bytes, err := s.p.encode(s.cache, after, pieces, len(msgs))
	s.tokenized += int64(bytes)
	if err != nil {
		return nil, &policy.Error{Kind: policy.Rejected, Err: err}
	}
	s.think = opensThought(pieces)
	given := make([]trajectory.Delta, len(msgs))
	for i, m := range msgs {
		given[i] = trajectory.Delta{Message: m, Tokens: lists[i], Given: len(lists[i])}
		s.prompt.hold(len(s.path)+i, trajectory.None, lists[i])
	}
	s.prompt.cut(len(s.path) + len(msgs))
	return given, nil
}

// sample asks until the answer ends. An answer that the server aborted, for a change of
// its weights, is taken up again behind its tokens: no fault, and nothing is lost.
func (s *sampler) sample(ctx context.Context, taped bool) (servers.Completion, []trajectory.Span, error) {
	var sum servers.Completion
	var spans []trajectory.Span
	base := len(s.prompt.at)
	defer func() { s.prompt.cut(base) }()
	var seed *uint64
	if s.o.Seed != nil {
		n := s.prompt.sum.TurnSeed(*s.o.Seed, s.turn)
		seed = &n
	}
	for part := 0; ; part++ {
		limit, err := s.p.limit(s.o, s.prompt.Len(), len(sum.Tokens))
		if err != nil && len(sum.Tokens) > 0 { // aborted at the very end of the context
			sum.Finish = trajectory.FinishLength
			return sum, spans, nil
		}
		if err != nil {
			return sum, nil, err
		}
		got, err := s.line.Generate(ctx, s.prompt, servers.Ask{Limit: limit, Seed: seed, Digest: s.prompt.digest(s.turn, part, seed), Taped: taped})
		if part > 0 && ctx.Err() != nil {
			sum.Finish = trajectory.FinishAborted
			return sum, spans, nil
		}
		if err != nil {
			if part > 0 && errors.Is(err, wire.ErrNotTaped) {
				taped, part = false, part-1 // the first part is on the tape: the rest is bought
				continue
			}
			return sum, nil, err
		}
		spans, err = s.p.versions(spans, got, len(sum.Tokens))
		if err != nil {
			return sum, nil, err
		}
		sum = joined(sum, got)
		if got.Finish != trajectory.FinishAborted {
			return sum, spans, nil
		}
		if part >= maxParts {
			return sum, nil, &policy.Error{Kind: policy.Unavailable, Err: fmt.Errorf("the server aborted one answer %d times", part+1)}
		}
		s.prompt.goOn(got.Tokens)
	}
}

// fresh refuses an answer whose weights are too far from those of earlier tokens.
func (s *sampler) fresh(p trajectory.Prefix, fork bool, spans []trajectory.Span) error {
	if s.p.MaxStaleness == 0 || len(spans) == 0 {
		return nil
	}
	newest := spans[len(spans)-1].Version
	check := func(list []trajectory.Span) error {
		for _, v := range list {
			if n := apart(v.Version, newest); n > s.p.MaxStaleness {
				return &policy.Error{Kind: policy.Stale, Err: fmt.Errorf("tokens of weights %s and %s in one rollout: %d versions apart, at most %d are allowed", v.Version, newest, n, s.p.MaxStaleness)}
			}
		}
		return nil
	}
	for i := range p.Len() {
		if fork {
			break // its tokens are given, not sampled
		}
		if _, node := p.Node(i); node.Sampled() {
			if err := check(node.Delta.Versions); err != nil {
				return err
			}
		}
	}
	return check(spans)
}

// finish makes a turn of the sampled tokens.
func (s *sampler) finish(turn *trajectory.Turn, got servers.Completion, spans []trajectory.Span) error {
	r, err := s.read(got)
	if err != nil {
		return err
	}
	if g, ok := s.p.Generator.(interface{ Leaks() *wire.Leaks }); ok {
		if err := leaked(g.Leaks(), r.message); err != nil {
			return err
		}
	}
	before, asked := s.prompt.committed(len(s.path)), s.prompt.Len()
	turn.Sampled = trajectory.Delta{Message: r.message, Tokens: got.Tokens, LogProbs: got.LogProbs, Masked: got.Masked, Versions: spans}
	s.tellMasked(got)
	if !s.p.Capture.Empty() {
		turn.Sampled.Extras, err = s.p.Capture.Blocks(got, before, asked+len(got.Tokens), s.o.Put)
		if err != nil {
			return err
		}
	}
	turn.Finish, turn.Faults = got.Finish, r.faults
	if got.Finish == trajectory.FinishStop && len(r.message.Calls) > 0 {
		turn.Finish = trajectory.FinishCalls
	}
	s.prompt.hold(len(s.prompt.at), trajectory.None, got.Tokens)
	s.turn++
	turn.Model, turn.Took, turn.Replayed = got.Model, got.Took, got.Replayed
	turn.Usage = s.p.Price.Charge(trajectory.Usage{Prompt: int64(asked), Completion: int64(len(got.Tokens)), Reasoning: int64(r.thought), Cached: got.Cached})
	s.p.Budget.Spend(turn.Usage)
	return nil
}
