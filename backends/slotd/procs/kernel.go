package procs

import (
	"os"
)

// ReadKernel reads a file of /proc or /sys, openKernel opens one, listKernel lists a folder.
func ReadKernel(path string) ([]byte, error) { return os.ReadFile(path) }

func OpenKernel(path string) (*os.File, error) { return os.Open(path) }
