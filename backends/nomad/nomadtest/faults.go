package nomadtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"
)

// The methods below do what goes wrong in a cluster.

// Down makes the agent go away, calls under way included. Boxes are untouched.
func (f *Fake) Down() { f.set(func() { f.down = true }) }

// Up brings it back, and what could not be scheduled meanwhile is.
func (f *Fake) Up() {
	f.set(func() {
		f.down = false
		f.all("agent-up")
	})
}

// Leaderless makes calls fail with "No cluster leader".
func (f *Fake) Leaderless(is bool) { f.set(func() { f.leaderless = is }) }

// Slow delays every answer and every start of an allocation; 0 ends it.
func (f *Fake) Slow(by time.Duration) { f.set(func() { f.slow = by }) }

// Deploying refuses the next n changes of a count, as an active deployment does.
func (f *Fake) Deploying(n int) { f.set(func() { f.deployment = n }) }

// Full makes nodes have no room, until it is called with false.
func (f *Fake) Full(is bool) {
	f.set(func() {
		f.exhausted = is
		if !is {
			f.all("queued-allocs")
		}
	})
}

func (f *Fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.bump()
}

// Crash ends the agent and every box at once, as a power cut does. Up brings the agent
// back, which knows nothing of how the boxes ended and starts them again, in their place.
func (f *Fake) Crash() {
	f.set(func() {
		f.down = true
		for _, a := range f.allocs {
			select {
			case <-a.cut:
			default:
				close(a.cut)
			}
		}
	})
}

func (f *Fake) isDown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

// NodeOf is the node of an allocation.
func (f *Fake) NodeOf(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.allocs[id]; a != nil {
		return a.NodeID
	}
	return ""
}

// LoseNode is a node whose client the servers do not hear any more: its allocations are
// lost and replaced elsewhere, and their boxes go on answering until ReturnNode.
func (f *Fake) LoseNode(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findNode(id)
	if err != nil {
		return err
	}
	n.Status = api.NodeStatusDown
	for _, a := range f.allocs {
		if a.NodeID == id && a.alive() {
			a.DesiredStatus = api.AllocDesiredStatusStop
			a.DesiredDescription = nodeDown
			a.ClientStatus = api.AllocClientStatusLost
			a.ModifyIndex = f.bump()
		}
	}
	f.all("node-update")
	return nil
}

// ReturnNode brings a node back: what was lost on it is ended there.
func (f *Fake) ReturnNode(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findNode(id)
	if err != nil {
		return err
	}
	n.Status = api.NodeStatusReady
	for _, a := range f.allocs {
		if a.NodeID == id && a.ClientStatus == api.AllocClientStatusLost {
			f.halt(a)
		}
	}
	f.all("node-update")
	return nil
}

// DrainNode begins a drain; boxes stay until DrainDeadline.
func (f *Fake) DrainNode(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findNode(id)
	if err == nil {
		f.drain(n, &api.DrainSpec{Deadline: time.Hour}, false)
	}
	return err
}

// drain begins or, with no spec, ends a drain. The fake is locked.
func (f *Fake) drain(n *api.Node, spec *api.DrainSpec, eligible bool) {
	n.DrainStrategy, n.Drain = nil, spec != nil
	if spec != nil {
		n.DrainStrategy = &api.DrainStrategy{DrainSpec: *spec, StartedAt: time.Now()}
		n.SchedulingEligibility, n.LastDrain = api.NodeSchedulingIneligible, &api.DrainMetadata{StartedAt: time.Now(), Status: api.DrainStatusDraining}
	} else if eligible {
		n.SchedulingEligibility = api.NodeSchedulingEligible
	}
	f.all("node-drain")
}

// drained ends a drain when nothing is left on the node. The fake is locked.
func (f *Fake) drained(id string) {
	n, err := f.findNode(id)
	if err != nil || n.DrainStrategy == nil {
		return
	}
	for _, a := range f.allocs {
		if a.NodeID == id && !a.ClientTerminalStatus() {
			return
		}
	}
	n.DrainStrategy, n.Drain = nil, false
	n.LastDrain.Status, n.LastDrain.UpdatedAt = api.DrainStatusComplete, time.Now()
}

// DrainDeadline stops what is still on a node that is drained.
func (f *Fake) DrainDeadline(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.allocs {
		if a.NodeID == id && a.alive() {
			f.end(a, migrating)
		}
	}
	f.all("node-drain")
}

// Stop ends an allocation as an operator does, and returns when its process is gone.
func (f *Fake) Stop(id string) error {
	f.mu.Lock()
	a := f.allocs[id]
	if a == nil || f.jobs[a.JobID] == nil {
		f.mu.Unlock()
		return fmt.Errorf("no allocation %s", id)
	}
	a.hard = true
	f.end(a, migrating)
	f.schedule(f.jobs[a.JobID], "alloc-stop")
	f.mu.Unlock()
	f.Until(nil, func() bool { return !slices.Contains(f.Running(), id) })
	return nil
}

// Kill ends the process of an allocation with SIGKILL, as a command of the box could.
func (f *Fake) Kill(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.allocs[id]
	if a == nil || a.process == nil {
		return fmt.Errorf("no process of allocation %s", id)
	}
	return a.process.Kill()
}
