//go:build !linux

package remote

import (
	"context"
	"os/exec"
)

// family is the program alone: its children, if any, see their pipes closed.
type family struct{ c *exec.Cmd }

func newFamily() *family { return &family{} }

// prepare does nothing: a program sees the end of its stdin when hermes is killed.
func (f *family) prepare(c *exec.Cmd) { f.c = c }

func (f *family) unborn() bool { return false }

func (f *family) started(int) {}

func (f *family) kill(int) { _ = f.c.Process.Kill() }

func (f *family) forget() {}

func waitExit(*exec.Cmd) {}

// EndOwn does nothing: programs see the end of their stdin.
func EndOwn(context.Context) {}

// Sweep does nothing here.
func Sweep(context.Context) int { return 0 }
