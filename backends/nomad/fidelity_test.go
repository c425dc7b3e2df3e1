//go:build linux

package nomad_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// TestFaithful plays the same calls and the same mishaps to the fake and to real agents.
// What they answer has to be what testdata/answers.txt holds, which was written by real
// agents (UPDATE=1 writes it again).
func TestFaithful(t *testing.T) { // by itself: what it reads must be read before the cluster goes on, 5 s later
	onStages(t, func(t *testing.T, f stage) {
		p := newPlay(t, f)
		for _, act := range []struct {
			name string
			do   func()
		}{
			{"what is not there", p.nothing},
			{"refused jobs", p.refused},
			{"a job lives", p.life},
			{"an operator stops a job", p.halted},
			{"tasks end", p.deaths},
			{"what cannot be placed", p.unplaced}, {"a drain", p.drain}, {"a lost node", p.lost},
			{"the servers are away", p.away}, {"a power cut", p.crash},
		} {
			p.say("== %s", act.name)
			act.do()
		}
		got := p.text.String()
		file := filepath.Join("testdata", "answers.txt")
		if _, real := f.(*agents); real && os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range differences(strings.Split(string(want), "\n"), strings.Split(got, "\n")) {
			t.Error(line)
		}
	})
}

// differences are the lines of one text that are missing in another, and the reverse.
func differences(want, got []string) (lines []string) {
	common := make([][]int, len(want)+1) // of what follows each pair of lines
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(want) || j < len(got); {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, fmt.Sprintf("recorded, line %d: %s", i+1, want[i]))
			i++
		default:
			lines = append(lines, "said now: "+got[j])
			j++
		}
	}
	return lines
}

// play is one performance.
type play struct {
	t    *testing.T
	f    stage
	web  *api.Client
	dir  string // of files that tell tasks to end
	text strings.Builder
}

func newPlay(t *testing.T, f stage) *play {
	web, err := api.NewClient(&api.Config{Address: f.Address()})
	if err != nil {
		t.Fatal(err)
	}
	return &play{t: t, f: f, web: web, dir: t.TempDir()}
}

func (p *play) say(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

// names hides what is different each time.
var names = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27,}|/tmp/[^ "]*`)

// answer says what a call gave: the status and the text of an error, or ok.
func (p *play) answer(what string, err error) {
	var u api.UnexpectedResponseError
	switch {
	case err == nil:
		p.say("%s: ok", what)
	case errors.As(err, &u) && u.HasStatusCode():
		p.say("%s: %d %s", what, u.StatusCode(), names.ReplaceAllString(strings.TrimSpace(u.Body()), "…"))
	default:
		p.t.Fatalf("%s: %v", what, err)
	}
}

// until waits for something that the cluster comes to by itself.
func (p *play) until(what string, ok func() bool) {
	p.t.Helper()
	until(p.t, p.f, what, ok)
}

// job is one that runs a script in count slots.
func (p *play) job(id string, count int, script string) *api.Job {
	return &api.Job{ID: &id, Name: &id, Type: new("service"), Datacenters: []string{"*"}, TaskGroups: []*api.TaskGroup{{Name: new("sandbox"), Count: &count,
		Update:           &api.UpdateStrategy{MaxParallel: new(0)},
		RestartPolicy:    &api.RestartPolicy{Attempts: new(0), Mode: new("fail")},
		ReschedulePolicy: &api.ReschedulePolicy{Unlimited: new(true), DelayFunction: new("constant"), Delay: new(5 * time.Second)},
		Disconnect:       &api.DisconnectStrategy{StopOnClientAfter: new(time.Minute)},
		EphemeralDisk:    &api.EphemeralDisk{SizeMB: new(120)},
		Networks:         []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "slotd"}}}},
		Tasks: []*api.Task{{
			Name:        "box",
			Driver:      "raw_exec",
			KillTimeout: new(time.Second),
			Config:      map[string]any{"command": "/bin/sh", "args": []string{"-c", script}},
			Resources:   &api.Resources{CPU: new(10), MemoryMB: new(32)},
		}},
	}}}
}

// idle is a script that ends as a file of this name says.
func (p *play) idle(name string) string {
	file := filepath.Join(p.dir, name)
	return fmt.Sprintf("while [ ! -e %s ]; do sleep 0.05; done; . %s", file, file)
}

func (p *play) tell(name, script string) {
	if err := os.WriteFile(filepath.Join(p.dir, name+".new"), []byte(script), 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(p.dir, name+".new"), filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *play) register(j *api.Job) {
	p.t.Helper()
	if _, _, err := p.web.Jobs().Register(j, nil); err != nil {
		p.t.Fatal(err)
	}
}

func (p *play) stubs(job string) []*api.AllocationListStub {
	all, _, err := p.web.Jobs().Allocations(job, true, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b *api.AllocationListStub) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), strings.Compare(a.Name, b.Name))
	})
	return all
}

// running waits until a job has so many running slots that shall run, and gives them in
// the order of their names.
func (p *play) running(job string, n int) (on []*api.AllocationListStub) {
	p.t.Helper()
	p.until(fmt.Sprintf("%d running slots of %s", n, job), func() bool {
		on = slices.DeleteFunc(p.stubs(job), func(a *api.AllocationListStub) bool {
			return a.DesiredStatus != api.AllocDesiredStatusRun || a.ClientStatus != api.AllocClientStatusRunning
		})
		return len(on) == n
	})
	slices.SortFunc(on, func(a, b *api.AllocationListStub) int { return strings.Compare(a.Name, b.Name) })
	return on
}

// show describes an allocation.
func (p *play) show(what, id string) {
	p.t.Helper()
	a, _, err := p.web.Allocations().Info(id, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.say("%s: %s desired %s (%s), client %s, follows another %v", what, a.Name, a.DesiredStatus,
		a.DesiredDescription, a.ClientStatus, a.PreviousAllocation != "")
	s := a.TaskStates["box"]
	if s == nil {
		return
	}
	p.say("  task %s, failed %v", s.State, s.Failed)
	for _, e := range s.Events {
		if slices.Contains([]string{"Terminated", "Driver Failure", "Not Restarting", "Killed", "Killing", "Failed Restoring Task"}, e.Type) {
			p.say("  %s: %s %v", e.Type, names.ReplaceAllString(e.DisplayMessage, "…"), e.Details)
		}
	}
}

// settled waits until an allocation has ended and describes it.
func (p *play) settled(what, id string) {
	p.t.Helper()
	p.until(what, func() bool {
		a, _, err := p.web.Allocations().Info(id, nil)
		return err == nil && a.ClientTerminalStatus()
	})
	p.show(what, id)
}

// evaluations lists how often the servers looked at a job, and why.
func (p *play) evaluations(job string) {
	all, _, err := p.web.Jobs().Evaluations(job, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	var lines []string
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("  evaluation for %s: %s, unplaced %v", e.TriggeredBy, e.Status, e.FailedTGAllocs["sandbox"] != nil))
	}
	slices.Sort(lines)
	p.say("%s", strings.Join(slices.Compact(lines), "\n"))
}

func (p *play) scale(job string, n int) error {
	_, _, err := p.web.Jobs().Scale(job, "sandbox", &n, "test", false, nil, nil)
	return err
}

// gone removes a job and waits until nothing of it runs.
func (p *play) gone(job string) {
	if _, _, err := p.web.Jobs().Deregister(job, true, nil); err != nil {
		p.t.Fatal(err)
	}
	p.until("end of "+job, func() bool { return len(p.f.Running()) == 0 })
}

const unknownID = "00000000-1111-2222-3333-444444444444"

func (p *play) nothing() {
	_, _, err := p.web.Jobs().Info("nope", nil)
	p.answer("job", err)
	all, _, err := p.web.Jobs().Allocations("nope", true, nil)
	p.answer(fmt.Sprintf("its %d allocations", len(all)), err)
	evals, _, err := p.web.Jobs().Evaluations("nope", nil)
	p.answer(fmt.Sprintf("its %d evaluations", len(evals)), err)
	_, _, err = p.web.Jobs().ScaleStatus("nope", nil)
	p.answer("its scale", err)
	p.answer("scale it", p.scale("nope", 1))
	_, _, err = p.web.Jobs().Deregister("nope", true, nil)
	p.answer("remove it", err)
	_, _, err = p.web.Allocations().Info(unknownID, nil)
	p.answer("allocation", err)
	_, err = p.web.Allocations().Stop(&api.Allocation{ID: unknownID}, nil)
	p.answer("stop it", err)
	_, _, err = p.web.Nodes().Info(unknownID, nil)
	p.answer("node", err)
	_, err = p.web.Nodes().UpdateDrain(unknownID, &api.DrainSpec{Deadline: time.Hour}, false, nil)
	p.answer("drain it", err)
}

func (p *play) refused() {
	for _, change := range []struct {
		what string
		do   func(*api.Job)
	}{
		{"a name with a space", func(j *api.Job) { j.ID = new("a b") }},
		{"a namespace that is not there", func(j *api.Job) { j.Namespace = new("nowhere") }},
		{"a negative count", func(j *api.Job) { j.TaskGroups[0].Count = new(-1) }},
		{"a task without driver", func(j *api.Job) { j.TaskGroups[0].Tasks[0].Driver = "" }},
		{"too little memory", func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(5) }},
		{"less disk than logs", func(j *api.Job) { *j.TaskGroups[0].EphemeralDisk.SizeMB = 50 }},
		{"rescheduling too soon", func(j *api.Job) { j.TaskGroups[0].ReschedulePolicy.Delay = new(time.Second) }},
		{"no tasks", func(j *api.Job) { j.TaskGroups[0].Tasks = nil }},
	} {
		j := p.job("refused", 0, "true")
		change.do(j)
		_, _, err := p.web.Jobs().Register(j, nil)
		p.answer(change.what, err)
	}
}

func (p *play) life() {
	j := p.job("life", 1, p.idle("life"))
	_, _, err := p.web.Jobs().RegisterOpts(j, &api.RegisterOptions{EnforceIndex: true}, nil)
	p.answer("register", err)
	first := p.running("life", 1)[0]
	_, _, err = p.web.Jobs().RegisterOpts(p.job("life", 1, p.idle("life")), &api.RegisterOptions{EnforceIndex: true}, nil)
	p.answer("create what is there", err)
	_, _, err = p.web.Jobs().Register(p.job("life", 1, p.idle("life")), nil)
	p.answer("register the same", err)
	p.show("slot", first.ID)
	a, _, err := p.web.Allocations().Info(first.ID, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range a.AllocatedResources.Shared.Ports {
		p.say("port %s of %s to %d, has a number %v; the list has resources %v", m.Label, m.HostIP, m.To, m.Value > 1024, first.AllocatedResources != nil)
	}
	p.answer("3 slots", p.scale("life", 3))
	p.running("life", 3)
	_, _, err = p.web.Jobs().Scale("life", "sandbox", nil, "a note", false, nil, nil)
	p.answer("a note", err)
	s, _, err := p.web.Jobs().ScaleStatus("life", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	g := s.TaskGroups["sandbox"]
	p.say("scale: desired %d, placed %d, running %d, events %d, the latest says %q", g.Desired, g.Placed, g.Running, len(g.Events), g.Events[0].Message)
	p.answer("1 slot", p.scale("life", 1))
	left := p.running("life", 1)
	p.say("left %s, the first %v", left[0].Name, left[0].ID == first.ID)
	for _, a := range p.stubs("life")[1:] {
		p.settled("not needed", a.ID)
	}
	_, _, err = p.web.Jobs().Scale("life", "other", new(1), "", false, nil, nil)
	p.answer("scale another group", err)
	p.answer("scale below 0", p.scale("life", -1))
	_, err = p.web.Allocations().Stop(&api.Allocation{ID: first.ID}, nil)
	p.answer("stop it", err)
	p.settled("stopped", first.ID)
	p.show("in its place", p.running("life", 1)[0].ID)
	p.answer("0 slots", p.scale("life", 0))
	p.running("life", 0)
	p.until("end of all", func() bool { return len(p.f.Running()) == 0 })
	p.state("life")
	p.answer("1 slot", p.scale("life", 1))
	last := p.running("life", 1)[0]
	p.evaluations("life")
	_, _, err = p.web.Jobs().Deregister("life", true, nil)
	p.answer("remove", err)
	p.until("end of all", func() bool { return len(p.f.Running()) == 0 })
	_, _, err = p.web.Jobs().Info("life", nil)
	p.answer("the job", err)
	_, _, err = p.web.Allocations().Info(last.ID, nil)
	p.answer("its slot", err)
	_, _, err = p.web.Jobs().Deregister("life", true, nil)
	p.answer("remove it again", err)
}

func (p *play) halted() {
	p.register(p.job("halted", 1, p.idle("never")))
	old := p.running("halted", 1)[0]
	_, _, err := p.web.Jobs().Deregister("halted", false, nil)
	p.answer("stop", err)
	p.settled("stopped", old.ID)
	p.state("halted")
	p.answer("2 slots", p.scale("halted", 2))
	p.state("halted")
	p.register(p.job("halted", 1, p.idle("never")))
	p.running("halted", 1)
	p.state("halted")
	p.gone("halted")
}

// state describes a job.
func (p *play) state(job string) {
	j, _, err := p.web.Jobs().Info(job, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.say("job %s, stopped %v, count %d", *j.Status, *j.Stop, *j.TaskGroups[0].Count)
}

func (p *play) deaths() {
	for i, end := range []struct{ name, script string }{{"exits with 0", "exit 0"}, {"exits with 3", "exit 3"}, {"is killed", "kill -9 $$"}} {
		name := fmt.Sprintf("end%d", i)
		p.register(p.job(name, 2, p.idle(name)))
		old := p.running(name, 2)
		// Only the first ends, and what comes in its place does not.
		p.tell(name, "case $NOMAD_ALLOC_INDEX in 0) rm "+filepath.Join(p.dir, name)+"; "+end.script+";; esac; "+p.idle("never"))
		p.settled(end.name, old[0].ID)
		p.show("in its place", p.running(name, 2)[0].ID)
		p.show("what was before", old[0].ID)
		p.gone(name)
	}
	j := p.job("ends", 1, "true")
	j.TaskGroups[0].Tasks[0].Config["command"] = "/does/not/exist"
	p.register(j)
	p.until("a failure", func() bool {
		all := p.stubs("ends")
		return len(all) > 0 && all[0].ClientStatus == api.AllocClientStatusFailed
	})
	p.show("no such command", p.stubs("ends")[0].ID)
	p.gone("ends")
}

func (p *play) unplaced() {
	for i, change := range []struct {
		what string
		do   func(*api.Job)
	}{
		{"a driver that no node has", func(j *api.Job) { j.TaskGroups[0].Tasks[0].Driver = "nope" }},
		{"more memory than any node has", func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(900 << 10) }},
		{"a datacenter without nodes", func(j *api.Job) { j.Datacenters = []string{"nowhere"} }},
	} {
		id := fmt.Sprintf("unplaced%d", i)
		j := p.job(id, 2, "true")
		change.do(j)
		p.register(j)
		var e *api.Evaluation
		p.until("an evaluation", func() bool {
			all, _, err := p.web.Jobs().Evaluations(id, nil)
			if err != nil {
				p.t.Fatal(err)
			}
			i := slices.IndexFunc(all, func(e *api.Evaluation) bool { return e.TriggeredBy == "job-register" && e.Status == "complete" })
			if i >= 0 {
				e = all[i]
			}
			return i >= 0
		})
		m := e.FailedTGAllocs["sandbox"]
		if m == nil {
			p.t.Fatalf("%s: %+v", change.what, e)
		}
		p.state(id)
		p.say("%s: blocked %v, evaluated %d, filtered %d, exhausted %d, constraints %v, dimensions %v, further %d", change.what, e.BlockedEval != "",
			m.NodesEvaluated, m.NodesFiltered, m.NodesExhausted, m.ConstraintFiltered, m.DimensionExhausted, m.CoalescedFailures)
		p.evaluations(id)
		p.gone(id)
	}
}

// node describes one.
func (p *play) node(what, id string) {
	n, _, err := p.web.Nodes().Info(id, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.say("%s: %s, %s, drained now %v", what, n.Status, n.SchedulingEligibility, n.DrainStrategy != nil)
	if n.LastDrain != nil && n.Status == api.NodeStatusReady && strings.Contains(what, "drain") {
		p.say("  last drain %s", n.LastDrain.Status)
	}
}

func (p *play) drain() {
	p.register(p.job("drain", 2, p.idle("never")))
	old := p.running("drain", 2)
	p.say("on different nodes %v", old[0].NodeID != old[1].NodeID)
	if err := p.f.DrainNode(old[0].NodeID); err != nil {
		p.t.Fatal(err)
	}
	p.node("draining", old[0].NodeID)
	p.show("slot", old[0].ID)
	p.f.DrainDeadline(old[0].NodeID)
	p.settled("at the deadline", old[0].ID)
	fresh := p.running("drain", 2)
	p.say("both on the other node %v", fresh[0].NodeID == old[1].NodeID && fresh[1].NodeID == old[1].NodeID)
	p.show("in its place", fresh[0].ID)
	p.until("end of the drain", func() bool {
		n, _, err := p.web.Nodes().Info(old[0].NodeID, nil)
		return err == nil && n.DrainStrategy == nil
	})
	p.node("drained", old[0].NodeID)
	_, err := p.web.Nodes().ToggleEligibility(old[0].NodeID, true, nil)
	p.answer("make it eligible", err)
	p.node("again", old[0].NodeID)
	p.evaluations("drain")
	p.gone("drain")
}

func (p *play) lost() {
	p.register(p.job("lost", 2, p.idle("never")))
	old := p.running("lost", 2)
	node := old[0].NodeID
	if err := p.f.LoseNode(node); err != nil {
		p.t.Fatal(err)
	}
	fresh := p.running("lost", 2)
	p.show("lost", old[0].ID)
	p.say("it lives on %v", slices.Contains(p.f.Running(), old[0].ID))
	p.show("in its place", fresh[0].ID)
	p.node("the node", node)
	if err := p.f.ReturnNode(node); err != nil {
		p.t.Fatal(err)
	}
	p.until("its end", func() bool { return !slices.Contains(p.f.Running(), old[0].ID) })
	p.until("the news of it", func() bool {
		a, _, err := p.web.Allocations().Info(old[0].ID, nil)
		return err == nil && a.ClientStatus != api.AllocClientStatusLost && a.ClientTerminalStatus()
	})
	a, _, err := p.web.Allocations().Info(old[0].ID, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.say("when it is back: desired %s (%s), client %s", a.DesiredStatus, a.DesiredDescription, a.ClientStatus)
	p.node("the node", node)
	p.gone("lost")
}

func (p *play) away() {
	p.register(p.job("away", 1, p.idle("away")))
	old := p.running("away", 1)[0]
	p.f.Down()
	p.tell("away", "rm "+filepath.Join(p.dir, "away")+"; kill -9 $$")
	p.until("its end", func() bool { return !slices.Contains(p.f.Running(), old.ID) })
	p.f.Up()
	var fresh *api.AllocationListStub
	p.until("another in its place", func() bool {
		fresh = p.running("away", 1)[0] // the old one, until its node tells
		return fresh.ID != old.ID
	})
	p.show("it was killed meanwhile", old.ID)
	p.show("in its place", fresh.ID)
	p.gone("away")
}

func (p *play) crash() {
	p.register(p.job("crash", 1, p.idle("never")))
	old := p.running("crash", 1)[0]
	p.f.Crash()
	p.until("its end", func() bool { return !slices.Contains(p.f.Running(), old.ID) })
	p.f.Up()
	p.until("the same slot again", func() bool {
		a, _, err := p.web.Allocations().Info(old.ID, nil)
		return err == nil && slices.Contains(p.f.Running(), old.ID) && happened(a, "Failed Restoring Task") && a.ClientStatus == api.AllocClientStatusRunning
	})
	p.show("it runs again", old.ID)
	p.gone("crash")
}

// happened reports whether something of a kind happened to an allocation's task.
func happened(a *api.Allocation, kind string) bool {
	return slices.ContainsFunc(a.TaskStates["box"].Events, func(e *api.TaskEvent) bool { return e.Type == kind })
}
