package modaltest

import (
	"fmt"

	"hermes/backends/modal/wire"
)

// byName finds the sandbox that runs, or ran last, under a name.
func (f *Fake) byName(name string) (*sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found *sandbox
	for _, s := range f.sandboxes {
		if s.Name == name && (found == nil || s.Created > found.Created) {
			found = s
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no sandbox was ever named %s", name)
	}
	return found, nil
}

// Kill ends a sandbox as a worker that dies does.
func (f *Fake) Kill(name string) error { return f.EndAs(name, wire.StatusInternal) }

// EndAs ends a sandbox with a status of the service.
func (f *Fake) EndAs(name string, how int32) error {
	s, err := f.byName(name)
	if err == nil {
		f.end(s, wire.Result{Status: how})
	}
	return err
}

// Forget has the service know nothing of a sandbox any more.
func (f *Fake) Forget(name string) error {
	s, err := f.byName(name)
	if err != nil {
		return err
	}
	f.end(s, wire.Result{Status: wire.StatusTerminated})
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sandboxes, s.ID)
	return nil
}

// Definition is how a sandbox was asked for.
func (f *Fake) Definition(name string) (*wire.Sandbox, []*wire.Tag, error) {
	s, err := f.byName(name)
	if err != nil {
		return nil, nil, err
	}
	return s.def, s.Tags, nil
}

// Running counts the sandboxes that have not ended, of one token or ("") of all.
func (f *Fake) Running(token string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sandboxes {
		if !s.ended() && (token == "" || s.whose == token) {
			n++
		}
	}
	return n
}

// KillAll ends every sandbox as a service that fails does.
func (f *Fake) KillAll() {
	f.mu.Lock()
	var all []*sandbox
	for _, s := range f.sandboxes {
		all = append(all, s)
	}
	f.mu.Unlock()
	for _, s := range all {
		f.end(s, wire.Result{Status: wire.StatusInternal})
	}
}
