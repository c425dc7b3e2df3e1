// Package nomadtest is a Nomad agent for tests: the part of the HTTP API that a pool of
// slots needs, over allocations that are real processes.
//
// Each allocation runs its task's command with its own directory and port, so
// leases, deaths and restarts are real. The fake keeps the traps of the real agent: stubs
// without ports, the highest index stopped first, places kept by failed allocations until
// they are rescheduled, boxes of lost nodes that go on answering, validation errors with
// status 500. A task of driver docker runs the fake's own program in place of an image,
// when the image is one that the fake knows.
//
// A Fake is safe for concurrent use.
package nomadtest

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Options describe a cluster. The zero value is usable.
type Options struct {
	Nodes      int           // 0: two
	MemoryMB   int           // of each node; 0: 64 GiB
	Drivers    []string      // of the nodes; none: raw_exec and docker
	Images     []string      // that can be pulled
	Program    string        // slotd: what a docker task runs instead of its entrypoint
	ACL        string        // token that calls must have; empty: none
	Reschedule time.Duration // after a failure; 0: the 5 s of the real agent
	News       time.Duration // from the return of the servers until a node tells what it saw meanwhile; 0: 5 s, as the real agent
}

// Fake is one agent, server and client of all nodes.
type Fake struct {
	opt     Options
	dir     string
	web     *http.Server
	address string
	work    sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	index   uint64
	serial  int
	closed  bool
	jobs    map[string]*job
	allocs  map[string]*alloc
	nodes   []*api.Node

	down, leaderless, exhausted bool
	slow                        time.Duration
	deployment                  int // scalings that are still blocked
}

// job is a registered job with what has become of it.
type job struct {
	api.Job
	evals   []*api.Evaluation
	events  []api.ScalingEvent // the latest first
	stopped bool               // by an operator: its count means nothing
}

func (j *job) group() *api.TaskGroup { return j.TaskGroups[0] }

// New starts an agent on loopback. Close ends it.
func New(o Options) (*Fake, error) {
	o.Nodes, o.MemoryMB, o.Reschedule = cmp.Or(o.Nodes, 2), cmp.Or(o.MemoryMB, 64<<10), cmp.Or(o.Reschedule, 5*time.Second)
	o.News = cmp.Or(o.News, 5*time.Second)
	if len(o.Drivers) == 0 {
		o.Drivers = []string{"raw_exec", "docker"}
	}
	dir, err := os.MkdirTemp("", "nomadtest-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Fake{opt: o, dir: dir, address: "http://" + l.Addr().String(), changed: make(chan struct{}), index: 10, jobs: map[string]*job{}, allocs: map[string]*alloc{}}
	for i := range o.Nodes {
		f.nodes = append(f.nodes, &api.Node{ID: fmt.Sprintf("node-%d", i), Name: fmt.Sprintf("node-%d", i), Datacenter: "dc1", Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible,
			NodeResources: &api.NodeResources{Memory: api.NodeMemoryResources{MemoryMB: int64(o.MemoryMB)}, Cpu: api.NodeCpuResources{CpuShares: 1 << 20}}})
	}
	f.web = &http.Server{Handler: f.guard(f.routes()), ReadHeaderTimeout: time.Minute}
	f.work.Go(func() { f.web.Serve(l) })
	return f, nil
}

// Address is the agent's.
func (f *Fake) Address() string { return f.address }

// Close ends the agent and every process that it started.
func (f *Fake) Close() error {
	f.mu.Lock()
	f.closed = true
	for _, a := range f.allocs {
		f.end(a, "agent closed")
	}
	f.bump()
	f.mu.Unlock()
	f.web.Close()
	f.work.Wait()
	return os.RemoveAll(f.dir)
}

// bump says that something has changed. The fake is locked.
func (f *Fake) bump() uint64 {
	f.index++
	close(f.changed)
	f.changed = make(chan struct{})
	return f.index
}

// id makes a name. The fake is locked.
func (f *Fake) id(kind string) string {
	f.serial++
	return fmt.Sprintf("%s-%08d", kind, f.serial)
}

// schedule brings the allocations of a job to its count, and notes an evaluation that
// says what could not be placed. The fake is locked.
func (f *Fake) schedule(j *job, trigger string) *api.Evaluation {
	index := f.bump()
	e := &api.Evaluation{ID: f.id("eval"), JobID: *j.ID, TriggeredBy: trigger, Status: "complete", CreateIndex: index, ModifyIndex: index}
	j.evals = slices.DeleteFunc(j.evals, func(o *api.Evaluation) bool { return o.Status == evalBlocked })
	j.evals = append(j.evals, e)
	if len(j.evals) > 50 {
		j.evals = j.evals[1:]
	}
	if f.closed || f.down {
		return e
	}
	g := j.group()
	count := *g.Count
	if j.stopped {
		count = 0
	}
	places := map[int]bool{}
	for _, a := range f.allocs {
		switch {
		case a.JobID != *j.ID || a.DesiredStatus != api.AllocDesiredStatusRun || a.replaced:
		case a.place >= count:
			f.end(a, notNeeded)
		default:
			places[a.place] = true
		}
	}
	for i := range count {
		if places[i] {
			continue
		}
		if n, m := f.room(j); n != nil {
			f.place(j, i, n)
		} else if e.FailedTGAllocs == nil {
			e.FailedTGAllocs, e.BlockedEval = map[string]*api.AllocationMetric{*g.Name: m}, f.id("eval")
		} else {
			e.FailedTGAllocs[*g.Name].CoalescedFailures++
		}
	}
	if e.FailedTGAllocs != nil {
		index = f.bump()
		j.evals = append(j.evals, &api.Evaluation{ID: e.BlockedEval, JobID: *j.ID, TriggeredBy: "queued-allocs", Status: evalBlocked, CreateIndex: index, ModifyIndex: index, FailedTGAllocs: e.FailedTGAllocs})
	}
	return e
}

// evalBlocked is the status of an evaluation that waits for room.
const evalBlocked = "blocked"

// room finds the ready node with most memory left, or says why there is none. The fake is
// locked.
func (f *Fake) room(j *job) (best *api.Node, m *api.AllocationMetric) {
	t := j.group().Tasks[0]
	m = &api.AllocationMetric{DimensionExhausted: map[string]int{}, ConstraintFiltered: map[string]int{}}
	most := *t.Resources.MemoryMB - 1
	for _, n := range f.nodes {
		if n.Status != api.NodeStatusReady || n.SchedulingEligibility != api.NodeSchedulingEligible ||
			len(j.Datacenters) > 0 && !slices.Contains(j.Datacenters, "*") && !slices.Contains(j.Datacenters, n.Datacenter) {
			continue
		}
		m.NodesEvaluated++
		if !slices.Contains(f.opt.Drivers, t.Driver) {
			m.NodesFiltered++
			m.ConstraintFiltered["missing drivers"]++
			continue
		}
		left := f.opt.MemoryMB
		for _, a := range f.allocs {
			if a.NodeID == n.ID && a.alive() {
				left -= a.memory
			}
		}
		if f.exhausted || left < *t.Resources.MemoryMB {
			m.NodesExhausted++
			m.DimensionExhausted["memory"]++
			continue
		}
		if left > most {
			best, most = n, left
		}
	}
	return best, m
}

// all schedules every job, after the cluster has changed. The fake is locked.
func (f *Fake) all(trigger string) {
	for _, j := range f.jobs {
		f.schedule(j, trigger)
	}
}

// Jobs lists the jobs that are registered.
func (f *Fake) Jobs() (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Count is how many slots a job shall have.
func (f *Fake) Count(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.jobs[id]; j != nil {
		return *j.group().Count
	}
	return 0
}

// Running lists the allocations whose processes live, as `allocation` or, for those on a
// lost node, too.
func (f *Fake) Running() (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, a := range f.allocs {
		if a.process != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Until calls ok after every change until it is true or done is closed, and reports which.
func (f *Fake) Until(done <-chan struct{}, ok func() bool) bool {
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if ok() {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

func (f *Fake) folder(id string) string { return filepath.Join(f.dir, id) }
