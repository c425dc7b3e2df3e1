package eval

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/internal/whole"
	"hermes/rollout/rundir"
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
	return whole.Write(filepath.Join(dir, cellsFile), func(w io.Writer) error { return json.NewEncoder(w).Encode(cells) })
}

// matrixOf finds the folder of the matrix that has a run among its cells; empty: there is none.
func matrixOf(dir string) string {
	folders, err := filepath.Glob(filepath.Join(globText(filepath.Dir(filepath.Clean(dir))), "*"+matrixSuffix, cellsFile))
	if err != nil {
		return ""
	}
	for _, file := range folders {
		raw, err := os.ReadFile(file)
		var cells matrixCells
		if err == nil && json.Unmarshal(raw, &cells) == nil && slices.Contains(cells.Runs, filepath.Base(dir)) {
			return filepath.Dir(file)
		}
	}
	return ""
}

// globText is a text as [filepath.Glob] matches it literally.
func globText(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(text)
}
