package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hermes/configs"
)

// Machine are the probes of the machine that we run on.
func Machine(env configs.Env) Probes {
	find := func(program string) (string, error) { return findProgram(env.Get("PATH"), program) }
	return Probes{
		Namespaces: func(ctx context.Context) (string, error) { return tryNamespaces(ctx, find) },
		Cgroup:     cgroups,
		Limits:     tryLimits,
		Ping:       ping,
		Find:       find,
		Modal:      func() (string, error) { return modalToken(env) },
		Files:      tryFiles,
		Space:      freeSpace,
	}
}

// modalToken looks whether the usual variables of a token are set.
func modalToken(env configs.Env) (string, error) {
	for _, name := range []string{"MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"} {
		if env.Get(name) == "" {
			return "", fmt.Errorf("%s is not set", name)
		}
	}
	return "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET are set", nil
}

func findProgram(path, program string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // a program of the working directory is not what is meant
		}
		file := filepath.Join(dir, program)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s is not on the PATH", program)
}

// ping asks an engine on a Unix socket whether it lives.
func ping(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		var sys syscall.Errno
		if errors.As(err, &sys) {
			return "", fmt.Errorf("%s: %w", socket, sys)
		}
		return "", fmt.Errorf("%s: %w", socket, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: the engine answers %s", socket, resp.Status)
	}
	if v := resp.Header.Get("Api-Version"); v != "" {
		return socket + ", API " + v, nil
	}
	return socket + " answers " + strings.TrimSpace(string(body)), nil
}

// existing is dir or the nearest folder above it that exists.
func existing(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	for {
		if info, err := os.Stat(abs); err == nil && info.IsDir() || abs == filepath.Dir(abs) {
			return abs
		}
		abs = filepath.Dir(abs)
	}
}

// tryFiles does what the log of a run does: write, fsync, rename, fsync the folder, and
// hold a lock that a second holder does not get.
func tryFiles(dir string) (found string, err error) {
	tmp, err := os.MkdirTemp(existing(dir), ".hermes-doctor-")
	if err != nil {
		return "", fmt.Errorf("write: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	f, err := os.Create(filepath.Join(tmp, "a"))
	if err != nil {
		return "", fmt.Errorf("create: %w", err)
	}
	defer f.Close()
	start := time.Now()
	if _, err := f.WriteString("probe"); err != nil {
		return "", fmt.Errorf("write: %w", err)
	}
	if err := f.Sync(); err != nil {
		return "", fmt.Errorf("fsync: %w", err)
	}
	took := time.Since(start)
	if err := os.Rename(filepath.Join(tmp, "a"), filepath.Join(tmp, "b")); err != nil {
		return "", fmt.Errorf("rename: %w", err)
	}
	d, err := os.Open(tmp)
	if err != nil {
		return "", err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return "", fmt.Errorf("fsync of a folder: %w", err)
	}
	if err := locks(f, filepath.Join(tmp, "b")); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: fsync (%s), rename, flock work", filepath.Dir(tmp), took.Round(10*time.Microsecond)), nil
}

func locks(held *os.File, path string) error {
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("flock: %w", err)
	}
	second, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	defer second.Close()
	if syscall.Flock(int(second.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return errors.New("flock: a second holder got the same lock")
	}
	return nil
}

func freeSpace(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(existing(dir), &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
