package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"hermes/trajectory"
)

// Stats describe a dataset. Doubled counts the rows whose task an earlier row has.
type Stats struct {
	Rows       int64            `json:"rows"`
	Bad        int64            `json:"bad"`
	Bytes      int64            `json:"bytes"`
	Keys       map[string]int64 `json:"keys"` // rows that have the member
	Roles      map[string]int64 `json:"roles"`
	Doubled    int64            `json:"doubled"`
	Turns      Spread           `json:"turns"`
	Characters Spread           `json:"characters"`
	Tokens     *Spread          `json:"tokens"` // null without a tokenizer
}

// Spread describes numbers.
type Spread struct {
	Min  int64   `json:"min"`
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P95  int64   `json:"p95"`
	Max  int64   `json:"max"`
	Sum  int64   `json:"sum"`
}

func spread(list []int64) Spread {
	if len(list) == 0 {
		return Spread{}
	}
	slices.Sort(list)
	s := Spread{Min: list[0], P50: list[(len(list)-1)/2], P95: list[(len(list)-1)*95/100], Max: list[len(list)-1]}
	for _, n := range list {
		s.Sum += n
	}
	s.Mean = float64(s.Sum) / float64(len(list))
	return s
}

// Stats reads everything once. The whole conversation of a row counts where it has one,
// else its task. count counts tokens of a text; nil: they are not counted. What is in
// memory grows with the number of rows only, by some 60 bytes each.
func (d *Dataset) Stats(ctx context.Context, count func(string) (int, error)) (Stats, error) {
	s := Stats{Keys: map[string]int64{}, Roles: map[string]int64{}}
	var turns, characters, tokens []int64
	seen := map[[32]byte]struct{}{}
	dec := newDecoder(d.o)
	err := d.each(ctx, func(r raw) error {
		row, err := dec.row(r)
		if err != nil {
			s.Bad++
			return nil
		}
		s.Rows++
		s.Bytes += int64(len(r.data))
		fields, err := dec.split(r.data)
		if err != nil {
			return r.fault(err)
		}
		all := row.Prompt
		for _, f := range fields {
			s.Keys[f.Key]++
			if f.Key == "messages" || f.Key == "conversations" {
				if whole, err := conversation(f.Value, true); err == nil {
					all = whole
				}
			}
		}
		text, err := json.Marshal(row.Prompt)
		if err != nil {
			return r.fault(err)
		}
		key := sha256.Sum256(text)
		if _, twice := seen[key]; twice {
			s.Doubled++
		}
		seen[key] = struct{}{}
		whole := 0
		var n int64
		for _, m := range all {
			s.Roles[string(m.Role)]++
			t := said(m)
			whole += len([]rune(t))
			if count != nil {
				k, err := count(t)
				if err != nil {
					return r.fault(err)
				}
				n += int64(k)
			}
		}
		turns, characters, tokens = append(turns, int64(len(all))), append(characters, int64(whole)), append(tokens, n)
		return nil
	})
	s.Turns, s.Characters = spread(turns), spread(characters)
	if count != nil {
		t := spread(tokens)
		s.Tokens = &t
	}
	return s, err
}

// said is what a message says, its calls included.
func said(m trajectory.Message) string {
	parts := []string{}
	if m.Reasoning != "" {
		parts = append(parts, m.Reasoning)
	}
	if c := m.Content(); c != "" {
		parts = append(parts, c)
	}
	for _, c := range m.Calls {
		parts = append(parts, c.Name+" "+c.Arguments)
	}
	return strings.Join(parts, "\n")
}
