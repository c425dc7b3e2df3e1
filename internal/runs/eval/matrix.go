package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hermes/envs/grade/report"
	"hermes/internal/exit"
	"hermes/internal/whole"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
)

// matrixSuffix tells the folder of a matrix from the runs that are its cells.
const matrixSuffix = "-matrix"

// cellsFile lists the runs of a matrix, so that its report can be written again.
const cellsFile = "cells.json"

// matrixCells is cells.json. The runs lie beside the folder of the matrix.
type matrixCells struct {
	Suite string   `json:"suite"`
	Runs  []string `json:"runs"`
}

// IsMatrix reports whether a folder is that of a matrix.
func IsMatrix(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, cellsFile))
	return err == nil
}

// noRun objects to a folder that is a run: the report of a matrix would lie there.
func noRun(dir string) error {
	if _, err := os.Stat(rundir.Path(dir)); err == nil {
		return fmt.Errorf("%s is a run, and the report of the matrix would lie there: name another --run", dir)
	}
	return nil
}

// openMatrix makes the folder of a matrix, with the list of its runs.
func openMatrix(dir string, cells matrixCells) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	w, err := whole.Create(filepath.Join(dir, cellsFile))
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(cells); err != nil {
		return errors.Join(err, w.Drop())
	}
	return w.Keep()
}

// WriteMatrix writes matrix.json, matrix.md and matrix.html of the runs of a matrix (or
// NAME.* where scores names a re-scoring), and the reports of the runs. Runs that were not
// begun are listed as such.
func WriteMatrix(ctx context.Context, dir, scores string, strict bool) (*report.Matrix, error) {
	raw, err := os.ReadFile(filepath.Join(dir, cellsFile))
	if err != nil {
		return nil, exit.Usage(err)
	}
	var cells matrixCells
	if err := json.Unmarshal(raw, &cells); err != nil {
		return nil, exit.Usage(fmt.Errorf("%s: %w", filepath.Join(dir, cellsFile), err))
	}
	if len(cells.Runs) == 0 {
		return nil, exit.Usage(fmt.Errorf("%s names no runs", filepath.Join(dir, cellsFile)))
	}
	m := report.NewMatrix(cells.Suite)
	var first *runs.Run
	for _, name := range cells.Runs {
		if !filepath.IsLocal(name) {
			return nil, exit.Usage(fmt.Errorf("%s: %q is no run beside it", filepath.Join(dir, cellsFile), name))
		}
		r, err := runs.Open(filepath.Join(filepath.Dir(dir), name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, rundir.ErrNoRun) {
			m.Lack(report.Head{Suite: cells.Suite, Run: name}, "it was not begun")
			continue
		}
		if err != nil {
			return nil, exit.Usage(err)
		}
		defer r.Close()
		if first == nil {
			first = r
		}
		rep, err := WriteReport(ctx, r.Dir, scores, strict)
		if errors.Is(err, errNoSamples) {
			m.Lack(headOf(r), "no sample is finished")
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := m.Add(rep, samplesOf(ctx, r, scores, nil), sameSuite(r, first, scores)); err != nil {
			return nil, err
		}
	}
	m.Finish()
	base := "matrix"
	if scores != "" {
		base = scores
	}
	return m, writePages(m, filepath.Join(dir, base))
}
