package configs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"hermes/internal/address"
)

// Hidden is written in the place of a secret.
const Hidden = address.Hidden

// minSecret is the length in bytes below which a value is not searched for: hiding
// every "1" of a log would hide the log.
const minSecret = 6

// Redactor replaces the secrets it knows, and what has the shape of a provider's key or
// is a password or key in a URL.
// It is safe for concurrent use; nil hides only the shapes.
type Redactor struct {
	mu     sync.RWMutex
	values []string
	rep    *strings.Replacer
}

// Redact returns a Redactor that knows the values of all variables of env with the name
// of a secret, those of the variables named, and the passwords of URLs in all of them.
func Redact(env Env, names ...string) *Redactor {
	r := &Redactor{}
	for _, n := range env.Names() {
		if SecretName(n) || slices.Contains(names, n) {
			r.values = append(r.values, env.Get(n))
		}
		r.values = append(r.values, address.Passwords(env.Get(n))...)
	}
	r.build()
	return r
}

// Add makes further values known: a key that was read later, a token made at start.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values = append(r.values, values...)
	r.build()
}

// build prepares the replacer, longest value first, with the spellings that a value
// takes in JSON, in URLs and in base64.
func (r *Redactor) build() {
	var all []string
	for _, v := range r.values {
		v = strings.TrimSpace(v)
		if len(v) < minSecret {
			continue
		}
		all = append(all, address.Spellings(v)...)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	var pairs []string
	for _, v := range slices.Compact(all) {
		pairs = append(pairs, v, Hidden)
	}
	r.rep = strings.NewReplacer(pairs...)
}

// Knows reports whether text contains a secret that r knows.
func (r *Redactor) Knows(text string) bool {
	if r == nil {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.rep.Replace(text) != text
}

// String returns text without its secrets.
func (r *Redactor) String(text string) string {
	if r != nil {
		r.mu.RLock()
		text = r.rep.Replace(text)
		r.mu.RUnlock()
	}
	return secretValue.ReplaceAllString(address.HideKeys(text), Hidden)
}

// Writer passes what is written on to w without secrets. Each Write is looked at by
// itself, so write whole lines. Write reports the length it was given.
func (r *Redactor) Writer(w io.Writer) io.Writer { return &redactWriter{r: r, w: w} }

type redactWriter struct {
	r *Redactor
	w io.Writer
}

func (w *redactWriter) Write(p []byte) (int, error) {
	clean := w.r.String(string(p))
	if bytes.Equal(p, []byte(clean)) {
		return w.w.Write(p)
	}
	if _, err := io.WriteString(w.w, clean); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Handler wraps a handler of slog: the message and every value, in groups too, reach it
// without secrets. Values under the name of a secret are hidden whole.
func (r *Redactor) Handler(h slog.Handler) slog.Handler { return &redactHandler{r: r, h: h} }

type redactHandler struct {
	r *Redactor
	h slog.Handler
}

func (h *redactHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.h.Enabled(ctx, l) }

func (h *redactHandler) Handle(ctx context.Context, rec slog.Record) error {
	clean := slog.NewRecord(rec.Time, rec.Level, h.r.String(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.r.attr(a))
		return true
	})
	return h.h.Handle(ctx, clean)
}

func (h *redactHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return &redactHandler{r: h.r, h: h.h.WithAttrs(h.r.attrs(as))}
}

func (h *redactHandler) WithGroup(name string) slog.Handler {
	return &redactHandler{r: h.r, h: h.h.WithGroup(name)}
}

func (r *Redactor) attrs(as []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(as))
	for i, a := range as {
		out[i] = r.attr(a)
	}
	return out
}

func (r *Redactor) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(r.attrs(v.Group())...)}
	case slog.KindString:
		if SecretName(a.Key) && v.String() != "" {
			return slog.String(a.Key, Hidden)
		}
		return slog.String(a.Key, r.String(v.String()))
	case slog.KindAny:
		if v.Any() == nil {
			return a
		}
		if SecretName(a.Key) {
			return slog.String(a.Key, Hidden)
		}
		if e, ok := v.Any().(error); ok {
			return slog.String(a.Key, r.String(e.Error()))
		}
		text := fmt.Sprintf("%+v", v.Any())
		if b, ok := v.Any().([]byte); ok {
			text = string(b)
		}
		if raw, err := json.Marshal(v.Any()); err == nil && r.String(string(raw)) != string(raw) || r.String(text) != text {
			return slog.String(a.Key, r.String(text))
		}
	}
	return a
}
