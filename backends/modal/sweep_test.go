package modal_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/modal"
	"hermes/backends/modal/modaltest"
)

// own is a process that opens boxes on a service and waits for its end.
func own(server, slotd string) int {
	vars := map[string]string{"MODAL_TOKEN_ID": tokenID, "MODAL_TOKEN_SECRET": os.Getenv("OWN_SECRET")}
	b, err := modal.Open(context.Background(), modal.Config{Server: server, Slotd: slotd, Settings: modal.Settings{Program: program}},
		modal.Surroundings{Env: func(name string) string { return vars[name] }})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for range 3 {
		x, err := b.Open(context.Background(), backends.Spec{Labels: map[string]string{"rollout": "a b/c"}})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if _, err := x.Exec(context.Background(), backends.Cmd{Shell: "true"}); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(x.ID())
	}
	fmt.Println("open")
	bufio.NewReader(os.Stdin).ReadByte()
	return 0
}

// TestSweep kills an owner of boxes. Its boxes go with the next sweep, page by page, and
// those of a living one do not.
func TestSweep(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{Page: 2, Files: inImage(t)})
	c := modal.Config{Settings: modal.Settings{Program: program}}
	living := open(t, f, c)
	kept := boxOf(t, living, backends.Spec{Labels: map[string]string{"rollout": "r/1"}})
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(this, "own", f.Address(), slotdFor(t))
	child.Env = append(os.Environ(), "OWN_SECRET="+tokenSecret)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "open"; {
		names = append(names, lines.Text())
	}
	if n, err := living.Sweep(t.Context()); n != 0 || err != nil || len(names) != 3 {
		t.Errorf("while the owner lives: %d removed, %v; its boxes are %v", n, err, names)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	if n := f.Running(""); n != 4 {
		t.Fatalf("%d sandboxes run, want 4", n)
	}
	if n, err := living.Sweep(t.Context()); n != 3 || err != nil {
		t.Errorf("%d removed, %v; want 3", n, err)
	}
	if n, err := living.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("again: %d removed, %v", n, err)
	}
	if code, out := sh(t, kept, "echo lives"); code != 0 || out != "lives" {
		t.Errorf("the box of a living owner: %d %q", code, out)
	}
	_, tags, err := f.Definition(kept.ID())
	text := fmt.Sprint(err)
	for _, tag := range tags {
		text += " " + tag.Name + "=" + tag.Value
	}
	for _, want := range []string{"hermes-kind=box", "hermes-owner=" + backends.Self().String(), "hermes-expires=", "hermes-label-rollout=r-1"} {
		if !strings.Contains(text, want) {
			t.Errorf("tags %s have no %s", text, want)
		}
	}
}

// TestSweptByOpen counts what Open removed once.
func TestSweptByOpen(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{Files: inImage(t)})
	c := modal.Config{Settings: modal.Settings{Program: program}}
	first, err := start(t, f, c)
	if err != nil {
		t.Fatal(err)
	}
	first.Own(backends.Owner{Space: backends.Self().Space, PID: 1 << 30, Start: 1}) // no such process
	if _, err := first.Open(t.Context(), backends.Spec{}); err != nil {
		t.Fatal(err)
	}
	second := open(t, f, c)
	if n := f.Running(""); n != 0 {
		t.Errorf("%d sandboxes of a dead owner run", n)
	}
	for _, want := range []int{1, 0} {
		if n, err := second.Sweep(t.Context()); n != want || err != nil {
			t.Errorf("%d removed, %v; want %d", n, err, want)
		}
	}
	if err := first.Close(context.Background()); err != nil {
		t.Errorf("close the boxes that are gone: %v", err)
	}
}
