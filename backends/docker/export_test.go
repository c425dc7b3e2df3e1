package docker

import (
	"context"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"hermes/backends"
	"hermes/backends/egress"
)

// Kill ends a box from outside, as a machine that dies would.
func (b *Backend) Kill(name string) error {
	return b.engine.web.ContainerKill(context.Background(), name, "KILL")
}

// Outside gives the proxy another network beyond it. No box is open.
func (b *Backend) Outside(o egress.Outside) (err error) {
	if err := b.proxy.Close(); err != nil {
		return err
	}
	b.proxy, err = egress.New(b.conf.Egress, "backends.docker.egress", o)
	return err
}

// Labels of containers, for tests that look with the engine's own client.
const (
	LabelOwner = labelOwner
	LabelBoot  = labelBoot
)

// Expire makes an image of a box that has expired.
func (b *Backend) Expire(x backends.Sandbox, ref string) error {
	_, err := b.engine.web.ContainerCommit(context.Background(), x.ID(), container.CommitOptions{Reference: ref,
		Changes: []string{"LABEL " + labelKind + "=" + kindSnapshot + " " + labelExpires + "=1"}})
	return err
}

// RemoveImage removes what a test made.
func (b *Backend) RemoveImage(ref string) {
	b.engine.web.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true})
}

// ImageEnv is the environment that an image carries.
func (b *Backend) ImageEnv(ref string) string {
	i, err := b.engine.web.ImageInspect(context.Background(), ref)
	if err != nil || i.Config == nil {
		return ""
	}
	return strings.Join(i.Config.Env, "\n")
}

// SetAlone is how long a copied slotd waits for a call, in boxes made from now on.
func (b *Backend) SetAlone(d time.Duration) { b.alone = d }

// Cut breaks the connection between hermes and a box on this machine.
func Cut(x backends.Sandbox) error { return x.(*box).control.Conn.Close() }

// Stop ends a box as an operator does, who has the engine stop it.
func (b *Backend) Stop(name string) error {
	return b.engine.web.ContainerStop(context.Background(), name, container.StopOptions{})
}

// Blame reads the end of a container.
func Blame(s container.State) error { return blame("box", &s) }
