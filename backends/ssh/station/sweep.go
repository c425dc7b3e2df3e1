//go:build linux

package station

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// Names in the folder of a station.
const (
	controlName = "c"
	cardName    = "owner"
)

// unused is how long a program that no client asked for stays on the host.
const unused = 30 * 24 * time.Hour

// writeCard writes down whose the station is and which process.
func writeCard(s Setup) error {
	raw, err := json.Marshal(card{Other: Other{ID: s.ID, Owner: s.Owner, Boot: s.Boot}, PID: os.Getpid()})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Dir, cardName), raw, 0o600)
}

// card is what a station says of itself to others.
type card struct {
	Other
	PID int `json:"pid"`
}

// others lists the stations beside this one. A station that does not answer is dead; one that
// is just being made is not listed.
func others(s Setup) ([]Other, error) {
	found, err := os.ReadDir(filepath.Dir(s.Dir))
	if err != nil {
		return nil, err
	}
	list := []Other{}
	for _, e := range found {
		dir := filepath.Join(filepath.Dir(s.Dir), e.Name())
		raw, err := os.ReadFile(filepath.Join(dir, cardName))
		if err != nil || dir == s.Dir {
			continue
		}
		var c card
		if json.Unmarshal(raw, &c) != nil || c.ID == "" || c.PID <= 0 {
			continue
		}
		c.Dead = ended(c.PID, dir)
		c.ID = e.Name()
		list = append(list, c.Other)
	}
	return list, nil
}

// ended reports that a station's process is gone: no process has its id, or one that
// does not listen where the station did.
func ended(pid int, dir string) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	conn, err := net.DialTimeout("unix", filepath.Join(dir, controlName), time.Second)
	if err == nil {
		conn.Close()
		return false
	}
	// The one that is being made has a card but no socket yet.
	return errors.Is(err, unix.ECONNREFUSED)
}

// remove ends another station, whose owner is dead, and removes what it left.
func remove(ctx context.Context, s Setup, id string) error {
	dir := filepath.Join(filepath.Dir(s.Dir), id)
	if id == "" || filepath.Base(id) != id || dir == s.Dir {
		return fmt.Errorf("station %q: not another one", id)
	}
	raw, err := os.ReadFile(filepath.Join(dir, cardName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c card
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return fmt.Errorf("station %s: %w", id, err)
	}
	if !ended(c.PID, dir) {
		if err := tellEnd(ctx, dir); err != nil {
			return fmt.Errorf("end station %s: %w", id, err)
		}
		return nil
	}
	killMarked(id)
	return trees.RemoveAll(dir)
}

// tellEnd asks a station to end and waits until its folder is gone.
func tellEnd(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(dir, controlName))
	}}}
	r, err := http.NewRequestWithContext(ctx, "POST", "http://station/v1/end", nil)
	if err != nil {
		return err
	}
	if answer, err := web.Do(r); err == nil {
		answer.Body.Close()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// killMarked ends the processes that boxes of a dead station left. Those of namespaces
// ended with it; plain ones bear the name of their box.
func killMarked(id string) {
	want := []byte("\x00" + wire.MarkEnv + "=" + id + "-")
	for range 10 { // they may multiply meanwhile
		found := false
		all, _ := os.ReadDir("/proc")
		for _, e := range all {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
			if err == nil && bytes.Contains(append([]byte{0}, env...), want) {
				found = unix.Kill(pid, unix.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
	}
}

// forgetPrograms removes programs that no client has used for long.
func forgetPrograms(base string, own string) {
	found, _ := filepath.Glob(filepath.Join(base, ProgramDir+"*"))
	for _, dir := range found {
		st, err := os.Stat(dir)
		if err == nil && st.IsDir() && !strings.HasPrefix(own, dir+"/") && time.Since(st.ModTime()) > unused {
			os.RemoveAll(dir)
		}
	}
}
