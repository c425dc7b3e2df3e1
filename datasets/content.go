package datasets

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"reflect"

	"hermes/trajectory"
)

// Content names what a row asks for and how it is judged, whatever its id, its place and the
// white space of its file: the beginning of a SHA-256.
func (r *Row) Content() string {
	h := sha256.New()
	w := writer{h: h}
	w.messages(r.Prompt)
	w.messages(r.Hermes.Prefill)
	if !reflect.ValueOf(r.Hermes).IsZero() {
		raw, err := json.Marshal(r.Hermes)
		w.text("hermes", string(raw))
		if err != nil {
			w.text("", string(r.Hermes.Script)) // the one part that may be no JSON
		}
	}
	s := &r.Scoring
	for i, v := range []json.RawMessage{s.Answer, s.Expected, s.ExpectedTools, s.Rubric, s.Checker, s.GroundTruth, s.Solution} {
		if v != nil {
			w.value(string(rune('a'+i)), v)
		}
	}
	for _, k := range sortedKeys(r.Extra) {
		w.value("extra "+k, r.Extra[k])
	}
	return hex.EncodeToString(h.Sum(w.buf[:0])[:8])
}

// writer puts values into a hash so that none runs into the next.
type writer struct {
	h     hash.Hash
	buf   []byte
	plain bytes.Buffer
}

func (w *writer) text(name, s string) {
	w.buf = append(append(w.buf[:0], name...), 0)
	w.buf = append(append(w.buf, s...), 0)
	w.h.Write(w.buf)
}

func (w *writer) value(name string, v json.RawMessage) {
	w.plain.Reset()
	if json.Compact(&w.plain, v) != nil {
		w.text(name, string(v))
		return
	}
	w.text(name, w.plain.String())
}

func (w *writer) messages(list []trajectory.Message) {
	for i := range list {
		m := &list[i]
		if len(m.Parts) == 1 && m.Parts[0].Kind == trajectory.PartText && m.Calls == nil && m.Opaque == nil && m.CallID == "" && m.Name == "" {
			w.text(string(m.Role), m.Parts[0].Text)
			w.text("thinking", m.Reasoning)
			continue
		}
		raw, err := json.Marshal(m)
		if err == nil {
			w.value("message", raw)
		}
	}
	w.text("", "")
}
