package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hermes/rollout/event/wandb"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory/stats"
)

// WandbFlags tell Weights & Biases of a run.
type WandbFlags struct {
	Wandb       string   `enum:"off,offline,online" default:"off" help:"Tell Weights & Biases of the run: off, offline (a file for 'wandb sync') or online."`
	WandbProj   string   `name:"wandb-project" help:"Project (default: WANDB_PROJECT, else hermes)." placeholder:"NAME"`
	WandbEntity string   `name:"wandb-entity" help:"User or team that the run belongs to (default: WANDB_ENTITY, else the key's)." placeholder:"NAME"`
	WandbName   string   `name:"wandb-name" help:"Name of the run there (default: that of the run directory)." placeholder:"NAME"`
	WandbGroup  string   `name:"wandb-group" help:"Group of runs that it belongs to." placeholder:"NAME"`
	WandbTags   []string `name:"wandb-tags" help:"Tags." placeholder:"TAG"`
	WandbKeyEnv string   `name:"wandb-api-key-env" default:"WANDB_API_KEY" help:"Environment variable that holds the key." placeholder:"NAME"`
}

const (
	wandbOff    = "off"
	wandbOnline = "online"
	wandbURL    = "https://api.wandb.ai"

	// figuresEvery is how often a run that goes on tells its figures.
	figuresEvery = 5 * time.Second
)

// tracked is a run as W&B knows it. Whoever makes it closes it; the run opens it. A nil
// one, and one that was not opened, tells nobody.
type tracked struct{ run *wandb.Run }

// server reads where to send figures; nil: nowhere.
func (f WandbFlags) server(h Host) (*wandb.Server, error) {
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

// track opens the run at W&B once its directory is open.
func (b *batch) track(ctx context.Context, job string) error {
	f := b.WandbFlags
	if f.Wandb == wandbOff || f.Wandb == "" || b.tracked == nil {
		return nil
	}
	server, err := f.server(b.host)
	if err != nil {
		return usage(err)
	}
	m := b.dir.Manifest
	info, err := wandbInfo(f, m, filepath.Base(b.dir.Path))
	if err != nil {
		return &Error{Code: codeOurs, Err: err}
	}
	info.JobType, info.Version = job, b.host.Version
	info.Project = cmp.Or(f.WandbProj, b.host.Env("WANDB_PROJECT"), "hermes")
	info.Entity = cmp.Or(f.WandbEntity, b.host.Env("WANDB_ENTITY"))
	run, err := wandb.Open(ctx, b.dir.Path, info, wandb.Options{Online: server, Log: b.log})
	if errors.Is(err, wandb.ErrRefused) {
		return usage(fmt.Errorf("--wandb online: %w; %s holds the key", err, f.WandbKeyEnv))
	}
	if err != nil {
		return &Error{Code: codeOurs, Err: room(err)}
	}
	b.tracked.run = run
	if page := run.URL(); page != "" {
		fmt.Fprintf(b.host.Err, "hermes: W&B: %s\n", page)
	}
	return nil
}

// wandbInfo is what run.yaml says, for W&B. The id is the same whenever the run is resumed.
func wandbInfo(f WandbFlags, m rundir.Manifest, name string) (wandb.Info, error) {
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

// follow tells the figures of a run that goes on, until stop is called.
func (t *tracked) follow(ctx context.Context, p *sink.Projector) (stop func()) {
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
				t.books(p.Books())
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// books tells the figures of the books; the step is the number of samples that are done.
func (t *tracked) books(s stats.Statistics) {
	if s.Done() > 0 {
		t.log(s.Done(), s.Scalars())
	}
}

func (t *tracked) log(step int64, values map[string]float64) {
	if t != nil && t.run != nil {
		t.run.Log(step, values)
	}
}

// close ends the run with the code of how it went. What W&B did not get was said; it is no
// failure of the run.
func (t *tracked) close(h Host, err error) {
	if t == nil || t.run == nil {
		return
	}
	code := 0
	var coded *Error
	switch {
	case errors.As(err, &coded):
		code = coded.Code
	case err != nil:
		code = codeOurs
	}
	cerr := t.run.Close(code)
	if cerr != nil {
		fmt.Fprintf(h.Err, "hermes: W&B: %v\n", cerr)
	}
	if t.run.URL() == "" {
		fmt.Fprintf(h.Err, "hermes: W&B: 'wandb sync %s' uploads the run\n", t.run.Dir())
	}
	t.run = nil
}
