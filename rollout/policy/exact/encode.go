package exact

import (
	"fmt"
	"slices"
	"strings"

	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// encode tokenizes pieces and says which tokens belong to which of n messages; bytes is
// the length of what was tokenized.
//
// All text is tokenized at once, behind the spelling of the token that is before it,
// because tokenizers look across the borders of control tokens (stripped white space, a
// mark at the first word). Where a message spells a control token this way would give
// that token; the pieces are then tokenized one by one and the spelling stays text.
func (e *exact) encode(cache map[string][]trajectory.Token, after *trajectory.Token, pieces []chattemplate.Piece, n int) (lists [][]trajectory.Token, bytes int, err error) {
	var text strings.Builder
	size, skip := 0, 0
	for _, p := range pieces {
		size += len(p.Text)
	}
	if after != nil && e.control[*after] {
		skip = 1
		text.Grow(len(e.special[*after]) + size)
		text.WriteString(e.special[*after])
	}
	text.Grow(size)
	for _, p := range pieces {
		text.WriteString(p.Text)
	}
	ids, err := e.Tokenizer.Encode(text.String(), tokenizer.Options{Special: true})
	if err != nil {
		return nil, text.Len(), fmt.Errorf("tokenize %d bytes: %w", text.Len(), err)
	}
	if skip == 1 && (len(ids) == 0 || ids[0] != *after) {
		ids = nil
	} else {
		ids = ids[skip:]
		if cap(ids) > len(ids)+len(ids)/4 {
			ids = slices.Clone(ids) // they are kept as long as the rollout lives
		}
		if lists, ok, err := e.assign(cache, pieces, ids, n); ok || err != nil {
			return lists, text.Len(), err
		}
	}
	bytes = text.Len()
	lists = make([][]trajectory.Token, n)
	for i := 0; i < len(pieces); {
		p := pieces[i]
		at := min(max(p.Message, 0), n-1)
		if p.Special {
			own, err := e.one(cache, p.Text)
			if err != nil {
				return nil, bytes, err
			}
			lists[at] = append(slices.Clip(lists[at]), own...)
			i++
			continue
		}
		run := i
		var text strings.Builder
		for ; i < len(pieces) && !pieces[i].Special; i++ {
			text.WriteString(pieces[i].Text)
		}
		bytes += text.Len()
		ids, err := e.Tokenizer.Encode(text.String(), tokenizer.Options{Text: e.words})
		if err != nil {
			return nil, bytes, fmt.Errorf("tokenize %d bytes: %w", text.Len(), err)
		}
		if err := e.share(lists, pieces[run:i], ids); err != nil {
			return nil, bytes, err
		}
	}
	return clipped(lists), bytes, nil
}

// clipped has no list reach into the next one, with which it shares its memory.
func clipped(lists [][]trajectory.Token) [][]trajectory.Token {
	for i := range lists {
		lists[i] = slices.Clip(lists[i])
	}
	return lists
}

// one tokenizes the spelling of a control token.
func (e *exact) one(cache map[string][]trajectory.Token, text string) ([]trajectory.Token, error) {
	if ids, ok := cache[text]; ok {
		return ids, nil
	}
	ids, err := e.Tokenizer.Encode(text, tokenizer.Options{Special: true})
	if err != nil {
		return nil, fmt.Errorf("tokenize %q: %w", text, err)
	}
	cache[text] = ids
	return ids, nil
}

// assign walks over pieces and tokens together. It is not ok where the control tokens
// among ids are not those of the pieces: a message spells one. The lists are parts of ids.
func (e *exact) assign(cache map[string][]trajectory.Token, pieces []chattemplate.Piece, ids []trajectory.Token, n int) ([][]trajectory.Token, bool, error) {
	lists := make([][]trajectory.Token, n)
	at, run := 0, 0 // in ids; the first piece of the run of text under way
	flush := func(piece, end int) error {
		err := e.share(lists, pieces[run:piece], ids[at:end])
		at = end
		return err
	}
	for i, p := range pieces {
		if !p.Special {
			continue
		}
		own, err := e.one(cache, p.Text)
		if err != nil {
			return nil, false, err
		}
		if len(own) != 1 || !e.control[own[0]] {
			continue // to this tokenizer it is text
		}
		end := e.nextControl(ids, at)
		if end == len(ids) || ids[end] != own[0] {
			return nil, false, nil
		}
		if err := flush(i, end); err != nil {
			return nil, false, err
		}
		m := min(max(p.Message, 0), n-1)
		lists[m] = longer(lists[m], ids[end:end+1])
		at, run = end+1, i+1
	}
	if e.nextControl(ids, at) < len(ids) {
		return nil, false, nil
	}
	err := flush(len(pieces), len(ids))
	return clipped(lists), true, err
}

// longer is list with ids behind it. It makes no copy where they are there already.
func longer(list, ids []trajectory.Token) []trajectory.Token {
	n := len(list)
	switch {
	case len(ids) == 0:
		return list
	case n == 0:
		return ids
	case n < cap(list) && &list[:n+1][n] == &ids[0]:
		return list[:n+len(ids)]
	}
	return append(slices.Clip(list), ids...)
}

func (e *exact) nextControl(ids []trajectory.Token, at int) int {
	for at < len(ids) && (ids[at] < e.lowest || ids[at] > e.highest || !e.control[ids[at]]) {
		at++
	}
	return at
}

// share gives the tokens of a run of text to its messages. A token over a border belongs
// to the message in which it begins.
func (e *exact) share(lists [][]trajectory.Token, run []chattemplate.Piece, ids []trajectory.Token) error {
	if len(ids) == 0 {
		return nil
	}
	n, same := len(lists), true
	for _, p := range run {
		same = same && p.Message == run[0].Message
	}
	if same || n == 1 {
		m := 0
		if len(run) > 0 {
			m = min(max(run[0].Message, 0), n-1)
		}
		lists[m] = longer(lists[m], ids)
		return nil
	}
	s := e.Tokenizer.Stream(tokenizer.StreamOptions{})
	piece := 0
	end := len(run[0].Text)
	seen := 0
	for i, id := range ids {
		for seen >= end && piece < len(run)-1 {
			piece++
			end += len(run[piece].Text)
		}
		m := min(max(run[piece].Message, 0), n-1)
		lists[m] = longer(lists[m], ids[i:i+1])
		text, err := s.Push(id)
		if err != nil {
			return fmt.Errorf("tokens of a prompt: %w", err)
		}
		seen += len(text)
	}
	return nil
}

// opensThought reports whether the rendered prompt ends within a block of reasoning that
// it has just opened.
func opensThought(pieces []chattemplate.Piece) bool {
	const most = 256
	from, size := len(pieces), 0
	for from > 0 && size < most {
		from--
		size += min(most, len(pieces[from].Text))
	}
	var end strings.Builder
	end.Grow(size)
	for _, p := range pieces[from:] {
		end.WriteString(p.Text[max(0, len(p.Text)-most):])
	}
	return chattemplate.InReasoning(end.String())
}
