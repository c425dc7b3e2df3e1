//go:build linux

package procs

import (
	"os"
)

// ReadKernel reads a file of /proc or /sys.
func ReadKernel(path string) ([]byte, error) { return os.ReadFile(path) }

// OpenKernel opens a file of /proc or /sys, or a folder.
func OpenKernel(path string) (*os.File, error) { return os.Open(path) }
