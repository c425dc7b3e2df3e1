package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/internal/nearest"
	"hermes/internal/schema"
	"hermes/trajectory"
)

// SetOptions tune a [Set]. The zero value is usable; sizes are in characters.
type SetOptions struct {
	ResultLimit int           // longest result that is shown whole; 0 means 100,000
	TurnLimit   int           // all results of one turn together; 0 means 200,000
	Preview     int           // characters of a spilled result that stay visible; 0 means 1,500
	Workers     int           // calls of one turn at once; 0 means 8
	SpillDir    string        // folder in the box for spilled results; empty means /tmp/hermes-results
	Schemas     *schema.Cache // compiled parameters, for all sets of a run; nil: of this set alone
	// After is called with the result of a call, in the goroutine of the call. May be nil.
	After func(call trajectory.Call, r Result, took time.Duration)
}

func (o SetOptions) withDefaults() SetOptions {
	o.ResultLimit = cmp.Or(o.ResultLimit, 100_000)
	o.TurnLimit = cmp.Or(o.TurnLimit, 200_000)
	o.Preview = cmp.Or(o.Preview, 1500)
	o.Workers = cmp.Or(o.Workers, 8)
	o.SpillDir = cmp.Or(o.SpillDir, "/tmp/hermes-results")
	if o.Schemas == nil {
		o.Schemas = &schema.Cache{}
	}
	return o
}

// Set is the tools of one rollout: it opens them, repairs and checks arguments, runs calls
// and keeps results within their limits. It is safe for concurrent use.
type Set struct {
	scope  *Scope
	opt    SetOptions
	byName map[string]*entry // names and aliases
	names  []string
	canRun bool // a tool of the set can read a spilled file

	mu      sync.Mutex
	counts  map[string]trajectory.ToolCount
	spilled map[string]int // files by name, so that repeated call ids do not overwrite
}

type entry struct {
	def    Def
	schema func() *schema.Schema // compiled at the first call
	handle Handler
}

// NewSet opens the tools for one rollout. It sets scope.Dispatch and scope.Specs where they
// are nil. On error everything that was opened is closed again.
func NewSet(defs []Def, scope *Scope, opt SetOptions) (*Set, error) {
	s := &Set{scope: scope, opt: opt.withDefaults(), byName: map[string]*entry{},
		counts: map[string]trajectory.ToolCount{}, spilled: map[string]int{}}
	for _, d := range defs {
		s.names = append(s.names, d.Spec.Name)
	}
	slices.Sort(s.names)
	if scope.Dispatch == nil {
		scope.Dispatch = s.Dispatch
	}
	if scope.Specs == nil {
		scope.Specs = s.codeSpecs
	}
	for _, d := range defs {
		if err := s.add(d); err != nil {
			_ = scope.Close(context.Background())
			return nil, err
		}
	}
	return s, nil
}

func (s *Set) add(d Def) error {
	name := d.Spec.Name
	if d.Respec != nil {
		d.Spec = d.Respec(d.Spec, slices.Clone(s.names))
	}
	e := &entry{def: d, schema: sync.OnceValue(func() *schema.Schema { return s.opt.Schemas.Lenient(d.Spec.Parameters) })}
	for _, n := range append([]string{name}, d.Aliases...) {
		if _, taken := s.byName[n]; taken {
			return fmt.Errorf("tool %s: the name %q is taken", name, n)
		}
		s.byName[n] = e
	}
	h, err := d.Open(s.scope)
	if err != nil {
		return fmt.Errorf("open tool %s: %w", name, err)
	}
	e.handle = h
	s.counts[name] = trajectory.ToolCount{}
	s.canRun = s.canRun || d.Traits.NeedsBox && (name == "read_file" || name == "terminal")
	return nil
}

// Specs are the tools as the model is shown them, sorted by name.
func (s *Set) Specs() []trajectory.ToolSpec {
	specs := make([]trajectory.ToolSpec, len(s.names))
	for i, n := range s.names {
		specs[i] = s.byName[n].def.Spec
	}
	return specs
}

func (s *Set) codeSpecs() []trajectory.ToolSpec {
	return slices.DeleteFunc(s.Specs(), func(t trajectory.ToolSpec) bool { return !s.byName[t.Name].def.Traits.FromCode })
}

// Traits returns the traits of a tool of the set.
func (s *Set) Traits(name string) (Traits, bool) {
	e, ok := s.byName[name]
	if !ok {
		return Traits{}, false
	}
	return e.def.Traits, true
}

// Counts are the uses of every tool so far. Calls from code are part of the call of
// execute_code and are not counted again; unknown tools are not listed.
func (s *Set) Counts() map[string]trajectory.ToolCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Close undoes what the tools of the rollout did outside of their box.
func (s *Set) Close(ctx context.Context) error { return s.scope.Close(ctx) }

// Call answers one call. An error means that the box or something else of ours failed;
// whatever the model did wrong is a result that says so.
func (s *Set) Call(ctx context.Context, call trajectory.Call) (Result, error) {
	r, err := s.run(ctx, call)
	if err != nil {
		return Result{}, err
	}
	return s.limit(ctx, call, r)
}

func (s *Set) run(ctx context.Context, call trajectory.Call) (Result, error) {
	start := s.now()
	e, r, err := s.answer(ctx, call)
	if err != nil {
		return Result{}, err
	}
	if e != nil {
		s.count(e.def.Spec.Name, r.Failed)
	}
	if s.opt.After != nil {
		s.opt.After(call, r, s.now().Sub(start))
	}
	return r, nil
}

func (s *Set) answer(ctx context.Context, call trajectory.Call) (*entry, Result, error) {
	e, ok := s.byName[call.Name]
	if !ok {
		return nil, s.unknown(call.Name), nil
	}
	args, bad := e.arguments(call.Arguments)
	if bad != nil {
		return e, *bad, nil
	}
	r, err := e.call(ctx, s.scope, args)
	return e, r, err
}

// Dispatch answers a call that code or a verifier makes: only tools that may be called from
// code, without the limits for results that a model reads, and not counted.
func (s *Set) Dispatch(ctx context.Context, name string, raw json.RawMessage) (Result, error) {
	e, ok := s.byName[name]
	if !ok {
		return s.unknown(name), nil
	}
	if !e.def.Traits.FromCode {
		return Errorf("Tool %s cannot be called from code", name), nil
	}
	args, bad := e.arguments(string(raw))
	if bad != nil {
		return *bad, nil
	}
	return e.call(context.WithValue(ctx, codeKey{}, true), s.scope, args)
}

type codeKey struct{}

// FromCode reports whether the call was made by code, so that its result does not enter
// the conversation.
func FromCode(ctx context.Context) bool { return ctx.Value(codeKey{}) != nil }

func (e *entry) arguments(text string) (json.RawMessage, *Result) {
	raw, err := RepairArguments(text)
	if err != nil {
		r := Errorf("Invalid JSON in the arguments of %s: %v", e.def.Spec.Name, err)
		r.Fault = FaultJSON
		return nil, &r
	}
	args, err := e.schema().Fit("arguments", raw)
	if err != nil {
		r := Errorf("Invalid arguments for %s: %v", e.def.Spec.Name, err)
		r.Fault = FaultArguments
		return nil, &r
	}
	return args, nil
}

// call runs the handler; a panic of one tool must not end the others' rollouts.
func (e *entry) call(ctx context.Context, s *Scope, args json.RawMessage) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = Errorf("Tool execution failed: %T: %v", p, p), nil
			r.Fault = FaultPanic
			if s.Log != nil {
				s.Log.Error("tool panicked", "tool", e.def.Spec.Name, "panic", p, "stack", string(debug.Stack()))
			}
		}
	}()
	return e.handle(ctx, args)
}

func (s *Set) unknown(name string) Result {
	text := fmt.Sprintf("Unknown tool: %s", name)
	if near := nearest.Name(name, slices.Collect(maps.Keys(s.byName))); near != "" {
		text += fmt.Sprintf(" (did you mean %s?)", near)
	}
	text += ". Available: " + cmp.Or(strings.Join(s.names, ", "), "none")
	return Result{Text: JSON(map[string]string{"error": text}), Failed: true, Fault: FaultUnknown}
}

func (s *Set) count(name string, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[name]
	c.Count++
	if failed {
		c.Failure++
	} else {
		c.Success++
	}
	s.counts[name] = c
}

func (s *Set) now() time.Time {
	if s.scope.Now != nil {
		return s.scope.Now()
	}
	return time.Time{}
}
