package modal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hermes/backends"
	"hermes/backends/modal/wire"
)

// How an image can be named besides a name as of docker.
const (
	imageID     = "im-"         // an image that the service has
	buildPrefix = "dockerfile:" // a folder with a Dockerfile that needs no files
)

// maxDockerfile bounds a Dockerfile.
const maxDockerfile = 1 << 20

// joinTime is how long one question about a build waits.
const joinTime = 55 * time.Second

// images makes images ready. Each is made ready once, however many boxes ask for it at
// the same time.
type images struct {
	life  context.Context // of the back-end: a build does not end with the box that asked first
	p     *profile
	mu    sync.Mutex
	known map[string]*readied
}

// readied is an image that is being made ready, or is.
type readied struct {
	done chan struct{}
	id   string
	err  error
}

// ready returns the service's id of an image. An error is kept for no longer than the
// boxes that wait for it.
func (i *images) ready(ctx context.Context, name string) (string, error) {
	if strings.HasPrefix(name, imageID) {
		return name, nil
	}
	i.mu.Lock()
	r := i.known[name]
	if r == nil {
		r = &readied{done: make(chan struct{})}
		i.known[name] = r
		go func() { // ends with the back-end's life
			r.id, r.err = i.provide(i.life, name)
			if r.err != nil {
				i.forget(name)
			}
			close(r.done)
		}()
	}
	i.mu.Unlock()
	select {
	case <-r.done:
		return r.id, r.err
	case <-ctx.Done():
		return "", fmt.Errorf("image %s: %w", name, context.Cause(ctx))
	}
}

// forget has an image looked at again.
func (i *images) forget(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.known, name)
}

func (i *images) provide(ctx context.Context, name string) (string, error) {
	what := "image " + name
	lines := []string{"FROM " + name}
	if path, ok := strings.CutPrefix(name, buildPrefix); ok {
		var err error
		lines, err = dockerfile(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w: %w", what, backends.ErrImage, err)
		}
	} else if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", fmt.Errorf("image %q: %w: a name has no spaces", name, backends.ErrImage)
	}
	image := &wire.Image{Commands: append(lines, i.p.Setup...)}
	if kind, n := i.p.accelerator(); kind != "" {
		image.GPU = &wire.GPU{Type: kind, Count: n}
	}
	var err error
	image.Registry, err = i.p.registry(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: credentials of its registry: %w", what, err)
	}
	var answer wire.ImageAnswer
	err = i.p.api.call(ctx, wire.ImageGetOrCreate, &wire.ImageRequest{Image: image, AppID: i.p.app, Builder: i.p.builder}, &answer)
	if err != nil {
		return "", unbuilt(what, err)
	}
	result, log := answer.Result, ""
	if result == nil || result.Status == wire.StatusRunning {
		result, log, err = i.p.join(ctx, answer.ID)
		if err != nil {
			return "", unbuilt(what, err)
		}
	}
	if result.Status != wire.StatusSuccess {
		return "", fmt.Errorf("%s: %w", what, broken(result, log))
	}
	return answer.ID, nil
}

// broken says why a build ended. What the service did to it may pass.
func broken(r *wire.Result, log string) error {
	text := strings.TrimSpace(r.Exception + "\n" + log)
	switch r.Status {
	case wire.StatusTerminated, wire.StatusInternal, wire.StatusEvicted:
		return fmt.Errorf("%w: %w: its build was ended by the service (status %d): %s", backends.ErrLost, ErrBuild, r.Status, text)
	case wire.StatusTimeout:
		return fmt.Errorf("%w: %w: its build took too long: %s", backends.ErrImage, ErrBuild, text)
	}
	return fmt.Errorf("%w: %w: %s", backends.ErrImage, ErrBuild, text)
}

// join follows a build to its end. A stream that breaks is opened again behind the last
// entry that came.
func (p *profile) join(ctx context.Context, id string) (*wire.Result, string, error) {
	var log tail
	entry := ""
	failures := 0
	pause := firstPause
	for {
		before := entry
		result, err := p.followBuild(ctx, id, &entry, &log)
		switch {
		case result != nil && result.Status != wire.StatusRunning:
			return result, log.String(), nil
		case ctx.Err() != nil:
			return nil, "", fmt.Errorf("wait for the build: %w", context.Cause(ctx))
		case err == nil || entry != before:
			failures, pause = 0, firstPause
		case !passing(err) || failures >= callRetries:
			return nil, "", err
		default:
			failures++
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, "", err
		}
		pause = min(2*pause, mostPause)
	}
}

func (p *profile) followBuild(ctx context.Context, id string, entry *string, log *tail) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime+p.api.each)
	defer cancel()
	s, err := p.api.stream(ctx, wire.ImageJoinStreaming, &wire.ImageJoin{ID: id, Timeout: float32(joinTime.Seconds()), LastEntry: *entry})
	if err != nil {
		return nil, err
	}
	for {
		var m wire.ImageProgress
		err := s.RecvMsg(&m)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, failed(wire.ImageJoinStreaming, err, p.api.secret, p.api.id)
		}
		if m.Entry != "" {
			*entry = m.Entry
		}
		for _, l := range m.Logs {
			log.add(l.Data)
		}
		if m.Result != nil && m.Result.Status != wire.StatusRunning {
			return m.Result, nil
		}
	}
}

// tail keeps the end of a log.
type tail struct{ text string }

func (t *tail) add(s string) {
	t.text += s
	if len(t.text) > maxSaid {
		t.text = t.text[len(t.text)-maxSaid:]
	}
}

func (t *tail) String() string { return strings.ToValidUTF8(strings.TrimSpace(t.text), "") }

// registry makes the secret with which the service fetches a private image.
func (p *profile) registry(ctx context.Context) (*wire.RegistryConfig, error) {
	if p.RegistryUser == "" {
		return &wire.RegistryConfig{Auth: wire.RegistryPublic}, nil
	}
	var s wire.Secret
	err := p.api.call(ctx, wire.SecretGetOrCreate, &wire.SecretRequest{Environment: p.Environment, Creation: wire.Ephemeral,
		Values: map[string]string{"REGISTRY_USERNAME": p.user, "REGISTRY_PASSWORD": p.password}}, &s)
	return &wire.RegistryConfig{Auth: wire.RegistryStatic, Secret: s.ID}, err
}

// dockerfile reads the lines of a Dockerfile that the service can run without files of
// this machine.
func dockerfile(dir string) ([]string, error) {
	f, err := os.Open(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxDockerfile+1))
	if err != nil || len(raw) > maxDockerfile {
		return nil, errors.Join(err, fmt.Errorf("%s: longer than %d bytes, or not to be read", f.Name(), maxDockerfile))
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	stages, continued := 0, false
	for n, line := range lines {
		verb := strings.ToUpper(first(line))
		if !continued {
			switch verb {
			case "FROM":
				stages++
			case "COPY", "ADD":
				return nil, fmt.Errorf("%s:%d: %s needs files of this machine, which the service does not get", f.Name(), n+1, verb)
			}
		}
		continued = strings.HasSuffix(strings.TrimRight(line, " \t"), "\\") && !strings.HasPrefix(verb, "#")
	}
	if stages != 1 {
		return nil, fmt.Errorf("%s: %d stages, want one FROM", f.Name(), stages)
	}
	return lines, nil
}
