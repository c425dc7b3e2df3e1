package nomad

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
)

// Alloc is the allocation of a box.
func Alloc(x backends.Sandbox) string { return x.(*box).slot.alloc }

// Cut breaks the connections to a box and leaves it alive.
func Cut(x backends.Sandbox) error {
	b, ok := x.(*box)
	if !ok {
		return fmt.Errorf("%T is no box of this back-end", x)
	}
	b.slot.links.sever(false)
	return nil
}

// Outside is what the servers' words for a slot mean.
var Outside = outside

// Die ends everything that the back-end does by itself, as the death of hermes would.
func (b *Backend) Die() { b.stop() }

// LookAtNodes does what is done now and then.
func (b *Backend) LookAtNodes(ctx context.Context) {
	for _, g := range b.others(nil) {
		g.nodes(ctx)
	}
}

// AloneTime is how long slots of c live on a node that hears of no server.
func AloneTime(t *testing.T, c Config) time.Duration {
	c, err := c.complete(Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	return *c.job("id", "token", (&Backend{conf: c}).shape(backends.Spec{}), 1, nil).TaskGroups[0].Disconnect.StopOnClientAfter
}

// Task is what a job of c does, without what is random.
func Task(t *testing.T, c Config) any {
	c, err := c.complete(Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	return c.task("TOKEN", (&Backend{conf: c}).shape(backends.Spec{}))
}

// Ended says whose doing the end of a slot's server was, by the exit code that its driver reports.
func Ended(driver, code string) error {
	return ended(driver, true, map[string]*api.TaskState{taskName: {Events: []*api.TaskEvent{
		{Type: api.TaskTerminated, Details: map[string]string{"exit_code": code, "signal": "0"}},
	}}})
}
