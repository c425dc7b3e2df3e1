package modaltest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hermes/backends"
	"hermes/backends/modal/wire"
)

// home is the folder that a snapshot keeps.
const home = "/root"

// sandbox is a sandbox and the box that it runs in.
type sandbox struct {
	wire.Listed
	whose  string // workspace
	task   string
	def    *wire.Sandbox
	placed chan struct{} // closed when it has a box, or never will
	box    backends.Sandbox
	over   chan struct{} // closed at its end
	stop   context.CancelFunc
	ending sync.Once
	result wire.Result
	execs  map[string]*command
}

func (s *sandbox) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

func (f *Fake) create(ctx context.Context, in *wire.CreateRequest) (*wire.SandboxID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, whose := in.Definition, caller(ctx)
	switch {
	case f.owners[in.AppID] != whose:
		return nil, status.Errorf(codes.NotFound, "App '%s' not found", in.AppID)
	case d == nil || d.Name == nil || d.Timeout == 0:
		return nil, status.Error(codes.InvalidArgument, "a sandbox needs a name and a timeout here")
	case f.images[d.ImageID] == nil || !f.images[d.ImageID].built:
		return nil, status.Errorf(codes.NotFound, "Image '%s' not found", d.ImageID)
	case d.Network == nil || d.Network.Type != wire.NetworkBlocked:
		return nil, status.Error(codes.InvalidArgument, "this service has sandboxes without network alone")
	case d.Resources != nil && d.Resources.GPU != nil && d.Resources.GPU.Type != "T4":
		return nil, status.Errorf(codes.InvalidArgument, "GPU type '%s' is not known", d.Resources.GPU.Type)
	}
	running := 0
	for _, s := range f.sandboxes {
		if s.whose == whose && !s.ended() {
			running++
			if s.Name == *d.Name && s.AppID == in.AppID {
				return nil, status.Errorf(codes.AlreadyExists, "Sandbox with name '%s' already exists", s.Name)
			}
		}
	}
	if most, bounded := f.quota[whose]; bounded && running >= most {
		return nil, exhausted("the workspace has reached its limit of sandboxes", 50*time.Millisecond)
	}
	life, stop := context.WithCancel(f.life)
	s := &sandbox{whose: whose, def: d, placed: make(chan struct{}), over: make(chan struct{}), stop: stop, execs: map[string]*command{}, task: f.id("ta")}
	s.Listed = wire.Listed{ID: f.id("sb"), AppID: in.AppID, Tags: in.Tags, Name: *d.Name, Timeout: d.Timeout}
	s.Created = float64(time.Now().UnixMicro())/1e6 + float64(f.serial)*1e-6
	f.sandboxes[s.ID] = s
	f.work.Go(func() { f.run(life, s) })
	return &wire.SandboxID{ID: s.ID}, nil
}

// run is the life of a sandbox.
func (f *Fake) run(ctx context.Context, s *sandbox) {
	limit := time.AfterFunc(time.Duration(s.def.Timeout)*f.opt.Second, func() { f.end(s, wire.Result{Status: wire.StatusTimeout, ExitCode: 124}) })
	defer limit.Stop()
	box, err := f.place(ctx, s)
	if err != nil {
		f.end(s, wire.Result{Status: wire.StatusInitFailure, Exception: err.Error()})
		close(s.placed)
		return
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		box.Close(end)
	}()
	s.box = box
	close(s.placed)
	r, err := run(ctx, box, backends.Cmd{Argv: s.def.Entrypoint}, backends.Streams{})
	switch {
	case ctx.Err() != nil: // its end was said
	case err != nil:
		f.end(s, wire.Result{Status: wire.StatusInternal, Exception: err.Error()})
	case r.Code == 0:
		f.end(s, wire.Result{Status: wire.StatusSuccess})
	default:
		f.end(s, wire.Result{Status: wire.StatusFailure, ExitCode: int32(r.Code)})
	}
	<-s.over
}

// place opens the box of a sandbox, with the files of its image.
func (f *Fake) place(ctx context.Context, s *sandbox) (backends.Sandbox, error) {
	spec := backends.Spec{}
	if r := s.def.Resources; r != nil {
		spec.Limits = backends.Limits{Memory: int64(r.MemoryMBMax) << 20, Disk: int64(r.DiskMB) << 20}
	}
	box, err := f.opt.Boxes.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	for path, text := range f.opt.Files {
		err = errors.Join(err, box.WriteFile(ctx, path, text, 0o755))
	}
	if err != nil {
		return nil, errors.Join(err, box.Close(context.WithoutCancel(ctx)))
	}
	f.mu.Lock()
	files := f.images[s.def.ImageID].home
	f.mu.Unlock()
	if c, ok := backends.As[backends.Copier](box); ok && files != nil {
		if err := c.CopyIn(ctx, home, bytes.NewReader(files)); err != nil {
			return nil, errors.Join(err, box.Close(context.WithoutCancel(ctx)))
		}
	}
	return box, nil
}

// run runs a command of a sandbox to its end.
func run(ctx context.Context, box backends.Sandbox, c backends.Cmd, s backends.Streams) (backends.Result, error) {
	streamer, ok := backends.As[backends.Streamer](box)
	if !ok {
		return backends.Result{}, status.Error(codes.Unimplemented, "the boxes beneath have no streams")
	}
	return streamer.Stream(ctx, c, s)
}

// end ends a sandbox, once.
func (f *Fake) end(s *sandbox, how wire.Result) {
	s.ending.Do(func() {
		s.result = how
		s.stop()
		close(s.over)
	})
}

// find finds a sandbox of who calls.
func (f *Fake) find(ctx context.Context, id string) (*sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sandboxes[id]
	if s == nil || s.whose != caller(ctx) {
		return nil, status.Errorf(codes.NotFound, "Sandbox '%s' not found", id)
	}
	return s, nil
}

func (f *Fake) fromName(ctx context.Context, in *wire.NameRequest) (*wire.SandboxID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	app := f.apps[caller(ctx)+"/"+in.Environment+"/"+in.App]
	for _, s := range f.sandboxes {
		if s.Name == in.Name && s.AppID == app && app != "" && !s.ended() {
			return &wire.SandboxID{ID: s.ID}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "Sandbox '%s' not found", in.Name)
}

// seconds is how long a question may wait.
func seconds(t *float32) <-chan time.Time {
	if t == nil {
		return nil
	}
	return time.After(time.Duration(float64(*t) * float64(time.Second)))
}

func (f *Fake) taskID(ctx context.Context, in *wire.WaitRequest) (*wire.TaskAnswer, error) {
	s, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.over:
		return &wire.TaskAnswer{Result: &s.result}, nil
	case <-s.placed:
		return &wire.TaskAnswer{TaskID: &s.task}, nil
	case <-seconds(in.Timeout):
		return &wire.TaskAnswer{}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func (f *Fake) wait(ctx context.Context, in *wire.WaitRequest) (*wire.WaitAnswer, error) {
	s, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if s.ended() {
		return &wire.WaitAnswer{Result: &s.result}, nil
	}
	select {
	case <-s.over:
		return &wire.WaitAnswer{Result: &s.result}, nil
	case <-seconds(in.Timeout):
		return &wire.WaitAnswer{}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func (f *Fake) terminate(ctx context.Context, in *wire.SandboxID) (*wire.WaitAnswer, error) {
	s, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	f.end(s, wire.Result{Status: wire.StatusTerminated, ExitCode: 137})
	return &wire.WaitAnswer{}, nil
}

// list is a page of sandboxes, the newest first.
func (f *Fake) list(ctx context.Context, in *wire.ListRequest) (*wire.ListAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &wire.ListAnswer{}
	for _, s := range f.sandboxes {
		fits := s.whose == caller(ctx) && (in.AppID == "" || s.AppID == in.AppID) && (in.Before == 0 || s.Created < in.Before) && (in.Finished || !s.ended())
		for _, want := range in.Tags {
			fits = fits && slices.ContainsFunc(s.Tags, func(t *wire.Tag) bool { return *t == *want })
		}
		if fits {
			l := s.Listed
			a.Sandboxes = append(a.Sandboxes, &l)
		}
	}
	slices.SortFunc(a.Sandboxes, func(x, y *wire.Listed) int {
		if x.Created > y.Created {
			return -1
		}
		return 1
	})
	a.Sandboxes = a.Sandboxes[:min(len(a.Sandboxes), f.opt.Page)]
	return a, nil
}

func (f *Fake) snapshot(ctx context.Context, in *wire.WaitRequest) (*wire.SnapshotAnswer, error) {
	s, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if s.ended() {
		return nil, status.Errorf(codes.FailedPrecondition, "Sandbox '%s' has ended", in.ID)
	}
	<-s.placed
	c, ok := backends.As[backends.Copier](s.box)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "the boxes beneath cannot be copied")
	}
	var files bytes.Buffer
	if err := c.CopyOut(ctx, home, io.Writer(&files)); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.id("im")
	f.images[id] = &image{built: true, result: wire.Result{Status: wire.StatusSuccess}, home: files.Bytes()}
	return &wire.SnapshotAnswer{ImageID: id, Result: &wire.Result{Status: wire.StatusSuccess}}, nil
}

func (f *Fake) access(ctx context.Context, in *wire.TaskRequest) (*wire.Access, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sandboxes {
		if s.task == in.TaskID && s.whose == caller(ctx) && !s.ended() {
			return &wire.Access{JWT: f.issue(s.task), URL: f.address}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "Task '%s' not found", in.TaskID)
}
