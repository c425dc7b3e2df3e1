//go:build !linux

package remote

import "os/exec"

// group does nothing: a program sees the end of its stdin when hermes is killed.
func group(*exec.Cmd) {}

// kill ends the program; its children, if any, see their pipes closed.
func kill(c *exec.Cmd) { _ = c.Process.Kill() }

func waitExit(*exec.Cmd) {}
