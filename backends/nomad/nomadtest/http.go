//lint:file-ignore ST1005 the texts are those of the real agent

package nomadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// refusal is an answer of the agent that is an error: text with a status.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

// guard is what every call meets first: an agent that is away, slow, without a leader, or
// that wants a token.
func (f *Fake) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		slow, index := f.slow, f.index
		f.mu.Unlock()
		if slow > 0 {
			wait := time.NewTimer(slow)
			defer wait.Stop()
			select {
			case <-wait.C:
			case <-r.Context().Done():
				return
			}
		}
		f.mu.Lock()
		down, leaderless := f.down, f.leaderless
		f.mu.Unlock()
		switch {
		case down:
			panic(http.ErrAbortHandler) // the connection ends without an answer
		case leaderless:
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
		case f.opt.ACL != "" && r.URL.Path != "/v1/status/leader" && r.Header.Get("X-Nomad-Token") != f.opt.ACL:
			http.Error(w, "Permission denied", http.StatusForbidden)
		default:
			w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
			w.Header().Set("X-Nomad-LastContact", "0")
			w.Header().Set("X-Nomad-KnownLeader", "true")
			next.ServeHTTP(w, r)
		}
	})
}

// routes is the table of calls.
func (f *Fake) routes() http.Handler {
	m := http.NewServeMux()
	for pattern, call := range map[string]func(*http.Request) (any, error){
		"GET /v1/status/leader":         func(*http.Request) (any, error) { return "127.0.0.1:4647", nil },
		"PUT /v1/jobs":                  f.register,
		"GET /v1/jobs":                  f.listJobs,
		"GET /v1/job/{id}":              f.getJob,
		"GET /v1/job/{id}/allocations":  f.allocations,
		"GET /v1/job/{id}/evaluations":  f.evaluations,
		"GET /v1/job/{id}/scale":        f.scaleStatus,
		"PUT /v1/job/{id}/scale":        f.scale,
		"DELETE /v1/job/{id}":           f.deregister,
		"GET /v1/allocation/{id}":       f.allocation,
		"PUT /v1/allocation/{id}/stop":  f.stopAllocation,
		"POST /v1/allocation/{id}/stop": f.stopAllocation,
		"GET /v1/nodes":                 f.listNodes,
		"GET /v1/node/{id}":             f.node,
		"PUT /v1/node/{id}/drain":       f.drainNode,
		"PUT /v1/node/{id}/eligibility": f.eligible,
	} {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !f.block(r) {
				panic(http.ErrAbortHandler)
			}
			f.mu.Lock()
			v, err := call(r)
			index := f.index
			var body []byte
			if err == nil {
				body, err = json.Marshal(v)
			}
			f.mu.Unlock()
			var no refusal
			switch {
			case errors.As(err, &no):
				http.Error(w, no.text, no.status)
			case err != nil:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			default:
				w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
				w.Header().Set("Content-Type", "application/json")
				w.Write(body)
			}
		})
	}
	return m
}

// block is a blocking query: it waits until the state is newer than ?index=. It reports
// false when the agent went away meanwhile.
func (f *Fake) block(r *http.Request) bool {
	after, err := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	if err != nil {
		return true
	}
	most, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || most <= 0 {
		most = 5 * time.Minute
	}
	end := time.NewTimer(most)
	defer end.Stop()
	for {
		f.mu.Lock()
		index := f.index
		changed := f.changed
		down := f.down || f.closed
		f.mu.Unlock()
		if down {
			return false
		}
		if index > after {
			return true
		}
		select {
		case <-changed:
		case <-end.C:
			return true
		case <-r.Context().Done():
			return true
		}
	}
}

func (f *Fake) find(r *http.Request) (*job, error) {
	if j := f.jobs[r.PathValue("id")]; j != nil {
		return j, nil
	}
	return nil, refusal{http.StatusNotFound, "job not found"}
}

func (f *Fake) register(r *http.Request) (any, error) {
	var q struct {
		Job            *api.Job
		EnforceIndex   bool
		JobModifyIndex uint64
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	if err := valid(q.Job); err != nil {
		return nil, refusal{http.StatusInternalServerError, err.Error()}
	}
	j := f.jobs[*q.Job.ID]
	if j != nil && q.EnforceIndex && q.JobModifyIndex != *j.JobModifyIndex {
		return nil, refusal{http.StatusInternalServerError, fmt.Sprintf("Enforcing job modify index %d: job already exists", q.JobModifyIndex)}
	}
	if j == nil {
		index := f.bump()
		j = &job{Job: *q.Job}
		j.Status = new("pending")
		j.JobModifyIndex = &index
		j.SubmitTime = new(time.Now().UnixNano())
		f.jobs[*j.ID] = j
	} else {
		j.group().Count, j.stopped = q.Job.TaskGroups[0].Count, false
	}
	e := f.schedule(j, "job-register")
	return map[string]any{"EvalID": e.ID, "EvalCreateIndex": e.CreateIndex, "JobModifyIndex": *j.JobModifyIndex}, nil
}

// valid refuses what the real agent refuses of the jobs that are made here, in its words.
func valid(j *api.Job) error {
	switch {
	case j == nil || j.ID == nil || *j.ID == "":
		return multi("Missing job ID")
	case strings.Contains(*j.ID, " "):
		return multi("Job ID contains a space")
	case j.Namespace != nil && *j.Namespace != "" && *j.Namespace != "default":
		return multi(fmt.Sprintf("job %q is in nonexistent namespace %q", *j.ID, *j.Namespace))
	case len(j.TaskGroups) != 1 || len(j.TaskGroups[0].Tasks) > 1 || j.Type == nil || *j.Type != "service" || j.TaskGroups[0].Count == nil:
		return errors.New("the fake knows service jobs of one group with a count and one task")
	}
	g := j.TaskGroups[0]
	group := "Task group " + *g.Name + " validation failed"
	if *g.Count < 0 {
		return multi(group, "Task group count can't be negative")
	}
	if p := g.ReschedulePolicy; p != nil && p.Delay != nil && *p.Delay < 5*time.Second {
		return multi(group, fmt.Sprintf("Delay cannot be less than 5s (got %v)", *p.Delay))
	}
	if len(g.Tasks) == 0 {
		return multi(group, "Missing tasks for task group")
	}
	t := g.Tasks[0]
	task := "Task " + t.Name + " validation failed"
	switch {
	case t.Driver == "":
		return multi(group, task, "Missing task driver")
	case t.Resources == nil || t.Resources.MemoryMB == nil || g.EphemeralDisk == nil || g.EphemeralDisk.SizeMB == nil:
		return errors.New("the fake knows groups with memory and disk")
	case *t.Resources.MemoryMB < 10:
		return multi(group, task, "", "", fmt.Sprintf("minimum MemoryMB value is 10; got %d", *t.Resources.MemoryMB))
	case *g.EphemeralDisk.SizeMB < 100:
		return multi(group, task, "", fmt.Sprintf("log storage (100 MB) must be less than requested disk capacity (%d MB)", *g.EphemeralDisk.SizeMB))
	}
	return nil
}

// multi nests a mistake in what it is a mistake of.
func multi(of ...string) error {
	var text strings.Builder
	for _, s := range of[:len(of)-1] {
		fmt.Fprintf(&text, "1 error occurred:\n\t* %s", s)
		if s != "" {
			text.WriteString(": ")
		}
	}
	return fmt.Errorf("%s1 error occurred:\n\t* %s", text.String(), of[len(of)-1])
}

func (f *Fake) listJobs(r *http.Request) (any, error) {
	list := []*api.JobListStub{}
	for id, j := range f.jobs {
		if strings.HasPrefix(id, r.URL.Query().Get("prefix")) {
			s := &api.JobListStub{ID: id, Name: id, Type: *j.Type, Status: f.status(j), SubmitTime: *j.SubmitTime}
			if r.URL.Query().Get("meta") == "true" {
				s.Meta = j.Meta
			}
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *api.JobListStub) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

func (f *Fake) getJob(r *http.Request) (any, error) {
	j, err := f.find(r)
	if err != nil {
		return nil, err
	}
	j.Status, j.Stop = new(f.status(j)), &j.stopped
	return j.Job, nil
}

// status is what the servers call a job: dead when there is nothing of it, although its
// count may rise again. The fake is locked.
func (f *Fake) status(j *job) string {
	status := "dead"
	if len(j.evals) > 0 && j.evals[len(j.evals)-1].Status == evalBlocked {
		status = "pending"
	}
	for _, a := range f.allocs {
		if a.JobID == *j.ID && a.alive() {
			status = "running"
		}
	}
	return status
}

// allocations lists stubs: without the ports, as the real agent.
func (f *Fake) allocations(r *http.Request) (any, error) {
	list := []*api.AllocationListStub{}
	for _, a := range f.allocs {
		if a.JobID == r.PathValue("id") {
			list = append(list, &api.AllocationListStub{ID: a.ID, Name: a.Name, NodeID: a.NodeID, NodeName: a.NodeName, JobID: a.JobID, TaskGroup: a.TaskGroup, DesiredStatus: a.DesiredStatus,
				DesiredDescription: a.DesiredDescription, ClientStatus: a.ClientStatus, TaskStates: a.TaskStates, CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex, CreateTime: a.CreateTime})
		}
	}
	slices.SortFunc(list, func(a, b *api.AllocationListStub) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

func (f *Fake) evaluations(r *http.Request) (any, error) {
	j, err := f.find(r)
	if err != nil {
		return []*api.Evaluation{}, nil
	}
	return j.evals, nil
}

func (f *Fake) scaleStatus(r *http.Request) (any, error) {
	j, err := f.find(r)
	if err != nil {
		return nil, err
	}
	s := api.TaskGroupScaleStatus{Desired: *j.group().Count, Events: j.events}
	for _, a := range f.allocs {
		if a.JobID == *j.ID && a.alive() {
			s.Placed++
		}
		if a.JobID == *j.ID && a.ClientStatus == api.AllocClientStatusRunning {
			s.Running++
		}
	}
	return api.JobScaleStatusResponse{JobID: *j.ID, TaskGroups: map[string]api.TaskGroupScaleStatus{*j.group().Name: s}}, nil
}

func (f *Fake) scale(r *http.Request) (any, error) {
	j, err := f.find(r)
	if err != nil {
		return nil, refusal{http.StatusNotFound, fmt.Sprintf("job %q not found", r.PathValue("id"))}
	}
	var q api.ScalingRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	if q.Target["Group"] != *j.group().Name {
		return nil, refusal{http.StatusBadRequest, fmt.Sprintf("task group %q specified for scaling does not exist in job", q.Target["Group"])}
	}
	if q.Count != nil && *q.Count < 0 {
		return nil, refusal{http.StatusBadRequest, "scaling action count can't be negative"}
	}
	if q.Count != nil && f.deployment > 0 {
		f.deployment--
		return nil, refusal{http.StatusBadRequest, "job scaling blocked due to active deployment"}
	}
	event := api.ScalingEvent{Count: q.Count, PreviousCount: int64(*j.group().Count), Message: q.Message, Time: uint64(time.Now().UnixNano())}
	j.events = slices.Insert(j.events, 0, event)
	if len(j.events) > 20 {
		j.events = j.events[:20]
	}
	answer := map[string]any{"JobModifyIndex": *j.JobModifyIndex}
	if q.Count != nil {
		j.group().Count = new(int(*q.Count))
		answer["EvalID"] = f.schedule(j, "job-scaling").ID
	}
	return answer, nil
}

// deregister removes a job with purge: allocations are gone at once, their processes soon.
func (f *Fake) deregister(r *http.Request) (any, error) {
	j, err := f.find(r)
	if err != nil {
		return map[string]any{"EvalID": ""}, nil // nothing to do is no mistake
	}
	if r.URL.Query().Get("purge") != "true" {
		j.stopped = true
		return map[string]any{"EvalID": f.schedule(j, "job-deregister").ID}, nil
	}
	delete(f.jobs, *j.ID)
	for id, a := range f.allocs {
		if a.JobID == *j.ID {
			f.end(a, notNeeded)
			if a.process == nil {
				delete(f.allocs, id)
			}
		}
	}
	f.bump()
	return map[string]any{"EvalID": f.id("eval")}, nil
}

func (f *Fake) findAlloc(r *http.Request) (*alloc, error) {
	if a := f.allocs[r.PathValue("id")]; a != nil && f.jobs[a.JobID] != nil {
		return a, nil
	}
	return nil, refusal{http.StatusNotFound, "alloc not found"}
}

func (f *Fake) allocation(r *http.Request) (any, error) {
	a, err := f.findAlloc(r)
	if err != nil {
		return nil, err
	}
	return a.Allocation, nil
}

func (f *Fake) stopAllocation(r *http.Request) (any, error) {
	a, err := f.findAlloc(r)
	if err != nil {
		return nil, refusal{http.StatusNotFound, "allocation not found"}
	}
	f.end(a, migrating)
	e := f.schedule(f.jobs[a.JobID], "alloc-stop")
	return map[string]any{"EvalID": e.ID, "Index": f.index}, nil
}

func (f *Fake) findNode(id string) (*api.Node, error) {
	for _, n := range f.nodes {
		if n.ID == id {
			return n, nil
		}
	}
	return nil, refusal{http.StatusNotFound, "node not found"}
}

func (f *Fake) listNodes(r *http.Request) (any, error) {
	list := []*api.NodeListStub{}
	for _, n := range f.nodes {
		s := &api.NodeListStub{ID: n.ID, Name: n.Name, Datacenter: n.Datacenter, Status: n.Status, SchedulingEligibility: n.SchedulingEligibility, Drain: n.Drain, LastDrain: n.LastDrain}
		if r.URL.Query().Get("resources") == "true" {
			s.NodeResources = n.NodeResources
		}
		list = append(list, s)
	}
	return list, nil
}

func (f *Fake) node(r *http.Request) (any, error) { return f.findNode(r.PathValue("id")) }

func (f *Fake) eligible(r *http.Request) (any, error) {
	n, err := f.findNode(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	var q api.NodeUpdateEligibilityRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	n.SchedulingEligibility = q.Eligibility
	for _, j := range f.jobs {
		if f.status(j) == "pending" {
			f.schedule(j, "queued-allocs")
		}
	}
	return map[string]any{"NodeModifyIndex": f.index}, nil
}

func (f *Fake) drainNode(r *http.Request) (any, error) {
	n, err := f.findNode(r.PathValue("id"))
	if err != nil {
		return nil, refusal{http.StatusInternalServerError, err.Error()}
	}
	var q api.NodeUpdateDrainRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	f.drain(n, q.DrainSpec, q.MarkEligible)
	return map[string]any{"NodeModifyIndex": f.index}, nil
}
