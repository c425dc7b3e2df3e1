//go:build linux

package nomad_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
	"hermes/backends/nomad"
	"hermes/backends/nomad/nomadtest"
)

// patience guards against hanging.
const patience = 2 * time.Minute

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// box opens a box that works.
func box(t testing.TB, b *nomad.Backend, s backends.Spec) backends.Sandbox {
	t.Helper()
	x, err := b.Open(deadline(t), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, x, "echo works"); got != "works" {
		t.Fatalf("a box says %q", got)
	}
	return x
}

func sh(t testing.TB, x backends.Sandbox, script string) string {
	t.Helper()
	r, err := x.Exec(deadline(t), backends.Cmd{Shell: script})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(r.Stdout) + string(r.Stderr))
}

func shut(t testing.TB, x backends.Sandbox) {
	t.Helper()
	if err := x.Close(deadline(t)); err != nil {
		t.Error(err)
	}
}

// until waits for something that the cluster shows.
func until(t testing.TB, f stage, what string, ok func() bool) {
	t.Helper()
	if !f.Until(deadline(t).Done(), ok) {
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// busyExec runs a command without end and gives its error.
func busyExec(t testing.TB, x backends.Sandbox, script string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := x.Exec(context.WithoutCancel(t.Context()), backends.Cmd{Shell: script})
		done <- err
	}()
	return done
}

func outcome(t testing.TB, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-deadline(t).Done():
		t.Fatal("the command did not end")
		return nil
	}
}

// started waits until a command has made a file.
func started(t testing.TB, x backends.Sandbox, file string) {
	t.Helper()
	for ctx := deadline(t); ; {
		if _, err := x.ReadFile(ctx, file, 0); err == nil {
			return
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	f := cluster(t, nomadtest.Options{Images: []string{"known:1", "other:1"}})
	b := open(t, f, nomad.Config{Driver: "docker", Image: "known:1", Max: 2, Reset: "files"})
	x := box(t, b, backends.Spec{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := b.Open(deadline(t), backends.Spec{Image: "missing:1"}); !errors.Is(err, backends.ErrImage) || !errors.Is(err, nomad.ErrPull) {
				t.Errorf("an image that cannot be pulled: %v", err)
			}
		})
	}
	all.Wait()
	y := box(t, b, backends.Spec{Image: "other:1", Limits: backends.Limits{Memory: 64 << 20}})
	if got := f.Jobs(); len(got) != 3 || !strings.Contains(got[0], "hermes") {
		t.Errorf("jobs %q", got)
	}
	shut(t, x)
	shut(t, y)
	if err := b.Close(deadline(t)); err != nil {
		t.Error(err)
	}
	until(t, f, "end of all slots", func() bool { return len(f.Running()) == 0 })
	if got := f.Jobs(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	t.Run("no node has the driver", func(t *testing.T) {
		b := open(t, cluster(t, nomadtest.Options{Drivers: []string{"docker"}}), nomad.Config{})
		if _, err := b.Open(deadline(t), backends.Spec{}); !errors.Is(err, backends.ErrUnavailable) || !errors.Is(err, nomad.ErrPlacement) ||
			!strings.Contains(err.Error(), "missing drivers on 2 nodes") {
			t.Error(err)
		}
	})
	t.Run("no room for long", func(t *testing.T) {
		f := cluster(t, nomadtest.Options{})
		f.Full(true)
		b := open(t, f, nomad.Config{Start: 300 * time.Millisecond})
		if _, err := b.Open(deadline(t), backends.Spec{}); !errors.Is(err, nomad.ErrPlacement) ||
			!strings.Contains(err.Error(), "memory exhausted on 2 nodes") {
			t.Error(err)
		}
	})
	t.Run("no room for a while", func(t *testing.T) {
		f := cluster(t, nomadtest.Options{})
		f.Full(true)
		b := open(t, f, nomad.Config{})
		got := make(chan error, 1)
		go func() {
			x, err := b.Open(deadline(t), backends.Spec{})
			if err == nil {
				err = x.Close(deadline(t))
			}
			got <- err
		}()
		until(t, f, "demand", func() bool { return len(f.Jobs()) == 1 && f.Count(f.Jobs()[0]) == 1 })
		f.Full(false)
		if err := outcome(t, got); err != nil {
			t.Error(err)
		}
	})
}

// TestTooLarge: what no node can take, however empty it is, is not waited for.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, f stage) {
		b := open(t, f, nomad.Config{Memory: 900 << 30})
		if _, err := b.Open(deadline(t), backends.Spec{}); !errors.Is(err, nomad.ErrPlacement) ||
			!strings.Contains(err.Error(), "no node is large enough for 921600 MiB") {
			t.Error(err)
		}
	})
}

// TestHalted: an operator who stops or removes a job ends its boxes; the next gets the job back.
func TestHalted(t *testing.T) {
	t.Parallel()
	onStages(t, func(t *testing.T, f stage) {
		b := open(t, f, nomad.Config{Max: 2})
		web, err := api.NewClient(&api.Config{Address: f.Address()})
		if err != nil {
			t.Fatal(err)
		}
		for _, purge := range []bool{false, true} {
			x := box(t, b, backends.Spec{})
			done := busyExec(t, x, "echo > begun; sleep 1000")
			started(t, x, "begun")
			if _, _, err := web.Jobs().Deregister(f.Jobs()[0], purge, nil); err != nil {
				t.Fatal(err)
			}
			if err := outcome(t, done); !errors.Is(err, backends.ErrLost) || !errors.Is(err, nomad.ErrStopped) {
				t.Errorf("purge %v: a command when its job is stopped: %v", purge, err)
			}
			shut(t, x)
			shut(t, box(t, b, backends.Spec{}))
		}
	})
}

// TestOutside reads what real servers say of slots that shall end (testdata/answers.txt).
func TestOutside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		desired, client, description string
		want                         error
	}{
		{"run", "running", "", nil},
		{"run", "failed", "", nil},
		{"stop", "failed", "", nil}, // it failed and has a successor
		{"stop", "running", "alloc is being migrated", nomad.ErrStopped},
		{"stop", "complete", "alloc not needed due to job update", nomad.ErrStopped},
		{"stop", "lost", "alloc is lost since its node is down", nomad.ErrNodeLost},
		{"stop", "running", "alloc is lost since its node is down", nomad.ErrNodeLost},
		{"run", "unknown", "", nomad.ErrNodeLost},
		{"evict", "running", "Preempted by alloc ID 1", nomad.ErrStopped},
	} {
		err := nomad.Outside(tt.desired, tt.client, tt.description)
		if (err != nil) != (tt.want != nil) || !errors.Is(err, tt.want) || err != nil && !errors.Is(err, backends.ErrLost) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestNodeLost(t *testing.T) {
	t.Parallel()
	onStages(t, nodeLost)
}

func nodeLost(t *testing.T, f stage) {
	b := open(t, f, nomad.Config{})
	x := box(t, b, backends.Spec{})
	done := busyExec(t, x, "echo > begun; sleep 1000")
	started(t, x, "begun")
	node := f.NodeOf(nomad.Alloc(x))
	if err := f.LoseNode(node); err != nil {
		t.Fatal(err)
	}
	if err := outcome(t, done); !errors.Is(err, backends.ErrLost) || !errors.Is(err, nomad.ErrNodeLost) || errors.Is(err, backends.ErrBroken) {
		t.Errorf("command on a node that is lost: %v", err)
	}
	if _, err := x.ReadFile(deadline(t), "begun", 0); !errors.Is(err, backends.ErrLost) {
		t.Errorf("a box of a lost node still answers: %v", err)
	}
	shut(t, x)
	y := box(t, b, backends.Spec{})
	if f.NodeOf(nomad.Alloc(y)) == node {
		t.Error("the next box is on the lost node")
	}
	if err := f.ReturnNode(node); err != nil {
		t.Fatal(err)
	}
	until(t, f, "end of what was lost", func() bool { return !slices.Contains(f.Running(), nomad.Alloc(x)) })
	sh(t, y, "true")
}

func TestDrain(t *testing.T) {
	t.Parallel()
	onStages(t, drain)
}

func drain(t *testing.T, f stage) {
	b := open(t, f, nomad.Config{Min: 2})
	x, y := box(t, b, backends.Spec{}), box(t, b, backends.Spec{})
	node := f.NodeOf(nomad.Alloc(x))
	if f.NodeOf(nomad.Alloc(y)) == node {
		t.Fatal("both slots on one node")
	}
	if err := f.DrainNode(node); err != nil {
		t.Fatal(err)
	}
	sh(t, x, "echo a box in use goes on")
	was := nomad.Alloc(x)
	b.LookAtNodes(deadline(t))
	shut(t, x)
	until(t, f, "another slot", func() bool { return !slices.Contains(f.Running(), was) })
	z := box(t, b, backends.Spec{})
	if f.NodeOf(nomad.Alloc(z)) == node {
		t.Error("a box on a node that is drained")
	}
	// A deadline ends what is in use.
	second := f.NodeOf(nomad.Alloc(y))
	done := busyExec(t, y, "echo > begun; sleep 1000")
	started(t, y, "begun")
	if err := f.DrainNode(second); err != nil {
		t.Fatal(err)
	}
	f.DrainDeadline(second)
	if err := outcome(t, done); !errors.Is(err, backends.ErrLost) || !errors.Is(err, nomad.ErrDrained) {
		t.Errorf("command at the deadline of a drain: %v", err)
	}
}

// TestWhoseFault: a box that ended its own server is the model's doing; one that somebody
// else stopped is ours.
func TestWhoseFault(t *testing.T) {
	t.Parallel()
	onStages(t, whoseFault)
}

func whoseFault(t *testing.T, f stage) {
	b := open(t, f, nomad.Config{Away: patience})
	x := box(t, b, backends.Spec{})
	if err := outcome(t, busyExec(t, x, "kill -9 $PPID; sleep 1000")); !errors.Is(err, backends.ErrBroken) || errors.Is(err, backends.ErrLost) {
		t.Errorf("a command that kills slotd: %v", err)
	}
	y := box(t, b, backends.Spec{})
	done := busyExec(t, y, "echo > begun; sleep 1000")
	started(t, y, "begun")
	if err := f.Stop(nomad.Alloc(y)); err != nil {
		t.Fatal(err)
	}
	if err := outcome(t, done); !errors.Is(err, nomad.ErrStopped) || !errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) {
		t.Errorf("a slot that was stopped: %v", err)
	}
	z := box(t, open(t, f, nomad.Config{Away: time.Second}), backends.Spec{})
	f.Down() // it cannot be known who did it: it counts as ours
	if err := outcome(t, busyExec(t, z, "kill -9 $PPID; sleep 1000")); !errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) {
		t.Errorf("the end of a slot without an agent to ask: %v", err)
	}
	f.Up()
}

// TestServersAway: servers that come back in time hear from the nodes how slots ended.
func TestServersAway(t *testing.T) {
	t.Parallel()
	onStages(t, serversAway)
}

func serversAway(t *testing.T, f stage) {
	b := open(t, f, nomad.Config{Away: patience})
	gone := func(x backends.Sandbox) {
		until(t, f, "the end of the slot", func() bool { return !slices.Contains(f.Running(), nomad.Alloc(x)) })
	}
	x := box(t, b, backends.Spec{})
	f.Down()
	done := busyExec(t, x, "kill -9 $PPID; sleep 1000")
	gone(x)
	f.Up()
	if err := outcome(t, done); !errors.Is(err, backends.ErrBroken) {
		t.Errorf("a command that killed slotd while the servers were away: %v", err)
	}
	y := box(t, b, backends.Spec{})
	done = busyExec(t, y, "echo > begun; sleep 1000")
	started(t, y, "begun")
	f.Crash()
	gone(y)
	f.Up()
	if err := outcome(t, done); !errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) {
		t.Errorf("a power cut: %v", err)
	}
	shut(t, y)
	shut(t, box(t, b, backends.Spec{})) // the slot that was started again in its place has no lease
}

// TestNodesAlone: nodes that hear of no server for some minutes keep their slots, on which
// boxes go on working.
func TestNodesAlone(t *testing.T) {
	t.Parallel()
	if got := nomad.AloneTime(t, nomad.Config{Slotd: "/slotd"}); got != 20*time.Minute {
		t.Errorf("slots are stopped after %v", got)
	}
}

// TestCallersLeave: a call that waits for servers that are away ends with its context.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	f := cluster(t, nomadtest.Options{})
	b := open(t, f, nomad.Config{Away: time.Hour})
	x := box(t, b, backends.Spec{})
	f.Down()
	defer f.Up()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := x.Exec(ctx, backends.Cmd{Shell: "kill -9 $PPID; sleep 1000"})
		done <- err
	}()
	until(t, f, "the end of the slot", func() bool { return !slices.Contains(f.Running(), nomad.Alloc(x)) })
	cancel()
	if err := outcome(t, done); err == nil || errors.Is(err, backends.ErrBroken) {
		t.Errorf("a caller that left: %v", err)
	}
}

// TestAgentAway: boxes and leases do not depend on the agent.
func TestAgentAway(t *testing.T) {
	t.Parallel()
	onStages(t, agentAway)
}

func agentAway(t *testing.T, f stage) {
	b := open(t, f, nomad.Config{Max: 2, TTL: 9 * time.Second})
	x := box(t, b, backends.Spec{})
	sh(t, x, "echo kept > file")
	f.Down()
	if got := sh(t, x, "cat file"); got != "kept" {
		t.Errorf("while the agent is away: %q", got)
	}
	second := make(chan error, 1)
	go func() {
		y, err := b.Open(deadline(t), backends.Spec{})
		if err == nil {
			err = y.Close(deadline(t))
		}
		second <- err
	}()
	if got := sh(t, x, "sleep 10; cat file"); got != "kept" { // longer than the lease
		t.Errorf("after the time of a lease: %q", got)
	}
	f.Up()
	if fake, is := f.(*nomadtest.Fake); is {
		fake.Deploying(1)
	}
	if err := outcome(t, second); err != nil {
		t.Errorf("a box that was asked for while the agent was away: %v", err)
	}
	if fake, is := f.(*nomadtest.Fake); is {
		fake.Leaderless(true)
		if got := sh(t, x, "cat file"); got != "kept" {
			t.Errorf("without a leader: %q", got)
		}
		fake.Leaderless(false)
	}
	shut(t, x)
}

// TestDeadOwner: leases of a hermes that is gone end, their slots are wiped and cannot be used,
// and the next sweep removes its job. The jobs of a living owner stay.
func TestDeadOwner(t *testing.T) {
	t.Parallel()
	onStages(t, deadOwner)
}

func deadOwner(t *testing.T, f stage) {
	b := open(t, f, nomad.Config{TTL: 6 * time.Second, Max: 1})
	x := box(t, b, backends.Spec{})
	home := sh(t, x, "echo > secret; pwd")
	b.Die()
	ctx := deadline(t)
	for {
		left, err := os.ReadDir(home)
		if err == nil && len(left) == 0 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("left %v, %v", left, err)
		}
	}
	if _, err := x.Exec(ctx, backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrLost) {
		t.Errorf("a lease that is over: %v", err)
	}

	other := open(t, f, nomad.Config{})
	living := box(t, other, backends.Spec{})
	plant(t, f, "hermes-dead", backends.Owner{Space: backends.Self().Space, PID: os.Getpid(), Start: 1}, "", time.Now())
	plant(t, f, "hermes-elsewhere", backends.Owner{Space: 1, PID: 1, Start: 1}, "elsewhere", time.Now())
	plant(t, f, "hermes-expired", backends.Owner{Space: 1, PID: 1, Start: 1}, "elsewhere", time.Now().Add(-30*24*time.Hour))
	n, err := other.Sweep(ctx)
	if err != nil || n != 2 {
		t.Errorf("swept %d, %v", n, err)
	}
	if jobs := strings.Join(f.Jobs(), " "); strings.Contains(jobs, "dead") || strings.Contains(jobs, "expired") || !strings.Contains(jobs, "elsewhere") ||
		len(f.Jobs()) != 3 {
		t.Errorf("after the sweep: %s", jobs)
	}
	sh(t, living, "true")
}

// plant registers a job of another owner.
func plant(t *testing.T, f stage, id string, owner backends.Owner, boot string, made time.Time) {
	t.Helper()
	if boot == "" {
		raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			t.Fatal(err)
		}
		boot = strings.TrimSpace(string(raw))
	}
	c, err := api.NewClient(&api.Config{Address: f.Address()})
	if err != nil {
		t.Fatal(err)
	}
	j := api.NewServiceJob(id, id, "global", 50)
	j.Datacenters = []string{"*"}
	j.Meta = map[string]string{"hermes_owner": owner.String(), "hermes_boot": boot, "hermes_expires": fmt.Sprint(made.Add(7 * 24 * time.Hour).Unix())}
	g := api.NewTaskGroup("sandbox", 0)
	g.EphemeralDisk = &api.EphemeralDisk{SizeMB: new(200)}
	g.AddTask(&api.Task{Name: "box", Driver: "raw_exec", Resources: &api.Resources{MemoryMB: new(32)}})
	j.TaskGroups = []*api.TaskGroup{g}
	if _, _, err := c.Jobs().Register(j, nil); err != nil {
		t.Fatal(err)
	}
}

// TestReset: nothing of a box is left for the next; a slot that is not clean is replaced.
func TestReset(t *testing.T) {
	t.Parallel()
	onStages(t, reset)
}

func reset(t *testing.T, f stage) {
	b := open(t, f, nomad.Config{Max: 1})
	x := box(t, b, backends.Spec{Env: map[string]string{"MINE": "yes"}, Dir: "work"})
	if got := sh(t, x, "echo $MINE $(basename $PWD); touch .x ..y; (setsid sleep 1000 &)"); got != "yes work" {
		t.Errorf("environment and directory: %q", got)
	}
	was := nomad.Alloc(x)
	shut(t, x)
	y := box(t, b, backends.Spec{})
	if got := sh(t, y, "ls -A; echo $MINE"); got != "" || nomad.Alloc(y) != was {
		t.Errorf("left for the next: %q, in slot %s after %s", got, nomad.Alloc(y), was)
	}
	sh(t, y, `h=$PWD; cd /; mv "$h" "$h.away"; mkdir "$h"`)
	shut(t, y)
	z := box(t, b, backends.Spec{})
	if nomad.Alloc(z) == was {
		t.Error("a dirty slot was used again")
	}
	shut(t, z)
	c := open(t, f, nomad.Config{Max: 1, Reset: "replace"})
	x = box(t, c, backends.Spec{})
	was = nomad.Alloc(x)
	shut(t, x)
	y = box(t, c, backends.Spec{})
	if nomad.Alloc(y) == was {
		t.Error("a used slot was not replaced")
	}
}

// TestScale: the count follows the demand, and what is in use is not stopped.
func TestScale(t *testing.T) {
	t.Parallel()
	onStages(t, scale)
}

func scale(t *testing.T, f stage) {
	b := open(t, f, nomad.Config{Min: 1, Max: 4, Idle: time.Millisecond})
	until(t, f, "the least", func() bool { return len(f.Jobs()) == 1 && f.Count(f.Jobs()[0]) == 1 })
	id := f.Jobs()[0]
	var all []backends.Sandbox
	for range 4 {
		all = append(all, box(t, b, backends.Spec{}))
	}
	if got := f.Count(id); got != 4 {
		t.Errorf("%d slots for 4 boxes", got)
	}
	short, cancel := context.WithCancel(t.Context())
	late := make(chan error, 1)
	go func() {
		_, err := b.Open(short, backends.Spec{})
		late <- err
	}()
	cancel()
	if err := outcome(t, late); !errors.Is(err, context.Canceled) {
		t.Errorf("a fifth box of 4 slots: %v", err)
	}
	for _, x := range all[1:] {
		shut(t, x)
	}
	sh(t, all[0], "true")
	shut(t, all[0])
	until(t, f, "the least again", func() bool { return f.Count(id) == 1 && len(f.Running()) == 1 })
	shut(t, box(t, b, backends.Spec{}))
}

// TestSlow: a cluster that takes its time.
func TestSlow(t *testing.T) {
	t.Parallel()
	f := cluster(t, nomadtest.Options{})
	b := open(t, f, nomad.Config{})
	f.Slow(200 * time.Millisecond)
	x := box(t, b, backends.Spec{})
	f.Slow(0)
	shut(t, x)
}

func TestAccess(t *testing.T) {
	t.Parallel()
	f := cluster(t, nomadtest.Options{ACL: "sesame"})
	if _, err := start(t, f, nomad.Config{}); !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "ACL token") {
		t.Errorf("without a token: %v", err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shut(t, box(t, open(t, f, nomad.Config{TokenFile: file}), backends.Spec{}))
	f.Down()
	if _, err := start(t, f, nomad.Config{}); !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "no Nomad agent answers") {
		t.Errorf("no agent: %v", err)
	}
	f.Up()
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]nomad.Config{
		"none of docker":       {Driver: "qemu", Slotd: "/x"},
		"name exactly one":     {},
		"not an absolute path": {Slotd: "x"},
		"have no images":       {Slotd: "/x", Driver: "raw_exec", Image: "a"},
		"0 ≤ min ≤ max":        {Slotd: "/x", Min: 3, Max: 2},
		"want 3s to 24h":       {Slotd: "/x", TTL: time.Second},
		"none of files":        {Slotd: "/x", Reset: "some"},
		"at least 1 MHz":       {Slotd: "/x", Memory: 1},
		"negative":             {Slotd: "/x", Idle: -1},
		"variables are not":    {Slotd: "/${x}"},
		"a user or password":   {Artifact: "https://me:w0rd@h/slotd.tar.gz"},
		"secret in its query":  {Artifact: "https://h/slotd.tar.gz?archive=tar.gz&X-Amz-Signature=w0rd"},
		"no such file":         {Slotd: "/x", TokenFile: "/does/not/exist"},
		"unsupported protocol": {Slotd: "/x", Address: "gopher://x"},
	} {
		b, err := nomad.Open(t.Context(), c, nomad.Surroundings{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
		if b != nil {
			b.Close(t.Context())
		}
	}
}

// TestJobs compares the tasks of the three drivers with what was seen to work.
func TestJobs(t *testing.T) {
	t.Parallel()
	for _, c := range []nomad.Config{
		{Driver: "docker", Artifact: "https://example.org/slotd.tar.gz", Checksum: "sha256:00", Env: map[string]string{"A": "b"}},
		{Driver: "raw_exec", Slotd: "/opt/slotd"},
		{Driver: "singularity", Image: "docker://python:3.11", Slotd: "/opt/hermes/slotd"},
	} {
		got, err := json.MarshalIndent(nomad.Task(t, c), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", c.Driver+".json")
		if os.Getenv("UPDATE") != "" {
			os.MkdirAll("testdata", 0o755)
			os.WriteFile(file, append(got, '\n'), 0o644)
		}
		want, err := os.ReadFile(file)
		if err != nil || string(got)+"\n" != string(want) {
			t.Errorf("%s (%v):\n%s", file, err, got)
		}
	}
}
