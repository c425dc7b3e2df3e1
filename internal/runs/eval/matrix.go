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
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
)

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
	for i := range m.Cells {
		if m.Cells[i].Missing == "" {
			m.Cells[i].Href = href(append([]string{"..", m.Cells[i].Run}, reportPath(scores)...)...)
		}
	}
	m.Finish()
	base := "matrix"
	if scores != "" {
		base = scores
	}
	return m, writePages(m, filepath.Join(dir, base))
}
