package swe

import (
	"path"
	"slices"
	"strings"

	"hermes/internal/late"
)

var (
	named   = late.Regexp(`^(?:--- a/|\+\+\+ b/)(.+?)\t?$`)
	renamed = late.Regexp(`^(?:rename|copy) (?:from|to) (.+)$`)
)

// touched lists the files of a patch, and those of them that a runner of tests can be given:
// neither data nor what the patch deletes, unless there is nothing else.
func touched(patch string) (files, tests []string) {
	var gone []string
	add := func(name string) {
		if !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	last := ""
	inHunk := false
	headed := strings.HasPrefix(patch, "diff --git ") || strings.Contains(patch, "\ndiff --git ")
	for line := range strings.Lines(patch) {
		line = strings.TrimRight(line, "\r\n")
		if rest, ok := strings.CutPrefix(line, "diff --git "); ok {
			last, inHunk = "", false
			// a binary file has no --- and +++ lines; its name is in "a/X b/X"
			if half := len(rest) / 2; len(rest) > 4 && rest[:2] == "a/" && rest[half:] == " b/"+rest[2:half] {
				last = rest[2:half]
				add(last)
			}
			continue
		}
		switch m := []string(nil); {
		case strings.HasPrefix(line, "@@ "):
			inHunk = true
		case inHunk && headed: // "--- a/x" is a line "-- a/x" that goes
		case strings.HasPrefix(line, "deleted file mode ") && last != "", line == "+++ /dev/null" && last != "":
			gone = append(gone, last)
		default:
			m = named.FindStringSubmatch(line)
			if m == nil {
				m = renamed.FindStringSubmatch(line)
			}
			if m != nil {
				last = m[1]
				add(last)
				if strings.HasPrefix(line, "rename from ") {
					gone = append(gone, last)
				}
			}
		}
	}
	for _, f := range files {
		if !slices.Contains(gone, f) && !slices.Contains(dataFiles(), path.Ext(f)) {
			tests = append(tests, f)
		}
	}
	if len(tests) == 0 {
		tests = files
	}
	return files, tests
}

// dataFiles are the endings of files that lie beside tests and hold none.
func dataFiles() []string {
	return strings.Fields(".json .png .csv .txt .md .rst .jpg .jpeg .gif .svg .pkl .yml .yaml .toml .cfg .ini .xml .html .pdf .zip .gz .npy .npz .fits .dat .bin")
}
