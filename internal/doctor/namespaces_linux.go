package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"hermes/backends/namespace"
)

// tryNamespaces runs `true` in fresh user, mount and pid namespaces.
func tryNamespaces(ctx context.Context, find func(string) (string, error)) (string, error) {
	path, err := find("true")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, path)
	c.Env = []string{}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("a process in fresh user, mount and pid namespaces: %w", err)
	}
	return "user, mount and pid namespaces can be made", nil
}

// cgroups says which cgroups boxes get.
func cgroups() (string, error) {
	if found := namespace.Cgroups(); found != "" {
		return found, nil
	}
	return "", errors.New("no groups may be made, neither in a delegated subtree of version 2 nor below memory and pids of version 1")
}
