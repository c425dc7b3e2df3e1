package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"hermes/trajectory"
)

// Types of pieces.
const (
	spNormal  = 1
	spUnknown = 2
	spControl = 3
	spUser    = 4
	spUnused  = 5
	spByte    = 6
)

type spPiece struct {
	text  string
	score float32
	typ   uint64
}

type spModel struct {
	pieces           []spPiece
	model            uint64 // 2 is BPE
	suffixSpace      bool
	byteFallback     bool
	surface          string
	charsmap         bool
	dummy, fold, esc bool // add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces
	rules            bool
}

// field calls f with every field of a protobuf message: number, varint or bytes.
func fields(b []byte, f func(num int, v uint64, data []byte) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 || key>>3 == 0 || key>>3 > 1<<29 {
			return malformed("protobuf key")
		}
		b = b[n:]
		var v uint64
		var data []byte
		switch size := 0; key & 7 {
		case 0:
			v, n = binary.Uvarint(b)
			if n <= 0 {
				return malformed("protobuf number")
			}
			b = b[n:]
		case 1, 5:
			size = 8
			if key&7 == 5 {
				size = 4
			}
			if len(b) < size {
				return malformed("protobuf ends early")
			}
			data, b = b[:size], b[size:]
		case 2:
			v, n = binary.Uvarint(b)
			if n <= 0 || v > uint64(len(b)-n) {
				return malformed("protobuf length")
			}
			data, b = b[n:n+int(v)], b[n+int(v):]
		default:
			return malformed("protobuf wire type %d", key&7)
		}
		if err := f(int(key>>3), v, data); err != nil {
			return err
		}
	}
	return nil
}

func (s *spModel) read(b []byte) error {
	return fields(b, func(num int, _ uint64, data []byte) error {
		switch num {
		case 1:
			p := spPiece{typ: spNormal}
			err := fields(data, func(num int, v uint64, data []byte) error {
				switch {
				case num == 1:
					p.text = string(data)
				case num == 2 && len(data) == 4:
					p.score = math.Float32frombits(binary.LittleEndian.Uint32(data))
				case num == 3:
					p.typ = v
				}
				return nil
			})
			s.pieces = append(s.pieces, p)
			if len(s.pieces) > maxVocabulary {
				return malformed("more than %d pieces", maxVocabulary)
			}
			return err
		case 2:
			return fields(data, func(num int, v uint64, data []byte) error {
				switch num {
				case 3:
					s.model = v
				case 24:
					s.suffixSpace = v != 0
				case 35:
					s.byteFallback = v != 0
				case 44:
					s.surface = string(data)
				}
				return nil
			})
		case 3:
			return fields(data, func(num int, v uint64, data []byte) error {
				switch num {
				case 2:
					s.charsmap = len(data) > 0
				case 3:
					s.dummy = v != 0
				case 4:
					s.fold = v != 0
				case 5:
					s.esc = v != 0
				}
				return nil
			})
		case 5:
			return fields(data, func(num int, _ uint64, data []byte) error {
				s.rules = s.rules || num == 2 && len(data) > 0
				return nil
			})
		}
		return nil
	})
}

// FromSentencePiece reads a SentencePiece BPE model. Control tokens are found in text only
// with Options.Special; Options.Add adds nothing, for the model does not say what.
func FromSentencePiece(b []byte) (Tokenizer, error) {
	s := &spModel{model: 1, surface: " \u2047 ", dummy: true, fold: true, esc: true}
	if err := s.read(b); err != nil {
		return nil, fmt.Errorf("SentencePiece: %w", err)
	}
	switch {
	case len(s.pieces) == 0:
		return nil, malformed("SentencePiece model without pieces")
	case s.model != 2:
		return nil, unsupported("SentencePiece model type %s", [...]string{"", "Unigram", "BPE", "Word", "Char"}[min(s.model, 4)])
	case s.charsmap || s.rules:
		return nil, unsupported("SentencePiece with precompiled_charsmap")
	case s.suffixSpace:
		return nil, unsupported("SentencePiece with treat_whitespace_as_suffix")
	case !s.esc:
		return nil, unsupported("SentencePiece without escape_whitespaces")
	}
	m, users, err := s.bpe()
	if err != nil {
		return nil, err
	}
	e := &engine{model: m, size: len(s.pieces)}
	if err := e.install(nil); err != nil {
		return nil, err
	}
	for id, p := range s.pieces {
		if p.typ == spControl && p.text != "" {
			t := addedToken{ID: int64(id), Content: p.text, Special: true}
			e.raw.hidden[p.text] = true
			e.raw.add(p.text, t)
			e.added[trajectory.Token(id)], e.addedID[p.text] = Special{trajectory.Token(id), p.text, true}, trajectory.Token(id)
			e.special[trajectory.Token(id)] = true
			e.shown[trajectory.Token(id)] = ""
		}
		if p.typ == spUnknown {
			e.shown[trajectory.Token(id)] = s.surface
		}
	}
	e.normal = []normalizer{spNormalizer{s.dummy, s.fold}}
	if users != nil {
		e.pre = []splitter{cutting{find: users.find}}
		m.fixed = users.ids
	}
	e.decoders = []func() stage{func() stage { return &spBytes{} }, func() stage { return &spSpace{strip: s.dummy || s.fold, all: s.fold} }}
	return e, nil
}

func (s *spModel) bpe() (*bpe, *userPieces, error) {
	m := emptyBPE()
	m.fuse = true
	m.flush = true
	m.ids = make(map[string]int32, len(s.pieces))
	m.tokens, m.present = make([]string, len(s.pieces)), make([]bool, len(s.pieces))
	var users *userPieces
	var scores []float32
	for id, p := range s.pieces {
		if p.text == "" || !utf8.ValidString(p.text) {
			return nil, nil, malformed("piece %d is %q", id, p.text)
		}
		m.tokens[id], m.present[id] = p.text, true
		switch p.typ {
		case spNormal:
			if _, ok := m.ids[p.text]; ok {
				return nil, nil, malformed("piece %q twice", p.text)
			}
			if p.score != p.score {
				return nil, nil, malformed("piece %q has no score", p.text)
			}
			m.ids[p.text] = int32(id)
			scores = append(scores, p.score)
		case spUnknown:
			m.unk = int32(id)
		case spUser:
			if users == nil {
				users = &userPieces{trie: newMatcher(nil), ids: map[string]int32{}}
			}
			users.trie.add(p.text, addedToken{ID: int64(id), Content: p.text})
			users.ids[p.text] = int32(id)
		case spByte:
			if b, ok := byteToken(p.text); ok {
				m.byteIDs[b] = int32(id)
			}
		case spControl:
		default:
			return nil, nil, unsupported("SentencePiece piece %q of type %d (unused)", p.text, p.typ)
		}
	}
	m.fallback = s.byteFallback
	if m.unk == none {
		return nil, nil, malformed("no unknown piece")
	}
	slices.Sort(scores)
	scores = slices.Compact(scores)
	rank := make(map[string]uint32, len(m.ids))
	for text, id := range m.ids {
		k, _ := slices.BinarySearch(scores, s.pieces[id].score)
		rank[text] = uint32(len(scores) - k) // the highest score first
	}
	names, err := m.fromRanks(rank)
	if err != nil {
		return nil, nil, err
	}
	m.inner = map[int32][]int32{}
	for id, text := range names {
		if !m.fallback || !m.allBytes(text) {
			return nil, nil, unsupported("SentencePiece with %q only inside of longer pieces", text)
		}
		for i := range len(text) {
			m.inner[id] = append(m.inner[id], m.byteIDs[text[i]])
		}
	}
	m.index()
	return m, users, nil
}

// spNormalizer folds spaces and writes them as ▁.
type spNormalizer struct{ dummy, fold bool }

func (n spNormalizer) apply(text string, first bool) (string, bool, error) {
	if n.fold {
		text = strings.Trim(text, " ")
		for strings.Contains(text, "  ") {
			text = strings.ReplaceAll(text, "  ", " ")
		}
	}
	if text == "" {
		return text, first, nil
	}
	if n.dummy {
		text = " " + text
	}
	text = strings.ReplaceAll(text, " ", "▁")
	if n.fold {
		text = strings.TrimRight(text, "▁")
	}
	return text, first, nil
}

// userPieces are user-defined symbols: always one token, the longest first.
type userPieces struct {
	trie *matcher
	ids  map[string]int32
}

func (u *userPieces) find(text string, yield func(int, int, bool)) error {
	u.trie.split(text, true, nil, func(start, end int, id trajectory.Token) { yield(start, end, id >= 0) })
	return nil
}

// spBytes joins byte pieces: what is no UTF-8 becomes U+FFFD byte by byte.
type spBytes struct{ held []byte }

func (s *spBytes) feed(token string, yield func(string)) {
	if b, ok := byteToken(token); ok {
		s.held = append(s.held, b)
		for len(s.held) > 0 && utf8.FullRune(s.held) {
			s.one(yield)
		}
		return
	}
	s.finish(yield)
	yield(token)
}

func (s *spBytes) one(yield func(string)) {
	c, n := utf8.DecodeRune(s.held)
	s.held = s.held[n:]
	yield(string(c))
}

func (s *spBytes) finish(yield func(string)) {
	for len(s.held) > 0 {
		s.one(yield)
	}
}

// spSpace writes ▁ as a space, but not at the beginning of the text.
type spSpace struct{ strip, all, begun bool }

func (s *spSpace) feed(token string, yield func(string)) {
	if !s.begun && s.strip {
		if token == "" {
			return
		}
		rest, cut := strings.CutPrefix(token, "▁")
		token, s.begun = rest, !(s.all && cut && rest == "")
		if !s.all {
			s.begun = true
		}
	}
	yield(strings.ReplaceAll(token, "▁", " "))
}

func (s *spSpace) finish(func(string)) {}
