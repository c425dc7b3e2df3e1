package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// Reasons why there is no slot, or no longer. They stand beside one of backends' errors.
var (
	ErrNodeLost  = errors.New("the node was lost")
	ErrDrained   = errors.New("the node is drained")
	ErrStopped   = errors.New("the allocation was stopped")
	ErrPlacement = errors.New("no node can take a slot")
	ErrPull      = errors.New("the image could not be pulled")
	ErrStart     = errors.New("the slot could not be started")
)

// answered turns an error of the API into one that says what to do. Refusals do not pass
// by waiting; the others may.
func answered(what string, err error) error {
	var u api.UnexpectedResponseError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &u) || !u.HasStatusCode():
		return fmt.Errorf("%s: no Nomad agent answers: %w", what, err)
	case u.StatusCode() == http.StatusForbidden:
		return fmt.Errorf("%s: the ACL token does not allow it (submit-job, read-job, list-jobs, scale-job, alloc-lifecycle and node:read are needed): %w", what, err)
	}
	return fmt.Errorf("%s: %s", what, strings.TrimSpace(err.Error()))
}

// passing reports errors that another try may not meet.
func passing(err error) bool {
	var u api.UnexpectedResponseError
	if !errors.As(err, &u) || !u.HasStatusCode() {
		return true
	}
	body := u.Body()
	return u.StatusCode() == http.StatusTooManyRequests || u.StatusCode() == http.StatusBadGateway || u.StatusCode() == http.StatusServiceUnavailable ||
		strings.Contains(body, "No cluster leader") || strings.Contains(body, "rpc error") || strings.Contains(body, "active deployment")
}

// forbidden reports that the token does not allow it.
func forbidden(err error) bool {
	var u api.UnexpectedResponseError
	return errors.As(err, &u) && u.StatusCode() == http.StatusForbidden
}

// missing reports that what was asked for is not there.
func missing(err error) bool {
	var u api.UnexpectedResponseError
	return errors.As(err, &u) && u.StatusCode() == http.StatusNotFound
}

// placement says why a slot could not be placed. hopeless says that no node will ever do.
func placement(m *api.AllocationMetric) (err error, hopeless bool) {
	var why []string
	for _, k := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
		why = append(why, fmt.Sprintf("%s exhausted on %d nodes", k, m.DimensionExhausted[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
		why = append(why, fmt.Sprintf("%s on %d nodes", k, m.ConstraintFiltered[k]))
	}
	for _, q := range m.QuotaExhausted {
		why = append(why, "quota "+q+" exhausted")
	}
	if len(why) == 0 {
		why = append(why, "no node is ready")
	}
	return fmt.Errorf("%w: %w: %s (%d nodes looked at)", backends.ErrUnavailable, ErrPlacement, strings.Join(why, ", "), m.NodesEvaluated),
		m.NodesExhausted == 0 && len(m.ConstraintFiltered) > 0 && len(m.QuotaExhausted) == 0
}

// lastEvent is the latest event of a slot's task of one of the kinds, or nil.
func lastEvent(states map[string]*api.TaskState, kinds ...string) *api.TaskEvent {
	s := states[taskName]
	if s == nil {
		return nil
	}
	for _, e := range slices.Backward(s.Events) {
		if slices.Contains(kinds, e.Type) {
			return e
		}
	}
	return nil
}

func text(e *api.TaskEvent) string {
	if e.DisplayMessage != "" {
		return e.DisplayMessage
	}
	return e.Message
}

// unstarted says why a slot that failed never answered: the image could not be pulled, or the
// node could not run it.
func unstarted(image string, states map[string]*api.TaskState) error {
	if e := lastEvent(states, api.TaskDriverFailure); e != nil {
		t := text(e)
		for _, sign := range []string{"Failed to pull", "pull access denied", "Failed to find docker image", "no such image", "manifest unknown", "no matching manifest"} {
			if strings.Contains(strings.ToLower(t), strings.ToLower(sign)) {
				return fmt.Errorf("image %s: %w: %w: %s", image, backends.ErrImage, ErrPull, t)
			}
		}
		return fmt.Errorf("%w: %w: %s", backends.ErrUnavailable, ErrStart, t)
	}
	if e := lastEvent(states, api.TaskFailedValidation, api.TaskArtifactDownloadFailed, api.TaskSetupFailure, api.TaskTerminated, api.TaskNotRestarting); e != nil {
		return fmt.Errorf("%w: %w: %s: %s", backends.ErrUnavailable, ErrStart, e.Type, text(e))
	}
	return fmt.Errorf("%w: %w", backends.ErrUnavailable, ErrStart)
}

// What the servers say of allocations that shall end. Of one that has failed and got a
// successor they say nothing.
const (
	saidMigrated    = "being migrated" // a drain, or somebody stopped it
	saidLost        = "lost"
	saidRescheduled = "rescheduled"
)

// outside is a loss that the slot's commands cannot have caused, or nil. What counts is
// what the servers want: the status of a box on a lost node may come back.
func outside(desired, client, description string) error {
	switch {
	case client == api.AllocClientStatusLost || client == api.AllocClientStatusUnknown:
		return fmt.Errorf("%w: %w", backends.ErrLost, ErrNodeLost)
	case desired == api.AllocDesiredStatusRun:
		return nil
	case strings.Contains(description, saidLost):
		return fmt.Errorf("%w: %w", backends.ErrLost, ErrNodeLost)
	case client == api.AllocClientStatusFailed && (description == "" || strings.Contains(description, saidRescheduled)):
		return nil // it ended by itself before
	}
	return fmt.Errorf("%w: %w: %s", backends.ErrLost, ErrStopped, description)
}

// moved tells, of a slot that was stopped, a drain of its node from an operator who
// stopped that slot: what the servers say is the same.
func (b *Backend) moved(ctx context.Context, node, description string, why error) error {
	if !strings.Contains(description, saidMigrated) || !errors.Is(why, ErrStopped) {
		return why
	}
	n, _, err := b.web.Nodes().Info(node, b.query(ctx))
	if err != nil {
		return why
	}
	ended := n.LastDrain != nil && n.LastDrain.Status != api.DrainStatusCanceled && n.SchedulingEligibility == api.NodeSchedulingIneligible
	if n.DrainStrategy != nil || ended {
		return fmt.Errorf("%w: %w", backends.ErrLost, ErrDrained)
	}
	return why
}

// node says what is wrong with the node of a slot, or nil.
func (b *Backend) node(ctx context.Context, id string) error {
	n, _, err := b.web.Nodes().Info(id, b.query(ctx))
	switch {
	case missing(err) || err == nil && n.Status != api.NodeStatusReady:
		return fmt.Errorf("%w: %w", backends.ErrLost, ErrNodeLost)
	case err != nil:
		return nil // no right to look, or no answer
	case n.DrainStrategy != nil || n.Drain:
		return fmt.Errorf("%w: %w", backends.ErrLost, ErrDrained)
	}
	return nil
}

// fits reports whether a node could take a slot if nothing else were on it. It is true when
// that is not known.
func (b *Backend) fits(ctx context.Context, h shape) bool {
	q := b.query(ctx)
	q.Params = map[string]string{"resources": "true"}
	all, _, err := b.web.Nodes().List(q)
	if err != nil || len(all) == 0 {
		return true
	}
	return slices.ContainsFunc(all, func(n *api.NodeListStub) bool {
		has, less := n.NodeResources, n.ReservedResources
		if has == nil {
			return true
		}
		memory, cpu := has.Memory.MemoryMB, has.Cpu.CpuShares
		if less != nil {
			memory, cpu = memory-int64(less.Memory.MemoryMB), cpu-int64(less.Cpu.CpuShares)
		}
		return memory >= h.memory>>20 && cpu >= int64(h.cpu)
	})
}

// ended says whose doing the end of a slot's server was. In a container nothing can send
// it a KILL; where slotd shares the node with its commands, they can, and when one had run
// on a node that is well they are taken to have done it. An agent that ends a server says
// so before; an engine that is stopped does not, and sends the TERM that ends one with 0.
func ended(driver string, ran bool, states map[string]*api.TaskState) error {
	e := lastEvent(states, api.TaskTerminated)
	if e == nil {
		return nil
	}
	code, signal := e.Details["exit_code"], e.Details["signal"]
	switch {
	case e.Details["oom_killed"] == "true":
		return fmt.Errorf("%w: the slot's memory limit was hit and its server with it", backends.ErrBroken)
	case !ran || lastEvent(states, api.TaskKilling) != nil || lastEvent(states, api.TaskRestartSignal) != nil:
		return nil
	case driver != driverDocker || fromInside(code):
		return fmt.Errorf("%w: its server ended with exit code %s, signal %s", backends.ErrBroken, code, signal)
	}
	return nil
}

// fromInside reads an exit code as Nomad reports it.
func fromInside(code string) bool {
	n, err := strconv.Atoi(code)
	return err == nil && wire.EndedByCommands(n)
}
