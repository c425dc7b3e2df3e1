package slotd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd"
)

// resettable returns a host with a home and a scratch folder that hold a file each.
func resettable(t *testing.T) (h *slotd.Host, home, scratch string) {
	t.Helper()
	home, scratch = t.TempDir(), t.TempDir()
	for _, d := range []string{home, scratch} {
		if err := errors.Join(os.Mkdir(d+"/given", 0o755), os.WriteFile(d+"/given/file", []byte("given"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := slotd.NewHost(slotd.Options{Home: home, Scratch: []string{scratch}, Resets: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h, home, scratch
}

func TestResetRemovesWhatCommandsLeft(t *testing.T) {
	h, home, scratch := resettable(t)
	for range 2 { // a box can be reset again and again
		r, err := h.Exec(t.Context(), backends.Cmd{Env: map[string]string{"SCRATCH": scratch}, Shell: `set -e
			touch -- .a ..b ...c "-rf" " " "$(printf 'new\nline')" given/more "$SCRATCH/x"
			mkdir -p deep/er/est && touch deep/er/est/f && chmod 0 deep/er deep
			ln -s / root; ln -s "$SCRATCH" link; mkfifo pipe; chmod 700 given
			(setsid sh -c 'trap "" TERM; while :; do sleep 1000; done' >/dev/null 2>&1 &)
			(sleep 1000 >/dev/null 2>&1 & kill -STOP $!)`})
		if err != nil || r.Code != 0 {
			t.Fatalf("%+v %s, %v", r, r.Stderr, err)
		}
		p, err := h.Start(t.Context(), backends.Cmd{Shell: "exec sleep 1000"}, backends.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := h.Reset(t.Context(), backends.ResetFiles)
		if err != nil || len(done.Left) > 0 || done.Killed == 0 || done.Removed < 11 {
			t.Fatalf("%+v, %v", done, err)
		}
		if err := unix.Kill(p.PID(), 0); err == nil {
			t.Errorf("process %d outlived the reset", p.PID())
		}
		for _, d := range []string{home, scratch} {
			var all []string
			filepath.WalkDir(d, func(p string, _ os.DirEntry, _ error) error { all = append(all, strings.TrimPrefix(p, d)); return nil })
			if !slices.Equal(all, []string{"", "/given", "/given/file"}) {
				t.Errorf("left in %s: %q", d, all)
			}
		}
		if st, _ := os.Stat(home + "/given"); st.Mode().Perm() != 0o755 {
			t.Errorf("mode of a folder that came with the box: %v", st.Mode())
		}
	}
}

// TestResetSeesWhatItCannotUndo: a box whose own files were changed is not clean.
func TestResetSeesWhatItCannotUndo(t *testing.T) {
	for name, script := range map[string]string{
		"content":              "echo x > given/file",
		"same size, old mtime": "touch -r given/file t; printf GIVEN > given/file; touch -r t given/file; rm t",
		"removed":              "rm given/file",
		"replaced":             "rm given/file; printf given > given/file",
		"moved":                "mv given away; mkdir given; cp away/file given/file",
		"link in its place":    "rm -r given; ln -s / given",
		"mode of a file":       "chmod 600 given/file",
	} {
		t.Run(name, func(t *testing.T) {
			h, _, _ := resettable(t)
			if r, err := h.Exec(t.Context(), backends.Cmd{Shell: script}); err != nil || r.Code != 0 {
				t.Fatalf("%+v %s, %v", r, r.Stderr, err)
			}
			done, err := h.Reset(t.Context(), backends.ResetFiles)
			if err != nil || len(done.Left) == 0 {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}

func TestResetRefusals(t *testing.T) {
	h, _, _ := resettable(t)
	if _, err := h.Reset(t.Context(), "some"); err == nil {
		t.Error("an unknown level")
	}
	if done, err := h.Reset(t.Context(), backends.ResetFull); err != nil || len(done.Left) == 0 {
		t.Errorf("a machine that is shared cannot be vouched for: %+v, %v", done, err)
	}
	plain, err := slotd.NewHost(slotd.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Reset(t.Context(), backends.ResetFiles); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a box that was not noted: %v", err)
	}
	plain.Close(t.Context())
	if _, err := plain.Reset(t.Context(), backends.ResetFiles); !errors.Is(err, backends.ErrClosed) {
		t.Errorf("a closed box: %v", err)
	}
}
