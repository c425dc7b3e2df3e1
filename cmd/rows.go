package cmd

import (
	"errors"
	"syscall"

	"hermes/datasets"
	"hermes/internal/build"
	"hermes/internal/settings"
)

// rowOptions turns the flags about rows and the environment into options of datasets.
func (h *host) rowOptions(f settings.RowFlags, seed int64) (datasets.Options, error) {
	o, err := f.RowOptions(seed)
	if err != nil {
		return o, &Exit{Code: ExitUsage, Err: err}
	}
	o.Stdin, o.Hub = h.stdin(), build.Hub(h.Env.Get, f.Offline)
	o.Hub.Log = func(text string) { h.Log.Info(text) }
	if f.Limit < 0 {
		return o, Usage("--limit %d: want 0 (all) or more", f.Limit)
	}
	return o, nil
}

// inputError gives exit code 2 to what is wrong with data or places that the user
// named; a disk that is full or broken stays an error of ours.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	for _, ours := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, ours) {
			return err
		}
	}
	return &Exit{Code: ExitUsage, Err: err}
}
