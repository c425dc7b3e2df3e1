package build

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"hermes/internal/exit"
	"hermes/internal/settings"
	"hermes/rollout/event/wandb"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory/stats"
)

const (
	wandbOff    = "off"
	wandbOnline = "online"
	wandbURL    = "https://api.wandb.ai"

	// figuresEvery is how often a run that goes on tells its figures.
	figuresEvery = 5 * time.Second
)

// Tracked is a run as W&B knows it. Whoever makes it closes it; the run opens it. A nil
// one, and one that was not opened, tells nobody.
type Tracked struct{ run *wandb.Run }

// WandbServer reads where to send figures; nil: nowhere.
func WandbServer(h Host, f settings.WandbFlags) (*wandb.Server, error) {
	if f.Wandb != wandbOnline {
		return nil, nil
	}
	key := h.Env(f.WandbKeyEnv)
	if key == "" {
		return nil, fmt.Errorf("--wandb online: %s is not set; set it to your key, or use --wandb offline", f.WandbKeyEnv)
	}
	s, err := wandb.NewServer(cmp.Or(h.Env("WANDB_BASE_URL"), wandbURL), key)
	if err != nil {
		return nil, fmt.Errorf("--wandb online: %w", err)
	}
	return s, nil
}

// Open opens the run at W&B once its directory is open. job is what the run does.
func (t *Tracked) Open(ctx context.Context, h Host, f settings.WandbFlags, dir *rundir.Dir, job string, log *slog.Logger) error {
	if f.Wandb == wandbOff || f.Wandb == "" || t == nil {
		return nil
	}
	server, err := WandbServer(h, f)
	if err != nil {
		return exit.Usage(err)
	}
	m := dir.Manifest
	info, err := wandbInfo(f, m, filepath.Base(dir.Path))
	if err != nil {
		return exit.Ours(err)
	}
	info.JobType, info.Version = job, h.Version
	info.Project = cmp.Or(f.WandbProj, h.Env("WANDB_PROJECT"), "hermes")
	info.Entity = cmp.Or(f.WandbEntity, h.Env("WANDB_ENTITY"))
	run, err := wandb.Open(ctx, dir.Path, info, wandb.Options{Online: server, Log: log})
	if errors.Is(err, wandb.ErrRefused) {
		return exit.Usage(fmt.Errorf("--wandb online: %w; %s holds the key", err, f.WandbKeyEnv))
	}
	if err != nil {
		return exit.Ours(err)
	}
	t.run = run
	if page := run.URL(); page != "" {
		fmt.Fprintf(h.Err, "hermes: W&B: %s\n", page)
	}
	return nil
}

// wandbInfo is what run.yaml says, for W&B. The id is the same whenever the run is resumed.
func wandbInfo(f settings.WandbFlags, m rundir.Manifest, name string) (wandb.Info, error) {
	config := map[string]string{}
	if err := m.Config.Decode(&config); err != nil {
		return wandb.Info{}, fmt.Errorf("run.yaml: config: %w", err)
	}
	all := map[string]any{"hermes_version": m.Version, "dataset_fingerprint": m.Extent.Dataset}
	for k, v := range config {
		all[k] = v
	}
	identity := map[string]string{}
	for _, field := range m.Identity {
		identity[field.Name] = field.Value
	}
	all["identity"] = identity
	id, err := json.Marshal(m.Identity)
	if err != nil {
		return wandb.Info{}, err
	}
	host, _ := os.Hostname() // not told where it has none
	return wandb.Info{ID: wandb.ID(name, m.Created.Format(time.RFC3339), string(id)), Name: cmp.Or(f.WandbName, name), Group: f.WandbGroup, Tags: f.WandbTags,
		Config: all, Started: m.Created, Host: host}, nil
}

// Follow sends the figures of a run that goes on, until stop is called.
func (t *Tracked) Follow(ctx context.Context, p *sink.Projector) (stop func()) {
	if t == nil || t.run == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(figuresEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.Books(p.Books())
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Books sends the figures of the books; the step is the number of samples that are done.
func (t *Tracked) Books(s stats.Statistics) {
	if s.Done() > 0 {
		t.Log(s.Done(), s.Scalars())
	}
}

// Log sends figures.
func (t *Tracked) Log(step int64, values map[string]float64) {
	if t != nil && t.run != nil {
		t.run.Log(step, values)
	}
}

// Close ends the run with the code of how it went. What W&B did not get was said; it is no
// failure of the run.
func (t *Tracked) Close(h Host, err error) {
	if t == nil || t.run == nil {
		return
	}
	cerr := t.run.Close(exit.Code(err))
	if cerr != nil {
		fmt.Fprintf(h.Err, "hermes: W&B: %v\n", cerr)
	}
	if t.run.URL() == "" {
		fmt.Fprintf(h.Err, "hermes: W&B: 'wandb sync %s' uploads the run\n", t.run.Dir())
	}
	t.run = nil
}
