package modal_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"hermes/backends"
	"hermes/backends/modal"
	"hermes/backends/modal/modaltest"
	"hermes/backends/modal/wire"
)

// two is a configuration with two accounts of one class, and one of another.
func two() modal.Config {
	return modal.Config{Use: "cpu", Settings: modal.Settings{Program: program}, Profiles: map[string]modal.Settings{
		"first":  {Class: "cpu", Weight: 2},
		"second": {Class: "cpu", TokenID: "OTHER_ID", TokenSecret: "OTHER_SECRET"},
		"gpu":    {GPU: "t4:2", CPUs: 1.5, Memory: 1 << 30, Disk: 2 << 30, Idle: 90 * time.Second, App: "gpu-boxes", Image: "debian:12-slim"},
	}}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{Files: inImage(t)})
	b := open(t, f, two())
	for range 6 {
		boxOf(t, b, backends.Spec{})
	}
	if first, second := f.Running(tokenID), f.Running("ak-other"); first != 4 || second != 2 {
		t.Errorf("boxes by weight: %d and %d, want 4 and 2", first, second)
	}
	x := boxOf(t, b, backends.Spec{Image: "@gpu", Limits: backends.Limits{CPUs: 2}})
	d, _, err := f.Definition(x.ID())
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Resources; r.GPU == nil || r.GPU.Type != "T4" || r.GPU.Count != 2 || r.MilliCPU != 2000 || r.MilliCPUMax != 2000 || r.MemoryMB != 1024 ||
		r.MemoryMBMax != 1024 || r.DiskMB != 2048 || *d.Idle != 90 {
		t.Errorf("%+v, idle %v", r, d.Idle)
	}
	if tr := b.Traits(); tr.Slots != 0 || tr.Network != "none" || !strings.Contains(strings.Join(tr.Notes, " "), "profiles first, gpu, second") {
		t.Errorf("%+v", tr)
	}
}

// TestQuota spills over to the other account of a class, never to another class, and is
// an error where there is none.
func TestQuota(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{Files: inImage(t)})
	b := open(t, f, two())
	f.SetQuota(tokenID, 0)
	for range 2 {
		boxOf(t, b, backends.Spec{})
	}
	if n := f.Running("ak-other"); n != 2 {
		t.Errorf("%d boxes of the other account, want 2", n)
	}
	creates := f.Calls(wire.SandboxCreate)
	_, err := b.Open(t.Context(), backends.Spec{Image: "@gpu"})
	if !errors.Is(err, modal.ErrQuota) || !errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrUnavailable) ||
		!strings.Contains(err.Error(), "its limit of sandboxes") {
		t.Errorf("error %v", err)
	}
	if n := f.Calls(wire.SandboxCreate) - creates; n > 1 {
		t.Errorf("a quota was asked for %d times", n)
	}
	f.SetQuota("ak-other", 0)
	if _, err := b.Open(t.Context(), backends.Spec{}); !errors.Is(err, modal.ErrQuota) {
		t.Errorf("both accounts are full: %v", err)
	}
	f.SetQuota(tokenID, -1)
	f.SetQuota("ak-other", -1)
	for { // the service said when to come again: in 50 ms
		x, err := b.Open(t.Context(), backends.Spec{Image: "@gpu"})
		if err == nil {
			x.Close(context.Background())
			break
		}
		if !errors.Is(err, modal.ErrQuota) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestAuth(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{Files: inImage(t)})
	b := open(t, f, two())
	x := boxOf(t, b, backends.Spec{Image: "@second"})
	f.Revoke(tokenID)
	boxOf(t, b, backends.Spec{}) // the other account's
	_, err := b.Open(t.Context(), backends.Spec{Image: "@first"})
	if !errors.Is(err, backends.ErrUnavailable) || !errors.Is(err, modal.ErrAuth) || !strings.Contains(err.Error(), "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET") {
		t.Errorf("error %v", err)
	}
	noSecret(t, err.Error())
	if code, out := sh(t, x, "echo lives"); code != 0 || out != "lives" {
		t.Errorf("%d %q", code, out)
	}
	if _, err := start(t, f, modal.Config{}); !errors.Is(err, backends.ErrUnavailable) || !errors.Is(err, modal.ErrAuth) {
		t.Errorf("opened with a token that was revoked: %v", err)
	}
	if _, err := start(t, f, modal.Config{Settings: modal.Settings{TokenSecret: "NOT_SET"}}); !errors.Is(err, backends.ErrUnavailable) ||
		!strings.Contains(err.Error(), "variable NOT_SET is not set") {
		t.Errorf("opened without a token: %v", err)
	}
	if _, err := start(t, f, modal.Config{Settings: modal.Settings{
		TokenID:     "OTHER_ID",
		TokenSecret: "OTHER_SECRET",
		Environment: "moon",
	}}); !errors.Is(err, modal.ErrRefused) || !strings.Contains(err.Error(), `environment "moon"`) {
		t.Errorf("opened in an environment that is not there: %v", err)
	}
}

// TestMax waits for a place of a profile.
func TestMax(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{Files: inImage(t)})
	b := open(t, f, modal.Config{Settings: modal.Settings{Program: program, Max: 1}})
	if n := b.Traits().Slots; n != 1 {
		t.Errorf("%d slots", n)
	}
	x := boxOf(t, b, backends.Spec{})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("waited for long enough"))
	defer cancel()
	if _, err := b.Open(ctx, backends.Spec{}); err == nil || !strings.Contains(err.Error(), "waited for long enough") {
		t.Errorf("error %v", err)
	}
	got := make(chan error, 1)
	go func() {
		y, err := b.Open(t.Context(), backends.Spec{})
		if err == nil {
			err = y.Close(t.Context())
		}
		got <- err
	}()
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestRefusedSpecs(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{Files: inImage(t)})
	b := open(t, f, modal.Config{
		Use:      "plain",
		Settings: modal.Settings{Program: program},
		Profiles: map[string]modal.Settings{"plain": {}, "odd": {GPU: "XYZ"}, "net": {Network: "open"}},
	})
	for _, s := range []backends.Spec{{Image: "@odd"}, {Image: "@net"}, {Limits: backends.Limits{Memory: 1000}}} {
		if _, err := b.Open(t.Context(), s); !errors.Is(err, backends.ErrUnavailable) || !errors.Is(err, modal.ErrRefused) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestNoService: the service does not answer.
func TestNoService(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{})
	f.Fail(wire.EnvironmentGetOrCreate, 10, codes.Unavailable)
	_, err := start(t, f, modal.Config{})
	if !errors.Is(err, backends.ErrUnavailable) || !errors.Is(err, modal.ErrNoService) || !strings.Contains(err.Error(), f.Address()) {
		t.Errorf("error %v", err)
	}
	if n := f.Calls(wire.EnvironmentGetOrCreate); n != 4 {
		t.Errorf("%d tries, want 4", n)
	}
}
