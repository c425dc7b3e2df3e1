//go:build !linux

package trees

import (
	"context"
	"os"
)

// Remove removes a tree that this program has made: there are no hostile ones on a system
// without boxes.
func Remove(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// RemoveAll is Remove without a bound of time.
func RemoveAll(path string) error { return os.RemoveAll(path) }
