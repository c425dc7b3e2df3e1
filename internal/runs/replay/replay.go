// Package replay builds the requests of a finished run again, without a server.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/hfhub"
	"hermes/internal/settings"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

// Run builds every model request of a run directory again, offline, and compares it
// with the request that was sent. models is the cache in which an exact run's model files lie. A run that this program cannot ask for is an *Error
// with the code for wrong usage.
func Run(ctx context.Context, dir string, models hfhub.Options) (runs.Replayed, error) {
	r, err := runs.Open(dir)
	if err != nil {
		return runs.Replayed{Run: dir}, err
	}
	defer r.Close()
	p, o, seed, err := policyOf(ctx, r, models)
	if err != nil {
		return runs.Replayed{Run: dir}, exit.Usage(fmt.Errorf("replay %s: %w", dir, err))
	}
	defer p.close()
	return r.Replay(ctx, func(rec *trajectory.Record, t policy.Tape) (policy.Sampler, error) {
		own, n := o, rec.Key.Seed(seed)
		own.Key = rec.Key
		own.Group = rec.Group
		own.Attempt = rec.Attempt
		own.Seed = &n
		own.Tape = t
		own.Extra = rec.Extra
		tools := rec.Tools
		if tools == nil {
			tools = []trajectory.ToolSpec{} // as a rollout without tools asked
		}
		return p.Open(tools, own)
	})
}

// offline is a policy that cannot send.
type offline struct {
	policy.Policy
	close func() error
}

// policyOf is the policy of a run as its manifest tells it, with the run's seed.
func policyOf(ctx context.Context, r *runs.Run, models hfhub.Options) (p offline, o policy.Options, seed int64, err error) {
	f := identityOf{fields: r.Manifest.Identity}
	mode := trajectory.Mode(f.text("mode"))
	if mode != trajectory.ModeText && mode != trajectory.ModeExact {
		return p, o, 0, fmt.Errorf("its mode is %q; want text or exact", mode)
	}
	f.read("seed", &seed)
	f.read("max-tokens", &o.MaxTokens)
	f.read("temperature", &o.Temperature)
	f.read("top-p", &o.TopP)
	f.read("top-k", &o.TopK)
	f.read("min-p", &o.MinP)
	f.read("stop", &o.Stop)
	o.ReasoningEffort = f.text("reasoning-effort")
	opt := chat.Options{Extra: json.RawMessage(f.text("extra-body")), MaxTokens: o.MaxTokens, Stream: true, Blob: rundir.NewBlobs(nil, r.Dir).Get}
	if f.err != nil {
		return p, o, 0, f.err
	}
	config, err := r.Manifest.Settings()
	if err != nil {
		return p, o, 0, err
	}
	if mode == trajectory.ModeExact {
		p, err = replayExact(ctx, f, config, o, models)
		return p, o, seed, err
	}
	opt.Routing = routing(config)
	profile, err := servers.Named(profileFor(opt.Routing))
	if err != nil {
		return p, o, 0, err
	}
	opt.Profile = &profile
	w, err := wire.New(wire.Options{Replay: &wire.Cassette{}})
	if err != nil {
		return p, o, 0, err
	}
	p.close = w.Close
	p.Policy, err = chain(w, opt, f.text("model"), settings.List(config["fallback"]))
	if err != nil {
		w.Close()
	}
	return p, o, seed, err
}

// replayExact is the policy of an exact run: tokenizer and template are read again from
// where the run had them, and must be the same.
func replayExact(ctx context.Context, f identityOf, config map[string]string, o policy.Options, models hfhub.Options) (p offline, err error) {
	flags := settings.ExactFlags{Exact: true, Wire: f.text("wire"), ModelFiles: config["model-files"], Tokenizer: config["tokenizer"], Template: config["template"],
		TemplateKwargs: config["template-kwargs"], Family: config["family"], Dialect: f.text("dialect"), History: f.text("history"),
		VersionFrom: f.text("version-from"), CacheSalt: config["cache-salt"], Capture: f.text("capture")}
	f.read("max-staleness", &flags.MaxStaleness)
	if f.text("model") == settings.Scripted {
		flags.Builtins()
	}
	now, err := time.Parse(time.RFC3339, f.text("template-now"))
	if f.err != nil || err != nil {
		return p, errors.Join(f.err, err)
	}
	m, err := build.OpenExact(ctx, flags, models, now)
	if err != nil {
		return p, err
	}
	for _, c := range []struct{ name, have string }{{"tokenizer", m.TokenizerID}, {"template", m.TemplateID}} {
		if want := f.text(c.name); want != c.have {
			return p, fmt.Errorf("its %s has changed: %.12s… then, %.12s… now", c.name, want, c.have)
		}
	}
	w, err := wire.New(wire.Options{Replay: &wire.Cassette{}})
	if err != nil {
		return p, err
	}
	p.close = w.Close
	names := append([]string{f.text("model")}, settings.List(config["fallback"])...)
	sent := settings.Parts{PartsFlags: settings.PartsFlags{ModelFlags: settings.ModelFlags{ExtraBody: f.text("extra-body")}, SamplingFlags: settings.SamplingFlags{MaxTokens: o.MaxTokens}}}
	var all []policy.Policy
	for _, name := range names {
		name, _, _ = strings.Cut(name, "@")
		one, err := m.Policy(w, sent, name, replayContext, nil, nil)
		if err != nil {
			return p, errors.Join(fmt.Errorf("model %q: %w", name, err), w.Close())
		}
		all = append(all, one)
	}
	p.Policy, err = policy.NewFallback(all...)
	return p, err
}

// replayContext is longer than any context: what was answered did fit.
const replayContext = 1 << 30

// chain is the run's model with what may have stood in for it.
func chain(w *wire.Client, o chat.Options, model string, fallbacks []string) (policy.Policy, error) {
	var all []policy.Policy
	for _, name := range append([]string{model}, fallbacks...) {
		var err error
		o.Model, _, err = policy.SplitModel(name)
		if err != nil {
			return nil, err
		}
		p, err := chat.New(w, o)
		if err != nil {
			return nil, fmt.Errorf("model %q: %w", o.Model, err)
		}
		all = append(all, p)
	}
	return policy.NewFallback(all...)
}

func routing(config map[string]string) chat.Routing {
	require, _ := strconv.ParseBool(config["require-parameters"])
	return chat.Routing{Order: settings.List(config["provider-order"]), Only: settings.List(config["provider-only"]), Ignore: settings.List(config["provider-ignore"]),
		Sort: config["provider-sort"], DataCollection: config["provider-data-collection"], RequireParameters: require}
}

// profileFor names a server that takes these wishes; digests do not depend on it.
func profileFor(r chat.Routing) string {
	if raw, err := json.Marshal(r); err == nil && string(raw) != "{}" {
		return "openrouter"
	}
	return ""
}

// identityOf reads the identity of a run; the first field that cannot be read is the error.
type identityOf struct {
	fields rundir.Fields
	err    error
}

func (f *identityOf) text(name string) string {
	v, ok := f.fields.Get(name)
	if !ok && f.err == nil {
		f.err = fmt.Errorf("its run.yaml does not tell %s", name)
	}
	return v
}

// read reads a field that is JSON.
func (f *identityOf) read(name string, into any) {
	text := f.text(name)
	if f.err == nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			f.err = fmt.Errorf("%s %q in run.yaml: %w", name, text, err)
		}
	}
}
