package singularity

import (
	"context"
	"fmt"
	"syscall"

	"hermes/backends"
)

// Kill ends an instance from outside, as a machine that dies would, and waits for its end.
func (b *Backend) Kill(name string) error {
	i, err := b.program.find(context.Background(), name)
	if err != nil || i == nil {
		return fmt.Errorf("no instance %s: %w", name, err)
	}
	err = syscall.Kill(i.PID, syscall.SIGKILL)
	for _, x := range b.held.All() {
		if x.name == name {
			<-x.gone
		}
	}
	return err
}

// Instances lists those of this back-end.
func (b *Backend) Instances() ([]string, error) {
	all, err := b.program.instances(context.Background(), "hermes-"+b.owner.String()+"-"+b.tag)
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names, err
}

// StartArgs is the command line that starts a box.
func StartArgs(c Config, server, dir, name, image string, l backends.Limits) ([]string, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	limits, err := c.Limits.with(l)
	x := &box{back: &Backend{conf: c, server: server}, name: name, dir: dir}
	return x.startArgs(image, limits), err
}
