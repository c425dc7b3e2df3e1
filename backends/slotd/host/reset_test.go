package host_test

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/client"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/server"
)

// resettable returns a host with a home and a scratch folder that hold a file each.
func resettable(t *testing.T) (h *host.Host, home, scratch string) {
	t.Helper()
	home, scratch = t.TempDir(), t.TempDir()
	for _, d := range []string{home, scratch} {
		if err := errors.Join(os.Mkdir(d+"/given", 0o755), os.WriteFile(d+"/given/file", []byte("given"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := host.New(host.Options{Home: home, Scratch: []string{scratch}, Resets: true})
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

// TestResetFollowsNoLink: where a command put a link in the place of a folder that is
// wiped, what it leads to is left alone.
func TestResetFollowsNoLink(t *testing.T) {
	h, home, scratch := resettable(t)
	victim := t.TempDir()
	if err := os.WriteFile(victim+"/precious", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{home, scratch} {
		if err := errors.Join(os.Rename(d, d+".away"), os.Symlink(victim, d)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(d + ".away") })
	}
	done, err := h.Reset(t.Context(), backends.ResetFiles)
	if err != nil || len(done.Left) == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := os.Stat(victim + "/precious"); err != nil {
		t.Errorf("the reset went through the link: %v", err)
	}
}

// TestResetEndsCopies: a copy that was under way neither leaves files in the box that the
// next one gets nor takes files from it.
func TestResetEndsCopies(t *testing.T) {
	h, home, _ := resettable(t)
	archive := func(w *tar.Writer, name string) error {
		return errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 1 << 20}), func() error {
			_, err := w.Write(make([]byte, 1<<20))
			return err
		}())
	}
	in, into := io.Pipe()
	copied := make(chan error, 1)
	go func() { copied <- h.CopyIn(context.Background(), ".", in) }()
	w := tar.NewWriter(into)
	if err := archive(w, "first"); err != nil { // it has been read when this returns
		t.Fatal(err)
	}
	from, out := io.Pipe()
	go func() { out.CloseWithError(h.CopyOut(context.Background(), ".", out)) }()
	r := tar.NewReader(from)
	if hdr, err := r.Next(); err != nil || hdr.Name != "first" {
		t.Fatal(hdr, err)
	}
	if done, err := h.Reset(t.Context(), backends.ResetFiles); err != nil || len(done.Left) > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if err := h.WriteFile(t.Context(), "given/secret", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	go func() { // the copy may have ended
		archive(w, "second")
		w.Close()
		into.Close()
	}()
	if err := <-copied; !errors.Is(err, backends.ErrClosed) {
		t.Errorf("a copy into a box that was reset: %v", err)
	}
	in.Close()
	for {
		hdr, err := r.Next()
		if err != nil {
			if !errors.Is(err, backends.ErrClosed) {
				t.Errorf("a copy from a box that was reset: %v", err)
			}
			break
		}
		if hdr.Name == "given/secret" {
			t.Error("the copy reads what the next one wrote")
		}
	}
	if names, _ := filepath.Glob(home + "/*"); !slices.Equal(names, []string{home + "/given"}) {
		t.Errorf("the next one finds %q", names)
	}
}

// TestResetEndsCallsThatWait: a command whose request was admitted before a reset but is
// complete only afterwards does not run in the box of the next one.
func TestResetEndsCallsThatWait(t *testing.T) {
	home, socket := t.TempDir(), t.TempDir()+"/s"
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(ctx, l, server.Options{Options: host.Options{Home: home, Resets: true}})
	}()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	dial := func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", socket) }
	c := client.New(dial, client.Options{})
	// The server says "100 Continue" when a call that it admitted reads its body.
	for path, body := range map[string]string{"exec/late": "", "file?path=late": "x", "process": ""} {
		conn, err := dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if body == "" {
			command := `{"argv":["dG91Y2g=","bGF0ZQ=="]}` // touch late
			body = string(binary.BigEndian.AppendUint32(nil, uint32(len(command)))) + command
		}
		method := map[bool]string{true: "PUT", false: "POST"}[strings.HasPrefix(path, "file")]
		fmt.Fprintf(conn, "%s /v1/%s HTTP/1.1\r\nHost: box\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", method, path, len(body))
		answers := bufio.NewReader(conn)
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("%s: %q, %v", path, line, err)
		}
		answers.ReadString('\n')
		r, _ := backends.As[backends.Resetter](c)
		if done, err := r.Reset(t.Context(), backends.ResetFiles); err != nil || len(done.Left) > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		io.WriteString(conn, body)
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		text, _ := io.ReadAll(answer.Body)
		if !strings.Contains(string(text), "closed") {
			t.Errorf("%s: %s %q", path, answer.Status, text)
		}
	}
	if names, _ := os.ReadDir(home); len(names) > 0 {
		t.Errorf("the next one finds %v", names)
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
	plain, err := host.New(host.Options{Home: t.TempDir()})
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
