package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// modelFile is what a tokenizer.json says about its model, the vocabulary still unread.
type modelFile struct {
	typ           string
	vocab, merges []byte
	Dropout       *float64
	Unk           *string
	Prefix        *string
	Suffix        *string
	Fuse          bool
	Fallback      bool
	IgnoreMerges  bool
}

func (f *modelFile) scan(s *scanner) error {
	return s.object(func(key string) error {
		v, err := s.value()
		if err != nil {
			return err
		}
		var to any
		switch key {
		case "type":
			to = &f.typ
		case "vocab":
			f.vocab = v
		case "merges":
			f.merges = v
		case "dropout":
			to = &f.Dropout
		case "unk_token":
			to = &f.Unk
		case "continuing_subword_prefix":
			to = &f.Prefix
		case "end_of_word_suffix":
			to = &f.Suffix
		case "fuse_unk":
			to = &f.Fuse
		case "byte_fallback":
			to = &f.Fallback
		case "ignore_merges":
			to = &f.IgnoreMerges
		case "unk_id":
			f.typ = "Unigram"
		}
		if to == nil {
			return nil
		}
		if err := json.Unmarshal(v, to); err != nil {
			return malformed("model.%s: %v", key, err)
		}
		return nil
	})
}

// newBPE reads vocabulary and merges. bytewise says that the words are raw bytes while the
// vocabulary is spelled in the byte alphabet.
func newBPE(f *modelFile, bytewise bool) (*bpe, error) {
	switch {
	case f.typ != "BPE" && f.typ != "":
		return nil, unsupported("model %q", f.typ)
	case f.vocab == nil || f.merges == nil || f.vocab[0] != '{':
		return nil, unsupported("model without a BPE vocabulary and merges")
	case f.Dropout != nil && *f.Dropout != 0:
		return nil, unsupported("BPE dropout %v", *f.Dropout)
	}
	m := emptyBPE()
	m.wholes = f.IgnoreMerges
	m.fallback = f.Fallback
	m.fuse = f.Fuse
	if f.Prefix != nil {
		m.prefix = *f.Prefix
	}
	if f.Suffix != nil {
		m.suffix = *f.Suffix
	}
	spelled, err := m.vocabulary(f.vocab)
	if err != nil {
		return nil, err
	}
	if err := m.mergeList(f.merges, spelled); err != nil {
		return nil, err
	}
	m.ids = spelled
	m.byteIDs, err = fallbackIDs(spelled)
	if err != nil {
		return nil, err
	}
	if f.Unk != nil {
		m.unk = -2
		if id, ok := spelled[*f.Unk]; ok {
			m.unk = id
		}
	}
	if bytewise && m.prefix == "" && m.suffix == "" && !m.fallback {
		m.toBytes()
	}
	m.index()
	return m, nil
}

func emptyBPE() *bpe {
	m := &bpe{unk: none, cache: newWordCache()}
	for i := range m.byteIDs {
		m.byteIDs[i] = none
	}
	return m
}

func fallbackIDs(ids map[string]int32) (out [256]int32, err error) {
	for b := range out {
		id, ok := ids[fmt.Sprintf("<0x%02X>", b)]
		out[b] = id
		if !ok {
			out[b] = none
		}
	}
	return out, nil
}

func (m *bpe) vocabulary(raw []byte) (map[string]int32, error) {
	s := &scanner{b: raw}
	ids := make(map[string]int32, min(len(raw)/16, 1<<18))
	top := -1
	err := s.object(func(token string) error {
		id, err := s.number(maxVocabulary)
		ids[token] = int32(id)
		top = max(top, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	if top > 64*len(ids)+1024 {
		return nil, malformed("model.vocab has %d tokens, but ids up to %d", len(ids), top)
	}
	m.tokens, m.present = make([]string, top+1), make([]bool, top+1)
	for token, id := range ids {
		if m.present[id] {
			return nil, malformed("id %d is both %q and %q", id, m.tokens[id], token)
		}
		m.tokens[id], m.present[id] = token, true
	}
	return ids, nil
}

func (m *bpe) mergeList(raw []byte, ids map[string]int32) error {
	s := &scanner{b: raw}
	m.pairs = newPairs(countMerges(raw))
	rank, buf := uint32(0), []byte(nil)
	err := s.array(func() error {
		a, b, err := s.merge()
		if err != nil {
			return err
		}
		if len(b) < len(m.prefix) {
			return malformed("merge %d: %q is shorter than the prefix", rank, b)
		}
		left, ok1 := ids[a]
		right, ok2 := ids[b]
		buf = append(append(buf[:0], a...), b[len(m.prefix):]...)
		merged, ok3 := ids[string(buf)]
		if !ok1 || !ok2 || !ok3 {
			return malformed("merge %d of %q and %q is not in the vocabulary", rank, a, b)
		}
		m.pairs.put(left, right, rank, merged)
		rank++
		return nil
	})
	if err != nil {
		return fmt.Errorf("model.merges: %w", err)
	}
	return nil
}

// countMerges bounds the number of merges by the commas between or strings in them.
func countMerges(raw []byte) int {
	s, n := &scanner{b: raw}, 0
	if s.array(func() error { n++; return s.skip(0) }) != nil {
		return n
	}
	return n
}

// merge reads ["a", "b"] or the older "a b".
func (s *scanner) merge() (a, b string, err error) {
	if s.space() == '"' {
		line, err := s.text()
		if err != nil {
			return "", "", err
		}
		a, b, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(b, " ") {
			return "", "", s.fail("merge without exactly one space")
		}
		return a, b, nil
	}
	n := 0
	err = s.array(func() error {
		t, err := s.text()
		n++
		if n == 1 {
			a = t
		} else {
			b = t
		}
		return err
	})
	if err == nil && n != 2 {
		err = s.fail("merge of other than two tokens")
	}
	return a, b, err
}

// toBytes keys the vocabulary by the raw bytes that its spellings stand for.
func (m *bpe) toBytes() {
	raw := make(map[string]int32, len(m.ids))
	m.extra = map[int32]string{}
	for token, id := range m.ids {
		if r, ok := unspell(token); ok {
			raw[r] = id
		} else {
			m.extra[id] = token
		}
	}
	m.ids = raw
	m.bytewise = true
	m.spelling = true
}

// index prepares look-ups of single symbols and the places where words may be cut.
func (m *bpe) index() {
	for b := range m.bytes {
		id, ok := m.ids[string([]byte{byte(b)})]
		m.bytes[b] = id
		if !ok {
			m.bytes[b] = none
		}
	}
	if !m.bytewise && m.prefix == "" && m.suffix == "" && !m.wholes {
		m.findCut()
	}
}

// findCut allows to cut before ▁ when no token has it behind another character: then no
// merge reaches over that place, and long texts become words that a cache knows.
func (m *bpe) findCut() {
	const mark = "▁"
	if _, ok := m.ids[mark]; !ok {
		return
	}
	for token := range m.ids {
		if strings.Contains(strings.TrimLeft(token, mark), mark) {
			return
		}
	}
	m.cut = mark
}

// fromRanks builds the merges of models that merge any neighbours whose joint spelling is
// a token, lowest rank first (tiktoken, SentencePiece). Symbols without a token get their
// own ids behind the vocabulary; names holds their spellings.
func (m *bpe) fromRanks(rank map[string]uint32) (names map[int32]string, err error) {
	type pair struct {
		left, right, merged int32
		rank                uint32
	}
	names = map[int32]string{}
	symbol := map[string]int32{}
	next := int32(len(m.tokens))
	if !m.bytewise {
		for _, token := range slices.Sorted(maps.Keys(rank)) {
			if utf8.RuneCountInString(token) < 2 {
				continue
			}
			for _, c := range token {
				if s := string(c); m.ids[s] == 0 && symbol[s] == 0 {
					if _, ok := m.ids[s]; !ok {
						symbol[s], names[next] = next, s
						next++
					}
				}
			}
		}
	}
	find := func(s string) (int32, bool) {
		if id, ok := m.ids[s]; ok {
			_, merges := rank[s]
			return id, merges || m.bytewise || utf8.RuneCountInString(s) == 1
		}
		id, ok := symbol[s]
		return id, ok
	}
	var all []pair
	work := 0
	for token, r := range rank {
		work += len(token) * len(token)
		if len(token) > maxToken || work > maxSplits {
			return nil, malformed("token of %d bytes, or too many long ones", len(token))
		}
		for i := 1; i < len(token); i++ {
			if !m.bytewise && !utf8.RuneStart(token[i]) {
				continue
			}
			left, ok1 := find(token[:i])
			right, ok2 := find(token[i:])
			if ok1 && ok2 {
				all = append(all, pair{left, right, m.ids[token], r})
			}
		}
	}
	m.pairs = newPairs(len(all))
	for _, p := range all {
		m.pairs.put(p.left, p.right, p.rank, p.merged)
	}
	for s, id := range symbol {
		m.ids[s] = id
	}
	return names, nil
}

const (
	maxToken  = 4096    // bytes of a token that is added or whose merges are derived
	maxSplits = 1 << 31 // sum of their squares
)
