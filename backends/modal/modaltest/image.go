package modaltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hermes/backends/modal/wire"
)

// image is an image, built or not.
type image struct {
	want   *wire.Image
	built  bool
	joined int // questions about its build
	result wire.Result
	home   []byte // tar of the home folder, of a snapshot
}

func (f *Fake) image(_ context.Context, in *wire.ImageRequest) (*wire.ImageAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case in.Image == nil || len(in.Image.Commands) == 0 || !strings.HasPrefix(in.Image.Commands[0], "FROM "):
		return nil, status.Error(codes.InvalidArgument, "the first line of an image is FROM")
	case f.owners[in.AppID] == "":
		return nil, status.Errorf(codes.NotFound, "App '%s' not found", in.AppID)
	case in.Builder != builder:
		return nil, status.Errorf(codes.InvalidArgument, "image builder version '%s' is not known", in.Builder)
	}
	sum := sha256.Sum256(fmt.Append(nil, in.AppID, in.Image.Commands, in.Image.GPU, in.Image.Registry))
	id := "im-" + hex.EncodeToString(sum[:])[:22]
	i := f.images[id]
	if i == nil || i.built && i.result.Status != wire.StatusSuccess {
		i = &image{want: in.Image}
		f.images[id] = i
	}
	a := &wire.ImageAnswer{ID: id}
	if i.built {
		a.Result = &i.result
	}
	return a, nil
}

// joinImage builds an image while somebody asks: the first stream ends in its middle.
func (f *Fake) joinImage(_ context.Context, in *wire.ImageJoin, send func(*wire.ImageProgress) error) error {
	f.mu.Lock()
	i := f.images[in.ID]
	if i == nil {
		f.mu.Unlock()
		return status.Errorf(codes.NotFound, "Image '%s' not found", in.ID)
	}
	i.joined++
	first := i.joined == 1
	if !first && !i.built {
		i.built, i.result = true, f.build(i.want)
	}
	result := i.result
	f.mu.Unlock()
	if first {
		if err := send(&wire.ImageProgress{Entry: "1-0", Logs: []*wire.TaskLog{{Data: "Building " + in.ID + "\n"}}}); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "the stream was cut")
	}
	if in.LastEntry != "1-0" {
		return status.Errorf(codes.InvalidArgument, "entry '%s' was never sent", in.LastEntry)
	}
	log := &wire.ImageProgress{Entry: "2-0", Logs: []*wire.TaskLog{{Data: i.want.Commands[0] + "\n"}}}
	if err := send(log); err != nil {
		return err
	}
	return send(&wire.ImageProgress{Entry: "3-0", Result: &result, EOF: true})
}

// build looks whether a registry has the image, and lets who asks for it have it. The
// fake is locked.
func (f *Fake) build(want *wire.Image) wire.Result {
	fail := func(format string, args ...any) wire.Result {
		return wire.Result{Status: wire.StatusFailure, Exception: fmt.Sprintf(format, args...), ExitCode: 1}
	}
	name := strings.TrimSpace(strings.TrimPrefix(want.Commands[0], "FROM "))
	if login, private := f.opt.Private[name]; private {
		var s map[string]string
		if want.Registry != nil && want.Registry.Auth == wire.RegistryStatic {
			s = f.secrets[want.Registry.Secret]
		}
		if s["REGISTRY_USERNAME"]+":"+s["REGISTRY_PASSWORD"] != login {
			return fail("unauthorized: authentication required for %s", name)
		}
	} else if !slices.Contains(f.opt.Images, name) {
		return fail("failed to fetch %s: manifest unknown", name)
	}
	for _, line := range want.Commands[1:] {
		if strings.TrimSpace(line) == "RUN false" {
			return fail("%s: exit code 1", line)
		}
	}
	return wire.Result{Status: wire.StatusSuccess}
}
