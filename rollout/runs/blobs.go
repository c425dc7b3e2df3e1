package runs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"hermes/rollout/rundir"
)

// copyBlobs copies the blobs of all runs.
func copyBlobs(_ context.Context, d *rundir.Dir, all []*Run) error {
	to := rundir.NewBlobs(nil, d.Path)
	for _, r := range all {
		from := rundir.NewBlobs(nil, r.Dir)
		err := filepath.WalkDir(filepath.Join(r.Dir, "blobs"), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) && e == nil {
				return fs.SkipAll // no blobs
			}
			if err != nil || e.IsDir() || filepath.Ext(path) != "" {
				return err
			}
			data, err := from.Get(e.Name())
			if err == nil {
				_, err = to.Put(data)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
