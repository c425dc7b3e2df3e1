//go:build !linux

package main

import (
	"testing"
)

func keeper() {}

func smallDisk(t *testing.T, _ int) (string, func()) {
	t.Helper()
	t.Skip("small disks are made on Linux only")
	return "", nil
}

func fill(*testing.T, string) {}

func busyBox(int) int { return 0 }
