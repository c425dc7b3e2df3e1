//go:build linux

package escapes

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// racing is the first argument of the program that exchanges names while hermes looks.
const racing = "hermes-race"

// races are names that are exchanged again and again with what leads to another folder, and
// the path that hermes is given meanwhile. Each makes its things and returns the two names.
func races() map[string]func(outside string) (one, two, path string, err error) {
	made := func(errs ...error) error {
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
	return map[string]func(string) (string, string, string, error){
		"a file and a link": func(outside string) (string, string, string, error) {
			return "f", "fl", "f", made(os.WriteFile("f", []byte("inside"), 0o644), os.Symlink(outside+"/f", "fl"))
		},
		"a folder and a link": func(outside string) (string, string, string, error) {
			return "d", "dl", "d/f", made(os.Mkdir("d", 0o755), os.WriteFile("d/f", []byte("inside"), 0o644), os.Symlink(outside, "dl"))
		},
		"a folder above and a link": func(outside string) (string, string, string, error) {
			up := "u/v"
			return "u", "ul", up + "/f", made(os.MkdirAll(up, 0o755), os.WriteFile(up+"/f", []byte("inside"), 0o644), os.Symlink(filepath.Dir(outside), "ul"))
		},
		"a folder and a magic link": func(outside string) (string, string, string, error) {
			return "m", "ml", "m" + outside + "/f", made(os.MkdirAll("m"+outside, 0o755), os.WriteFile("m"+outside+"/f", []byte("inside"), 0o644), os.Symlink("/proc/self/root", "ml"))
		},
		"a folder and a link upwards": func(outside string) (string, string, string, error) {
			return "w", "wl", "w" + outside + "/f", made(os.MkdirAll("w"+outside, 0o755), os.WriteFile("w"+outside+"/f", []byte("inside"), 0o644), os.Symlink(strings.Repeat("../", 40), "wl"))
		},
	}
}

// RaceNames lists the races.
func RaceNames() []string { return slices.Sorted(maps.Keys(races())) }

// race exchanges two names until it is ended; first it prints the path to look at.
func race(name, outside string) int {
	begin, ok := races()[name]
	if !ok {
		fmt.Println("no such race")
		return 3
	}
	one, two, path, err := begin(outside)
	if err != nil {
		fmt.Println("not begun:", err)
		return 3
	}
	fmt.Println(path)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if err := unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, two, unix.RENAME_EXCHANGE); err != nil {
			fmt.Println(err)
			return 3
		}
	}
	return 0
}

// Raced has commands exchange names with links that lead to a folder of the host while hermes
// reads, writes, lists, searches and copies there. It returns the races in which that folder
// was read or written.
func Raced(t *testing.T, b backends.Backend) (lost []string) {
	t.Helper()
	for _, name := range RaceNames() {
		if raced(t, b, name) {
			lost = append(lost, name)
		}
	}
	return lost
}

// Races makes sure that none is lost.
func Races(t *testing.T, b backends.Backend) {
	t.Helper()
	for _, name := range RaceNames() {
		t.Run(name, func(t *testing.T) {
			if raced(t, b, name) {
				t.Error("a call of hermes went through the link to the host's folder")
			}
		})
	}
}

func raced(t *testing.T, b backends.Backend, name string) (lost bool) {
	t.Helper()
	canary := fmt.Sprint("canary ", time.Now().UnixNano()) // the program in the box must not hold it
	outside := filepath.Join(t.TempDir(), "v")             // its parent has a v/f too: see the folder above
	if err := os.Mkdir(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(outside, "f")
	reset := func() {
		if err := os.WriteFile(file, []byte(canary), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	reset()
	x := open(t, b)
	put(t, x)
	path := begun(t, x, `setsid ./probe `+racing+` "`+name+`" `+outside)
	if path == "" || strings.Contains(path, " ") {
		t.Fatalf("the race has not begun: %q", path)
	}
	for end := time.Now().Add(700 * time.Millisecond); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		seen, _ := x.ReadFile(ctx, path, 0)
		lost = lost || strings.Contains(string(seen), canary)
		if s, ok := backends.As[backends.Searcher](x); ok {
			found, _ := s.Search(ctx, backends.Query{Root: filepath.Dir(path), Pattern: canary, Content: true})
			lost = lost || found.Total > 0
		}
		if c, ok := backends.As[backends.Copier](x); ok {
			var out strings.Builder
			c.CopyOut(ctx, filepath.Dir(path), &out)
			lost = lost || strings.Contains(out.String(), canary)
			c.CopyOut(ctx, path, io.Discard)
		}
		x.WriteFile(ctx, path, []byte("inside"), 0) // may fail: a name is never there for long
		cancel()
		if now, err := os.ReadFile(file); err != nil || string(now) != canary {
			lost = true
			reset()
		}
	}
	if r, err := x.Exec(t.Context(), backends.Cmd{Shell: "cat out"}); err != nil || strings.Count(string(r.Stdout), "\n") != 1 {
		t.Errorf("the race ended early: %s, %v", r.Stdout, err)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
		lost = true
	}
	return lost
}
