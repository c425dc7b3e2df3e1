package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"hermes/backends"
)

// images makes images ready: pulled or built, and of the engine's architecture. Each is
// made ready once a process, however many boxes ask for it at the same time.
type images struct {
	life   context.Context // of the back-end: a pull does not end with the box that asked first
	engine *engine
	conf   Config
	config string // folder of credentials
	tell   func(string)
	work   sync.WaitGroup // pulls and builds

	mu    sync.Mutex
	known map[string]*readied
}

// readied is an image that is being made ready, or is.
type readied struct {
	done chan struct{}
	ref  string
	err  error
}

// ready returns the name under which the engine has an image. An error is kept for no
// longer than the boxes that wait for it.
func (i *images) ready(ctx context.Context, name string) (string, error) {
	name = cmp.Or(name, i.conf.Image)
	i.mu.Lock()
	r := i.known[name]
	if r == nil {
		r = &readied{done: make(chan struct{})}
		i.known[name] = r
		i.work.Go(func() {
			r.ref, r.err = i.provide(i.life, name)
			if r.err != nil {
				i.forget(name)
			}
			close(r.done)
		})
	}
	i.mu.Unlock()
	select {
	case <-r.done:
		if r.err != nil {
			return "", fmt.Errorf("image %s: %w", name, r.err)
		}
		return r.ref, nil
	case <-ctx.Done():
		return "", fmt.Errorf("image %s: %w", name, context.Cause(ctx))
	}
}

// forget has an image looked at again.
func (i *images) forget(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for known, r := range i.known {
		if known == name || r.ref == name {
			delete(i.known, known)
		}
	}
}

// provide pulls or builds an image where needed, and looks at its architecture.
func (i *images) provide(ctx context.Context, name string) (string, error) {
	pull := i.conf.Pull
	if path, ok := strings.CutPrefix(name, buildPrefix); ok {
		built, err := i.build(ctx, path)
		if err != nil {
			return "", err
		}
		name, pull = built, "never"
	}
	found, err := i.engine.web.ImageInspect(ctx, name)
	missing := err != nil && cerrdefs.IsNotFound(err)
	switch {
	case err != nil && !missing && refused(err):
		return "", fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	case err != nil && !missing:
		return "", fmt.Errorf("%w: %w", backends.ErrImage, err)
	case missing && pull == "never":
		return "", fmt.Errorf("%w: the engine does not have it, and pull is never", backends.ErrImage)
	case missing || pull == "always":
		if err := i.pull(ctx, name); err != nil {
			return "", err
		}
		found, err = i.engine.web.ImageInspect(ctx, name)
		if err != nil {
			return "", fmt.Errorf("%w: %w", backends.ErrImage, err)
		}
	}
	if found.Os != "" && found.Os != "linux" || found.Architecture != "" && found.Architecture != i.engine.arch {
		return "", fmt.Errorf("%w: it is for %s/%s, the engine runs linux/%s", backends.ErrImage, found.Os, found.Architecture, i.engine.arch)
	}
	return name, nil
}

// pull fetches an image and tells of the progress.
func (i *images) pull(ctx context.Context, name string) error {
	auth, err := credentials(ctx, i.config, name)
	if err != nil {
		return fmt.Errorf("%w: %w", backends.ErrImage, err)
	}
	i.say("pulling image " + name)
	body, err := i.engine.web.ImagePull(ctx, name, image.PullOptions{RegistryAuth: auth})
	if err != nil {
		return i.notPulled(err)
	}
	defer body.Close() // ends the pull where we left early
	began := time.Now()
	if err := i.follow(body, name); err != nil {
		return i.notPulled(err)
	}
	i.say(fmt.Sprintf("pulled image %s in %.1f s", name, time.Since(began).Seconds()))
	return nil
}

func (i *images) notPulled(err error) error {
	return notMade("pull", fmt.Errorf("the engine does not have it and could not pull it: %w", err))
}

// errBrokeOff says that an engine went away in the middle of an answer.
var errBrokeOff = errors.New("the engine's answer broke off")

// notMade says whether an image or the engine is to blame for one that was not pulled or
// built. What an engine did not finish may be finished by another try.
func notMade(what string, err error) error {
	switch {
	case errors.Is(err, errBrokeOff) || errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", what, err)
	case refused(err) && !strings.Contains(err.Error(), "daemon:"):
		return fmt.Errorf("%s: %w: %w", what, backends.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w: %w", what, backends.ErrImage, err)
}

func (i *images) say(text string) {
	if i.tell != nil {
		i.tell(text)
	}
}

// message is one object of the stream of a pull or a build.
type message struct {
	ID       string
	Stream   string
	Progress *struct{ Current, Total int64 } `json:"progressDetail"`
	Error    *struct{ Message string }       `json:"errorDetail"`
}

// follow reads the stream of a pull or a build to its end. Failures stand inside of it:
// the engine has answered 200 by then.
func (i *images) follow(body io.Reader, name string) error {
	layers := map[string][2]int64{}
	shown := time.Now()
	last := "" // of what a build printed, for its error
	for d := json.NewDecoder(body); ; {
		var m message
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errBrokeOff, err)
		}
		if m.Error != nil {
			return fmt.Errorf("daemon: %s%s", m.Error.Message, tail(last))
		}
		last += m.Stream
		if len(last) > 2*maxTail {
			last = last[len(last)-maxTail:]
		}
		if m.Progress != nil && m.Progress.Total > 0 && len(layers) < 1000 {
			layers[m.ID] = [2]int64{m.Progress.Current, m.Progress.Total}
		}
		if time.Since(shown) > 2*time.Second && len(layers) > 0 {
			shown = time.Now()
			var have, all int64
			for _, l := range layers {
				have, all = have+l[0], all+l[1]
			}
			i.say(fmt.Sprintf("image %s: %d of %d MB in %d layers", name, have/1e6, all/1e6, len(layers)))
		}
	}
}

// maxTail is how much of what a build printed its error repeats, in bytes.
const maxTail = 2000

// tail is the end of what a failed build printed.
func tail(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if len(text) > maxTail {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxTail:], "")
	}
	return "\n" + text
}
