package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"hermes/parsers/tokenizer/pattern"
	"hermes/trajectory"
)

// Patterns that tiktoken models split with; the rank file does not say which.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	commonTail   = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	upper        = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}`
	lower        = `[\p{Ll}\p{Lm}\p{Lo}\p{M}`
	han          = `&&[^\p{Han}]`

	// Cl100k is the pattern of GPT-4 and Llama 3.
	Cl100k = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` + commonTail
	// Qwen is the pattern of Qwen to Qwen 3.
	Qwen = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + commonTail
	// O200k is the pattern of GPT-4o.
	O200k = `[^\r\n\p{L}\p{N}]?` + upper + `]*` + lower + `]+` + contractions + `?|[^\r\n\p{L}\p{N}]?` + upper + `]+` + lower + `]*` + contractions +
		`?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// Kimi is the pattern of Kimi K2.
	Kimi = `[\p{Han}]+|[^\r\n\p{L}\p{N}]?` + upper + han + `]*` + lower + han + `]+` + contractions + `?|[^\r\n\p{L}\p{N}]?` + upper + han + `]+` +
		lower + han + `]*` + contractions + `?|\p{N}{1,3}` + commonTail
	// R50k is the pattern of GPT-2 and GPT-3.
	R50k = gpt2
)

// TiktokenOptions is what a rank file does not say.
type TiktokenOptions struct {
	Pattern  string
	Specials []Special
}

// knownRanks are the patterns of published rank files by their number of ranks.
func knownRanks(n int) (string, bool) {
	switch n {
	case 50256:
		return R50k, true
	case 100256, 128000:
		return Cl100k, true
	case 199998:
		return O200k, true
	case 151643:
		return Qwen, true
	case 163584:
		return Kimi, true
	}
	return "", false
}

// FromTiktoken reads lines of a base64 token, a space and its rank.
func FromTiktoken(b []byte, o TiktokenOptions) (Tokenizer, error) {
	m := emptyBPE()
	m.bytewise = true
	m.wholes = true
	m.spelling = true
	rank, err := m.rankFile(b)
	if err != nil {
		return nil, err
	}
	if o.Pattern == "" {
		known, ok := knownRanks(len(rank))
		if !ok {
			return nil, unsupported("tiktoken file of %d ranks, whose pattern is not known", len(rank))
		}
		o.Pattern = known
	}
	p, err := pattern.Compile(o.Pattern, pattern.Rust)
	if err != nil {
		return nil, unsupported("%v", err)
	}
	if _, err := m.fromRanks(rank); err != nil {
		return nil, err
	}
	m.index()
	e := &engine{model: m, size: len(m.tokens)}
	// tiktoken drops what the pattern does not match.
	e.pre = []splitter{cutting{find: finding(p), regex: p, how: removed, invert: true}}
	e.decoders = []func() stage{func() stage { return &bytesStage{} }}
	var added []addedToken
	for _, s := range o.Specials {
		added = append(added, addedToken{ID: int64(s.ID), Content: s.Text, Special: s.Special})
	}
	return e, e.install(added)
}

func (m *bpe) rankFile(b []byte) (map[string]uint32, error) {
	rank := make(map[string]uint32, min(bytes.Count(b, []byte("\n"))+1, maxVocabulary))
	m.ids = make(map[string]int32, cap(m.tokens))
	top, n := 0, 0
	for line := range bytes.Lines(b) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		token, number, _ := bytes.Cut(line, []byte(" "))
		raw, err := base64.StdEncoding.DecodeString(string(token))
		r, err2 := strconv.Atoi(string(number))
		if err != nil || err2 != nil || r < 0 || r >= maxVocabulary || len(raw) == 0 {
			return nil, malformed("line %d: %.60q is not a base64 token and a rank", n, line)
		}
		if _, ok := rank[string(raw)]; ok {
			return nil, malformed("line %d: token again", n)
		}
		rank[string(raw)], m.ids[string(raw)] = uint32(r), int32(r)
		top = max(top, r)
	}
	if len(rank) == 0 || top > 64*len(rank)+1024 {
		return nil, malformed("%d ranks up to %d", len(rank), top)
	}
	m.tokens, m.present = make([]string, top+1), make([]bool, top+1)
	for raw, r := range rank {
		if m.present[r] {
			return nil, malformed("rank %d twice", r)
		}
		m.tokens[r], m.present[r] = spell(raw), true
	}
	for c := range 256 {
		if _, ok := rank[string([]byte{byte(c)})]; !ok {
			return nil, malformed("no rank for byte 0x%02X", c)
		}
	}
	return rank, nil
}

// fromTiktokenFile takes the special tokens from a tokenizer_config.json beside the file.
func fromTiktokenFile(path string, b []byte) (Tokenizer, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if token, rank, ok := strings.Cut(strings.TrimSpace(string(line)), " "); !ok || token == "" || strings.Trim(rank, "0123456789") != "" {
		return nil, malformed("neither tokenizer.json, SentencePiece nor tiktoken")
	}
	config, err := read(filepath.Join(filepath.Dir(path), "tokenizer_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return FromTiktoken(b, TiktokenOptions{})
	}
	if err != nil {
		return nil, err
	}
	var c struct {
		Added map[string]addedToken `json:"added_tokens_decoder"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, malformed("tokenizer_config.json: %v", err)
	}
	var o TiktokenOptions
	for id, t := range c.Added {
		n, err := strconv.ParseInt(id, 10, 32)
		if err != nil {
			return nil, malformed("tokenizer_config.json: id %q", id)
		}
		if t.LStrip || t.RStrip || t.SingleWord {
			return nil, unsupported("tiktoken with flags on added token %q", t.Content)
		}
		o.Specials = append(o.Specials, Special{trajectory.Token(n), t.Content, t.Special})
	}
	return FromTiktoken(b, o)
}
