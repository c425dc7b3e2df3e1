package tokenizer

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"hermes/trajectory"
)

const (
	maxVocabulary = 4 << 20 // ids
	shortWord     = 48      // symbols up to which merging scans instead of keeping a heap
	none          = int32(-1)
)

// bpe is the model: symbols are bytes or characters, merged by rank. Read-only once built,
// but for the cache.
type bpe struct {
	ids     map[string]int32 // by symbol: its raw bytes if bytewise, else its spelling
	tokens  []string         // by id, spelling; "" with absent set is a hole
	extra   map[int32]string // spellings of ids that have no symbol
	pairs   pairs
	bytes   [256]int32 // symbol of a byte; for characters: of ASCII
	present []bool

	bytewise bool // symbols are bytes
	spelling bool // tokens are spelled in the byte alphabet, ids by raw bytes
	wholes   bool // a word that is a token needs no merges
	fallback bool // unknown characters become byte tokens if all of them exist
	byteIDs  [256]int32
	unk      int32 // none: unknown symbols vanish
	fuse     bool  // neighbouring unknowns become one
	flush    bool  // an unknown comes before the byte tokens that follow it (SentencePiece)
	prefix   string
	suffix   string
	cut      string            // words may be cut before this character where something else precedes it
	inner    map[int32][]int32 // what symbols without a token become
	fixed    map[string]int32  // words that are one token and take part in no merge
	cache    wordCache
	pool     sync.Pool
}

type scratch struct {
	syms []symbol
	heap []uint64
	ids  []int32
}

// symbol is a node of the list of a word's symbols.
type symbol struct {
	id         int32
	prev, next int32
	rank       uint32 // of merging with the next one (scan)
	merged     int32
}

func (m *bpe) scratch() *scratch {
	if s, ok := m.pool.Get().(*scratch); ok {
		return s
	}
	return &scratch{}
}

func (m *bpe) release(s *scratch) {
	if cap(s.syms) <= 1<<16 {
		m.pool.Put(s)
	}
}

// encode appends the tokens of one pre-tokenized word.
func (m *bpe) encode(out []trajectory.Token, word string, s *scratch) ([]trajectory.Token, error) {
	if id, ok := m.fixed[word]; ok {
		return append(out, trajectory.Token(id)), nil
	}
	if m.cut == "" {
		return m.word(out, word, s)
	}
	var err error
	for begin := 0; begin < len(word); {
		end := m.nextCut(word, begin)
		out, err = m.word(out, word[begin:end], s)
		if err != nil {
			return out, err
		}
		begin = end
	}
	return out, nil
}

// nextCut finds the end of the part of word that begins at begin.
func (m *bpe) nextCut(word string, begin int) int {
	at := begin
	for strings.HasPrefix(word[at:], m.cut) {
		at += len(m.cut)
	}
	if k := strings.Index(word[at:], m.cut); k >= 0 {
		return at + k
	}
	return len(word)
}

func (m *bpe) word(out []trajectory.Token, word string, s *scratch) ([]trajectory.Token, error) {
	if len(word) > maxCached {
		return m.merge(out, word, s)
	}
	slot, hit := m.cache.get(word)
	if hit != nil {
		return append(out, hit...), nil
	}
	start := len(out)
	out, err := m.merge(out, word, s)
	if err == nil {
		m.cache.put(slot, word, out[start:])
	}
	return out, err
}

func (m *bpe) merge(out []trajectory.Token, word string, s *scratch) ([]trajectory.Token, error) {
	if m.wholes {
		if id, ok := m.ids[word]; ok {
			return append(out, trajectory.Token(id)), nil
		}
	}
	if err := m.symbols(word, s); err != nil {
		return out, err
	}
	if len(s.syms) <= shortWord {
		s.syms = m.scan(s.syms)
		for _, y := range s.syms {
			out = m.emit(out, y.id)
		}
		return out, nil
	}
	m.heaped(s)
	for i := int32(0); i >= 0; i = s.syms[i].next {
		out = m.emit(out, s.syms[i].id)
	}
	return out, nil
}

// emit appends the token of a symbol, or for a symbol without a token the tokens of its bytes.
func (m *bpe) emit(out []trajectory.Token, id int32) []trajectory.Token {
	if m.inner != nil {
		if ids, ok := m.inner[id]; ok {
			for _, i := range ids {
				out = append(out, trajectory.Token(i))
			}
			return out
		}
	}
	return append(out, trajectory.Token(id))
}

// symbols cuts word into its first symbols.
func (m *bpe) symbols(word string, s *scratch) error {
	ids := s.ids[:0]
	pending := 0
	unknown := func() error {
		if m.unk == none {
			return nil
		}
		if m.unk < 0 {
			return fmt.Errorf("no token for a character of %.40q, and the unknown token is not in the vocabulary", word)
		}
		if pending > 0 && !m.fuse {
			ids, pending = append(ids, m.unk), 0
		}
		pending++
		return nil
	}
	for i := 0; i < len(word); {
		size := 1
		id := none
		piece := ""
		if m.bytewise {
			id = m.bytes[word[i]]
		} else {
			if word[i] >= utf8.RuneSelf {
				_, size = utf8.DecodeRuneInString(word[i:])
			}
			id = m.lookup(word, i, size)
			if id == none {
				piece = m.affix(word, i, size)
			}
		}
		i += size
		if id != none {
			if pending > 0 {
				ids, pending = append(ids, m.unk), 0
			}
			ids = append(ids, id)
			continue
		}
		if m.fallback && m.allBytes(piece) {
			if pending > 0 && m.flush {
				ids, pending = append(ids, m.unk), 0
			}
			for k := range len(piece) {
				ids = append(ids, m.byteIDs[piece[k]])
			}
			continue
		}
		if err := unknown(); err != nil {
			return err
		}
	}
	if pending > 0 {
		ids = append(ids, m.unk)
	}
	s.ids, s.syms = ids, s.syms[:0]
	for _, id := range ids {
		s.syms = append(s.syms, symbol{id: id})
	}
	return nil
}

func (m *bpe) affix(word string, i, size int) string {
	s := word[i : i+size]
	if i > 0 && m.prefix != "" {
		s = m.prefix + s
	}
	if i+size == len(word) && m.suffix != "" {
		s += m.suffix
	}
	return s
}

func (m *bpe) lookup(word string, i, size int) int32 {
	if m.prefix == "" && m.suffix == "" {
		if size == 1 && word[i] < utf8.RuneSelf {
			return m.bytes[word[i]]
		}
		if id, ok := m.ids[word[i:i+size]]; ok {
			return id
		}
		return none
	}
	if id, ok := m.ids[m.affix(word, i, size)]; ok {
		return id
	}
	return none
}

func (m *bpe) allBytes(s string) bool {
	for i := range len(s) {
		if m.byteIDs[s[i]] == none {
			return false
		}
	}
	return true
}

// scan merges few symbols: the lowest rank first, the leftmost of equals.
func (m *bpe) scan(syms []symbol) []symbol {
	for i := range syms {
		m.rank(syms, i)
	}
	for {
		best, at := noRank, -1
		for i := range syms {
			if syms[i].rank < best {
				best, at = syms[i].rank, i
			}
		}
		if at < 0 {
			return syms
		}
		syms[at].id = syms[at].merged
		syms = append(syms[:at+1], syms[at+2:]...)
		m.rank(syms, at)
		if at > 0 {
			m.rank(syms, at-1)
		}
	}
}

func (m *bpe) rank(syms []symbol, i int) {
	syms[i].rank = noRank
	if i+1 < len(syms) {
		syms[i].rank, syms[i].merged = m.pairs.get(syms[i].id, syms[i+1].id)
	}
}

// heaped merges many symbols with a heap of (rank, position), n log n.
func (m *bpe) heaped(s *scratch) {
	syms, h := s.syms, heap64(s.heap[:0])
	for i := range syms {
		syms[i].prev, syms[i].next = int32(i-1), int32(i+1)
	}
	syms[len(syms)-1].next = -1
	push := func(i int32) {
		if i < 0 || syms[i].next < 0 {
			return
		}
		if r, id := m.pairs.get(syms[i].id, syms[syms[i].next].id); r != noRank {
			syms[i].rank, syms[i].merged = r, id
			h.push(uint64(r)<<32 | uint64(i))
		} else {
			syms[i].rank = noRank
		}
	}
	for i := range syms {
		push(int32(i))
	}
	for len(h) > 0 {
		top := h.pop()
		i := int32(top & 0xFFFFFFFF)
		y := &syms[i]
		if y.id == none || y.next < 0 || y.rank != uint32(top>>32) {
			continue // swallowed, or its pair changed since
		}
		gone := y.next
		y.id, y.next = y.merged, syms[gone].next
		syms[gone].id = none
		if y.next >= 0 {
			syms[y.next].prev = i
		}
		push(i)
		push(y.prev)
	}
	s.heap = h
}

func (m *bpe) id(token string) (trajectory.Token, bool) {
	key := token
	if m.spelling {
		raw, ok := unspell(token)
		if !ok {
			for id, s := range m.extra {
				if s == token {
					return trajectory.Token(id), true
				}
			}
			return 0, false
		}
		key = raw
	}
	id, ok := m.ids[key]
	return trajectory.Token(id), ok && int(id) < len(m.tokens)
}

func (m *bpe) token(id trajectory.Token) (string, bool) {
	if id < 0 || int(id) >= len(m.tokens) || !m.present[id] {
		return "", false
	}
	return m.tokens[id], true
}
