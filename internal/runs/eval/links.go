package eval

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/envs/grade/report"
	"hermes/rollout/artifact"
	"hermes/rollout/rundir"
)

// labelKeys are the keys of rows by which reports give means.
func labelKeys() []string {
	return []string{"category", "subject", "topic", "domain", "generator", "difficulty", "level"}
}

// labelsOf reads the cluster of a row and the labels by which means are given.
func labelsOf(metadata json.RawMessage) (cluster string, labels []report.Label) {
	if len(metadata) == 0 || !slices.ContainsFunc(append(labelKeys(), "cluster"), func(key string) bool { return bytes.Contains(metadata, []byte(`"`+key+`"`)) }) {
		return "", nil // the usual case, without decoding
	}
	var row map[string]json.RawMessage
	if json.Unmarshal(metadata, &row) != nil {
		return "", nil
	}
	for _, key := range labelKeys() {
		raw := row[key]
		var text string
		switch {
		case len(raw) == 0 || len(raw) > 200 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null":
			continue
		case json.Unmarshal(raw, &text) != nil:
			text = string(raw) // a number or a truth value
		}
		labels = append(labels, report.Label{Key: key, Value: text})
	}
	return string(row["cluster"]), labels
}

// settingsOf are the parts of a run's identity that say something.
func settingsOf(m rundir.Manifest) (list []report.Setting) {
	for _, f := range m.Identity {
		if f.Value != "" && f.Value != "null" && f.Value != "0" && f.Value != "false" {
			list = append(list, report.Setting{Name: f.Name, Value: f.Value})
		}
	}
	return list
}

// reportPath is the path of the report page in a run directory.
func reportPath(scores string) []string {
	if scores == "" {
		return []string{"report.html"}
	}
	return []string{"scores", scores + ".html"}
}

// up leads from the folder of a report page to the run directory.
func up(scores string) string { return strings.Repeat("../", len(reportPath(scores))-1) }

// linksOf are the pages of a run that are there beside the page called from: its report, its
// groups, its conversations, and the matrix of which it is a cell. base leads to its directory.
func linksOf(dir, from, base string) (list []report.Link) {
	for _, p := range []struct{ name, file string }{{"report", "report.html"}, {"groups", "groups.html"}, {"conversations", "view/index.html"}} {
		if _, err := os.Stat(filepath.Join(dir, p.file)); err == nil && p.name != from {
			list = append(list, report.Link{Name: p.name, Href: base + p.file})
		}
	}
	if matrix := matrixOf(dir); matrix != "" {
		list = append(list, report.Link{Name: "matrix", Href: base + href("..", filepath.Base(matrix), "matrix.html")})
	}
	return list
}

// sampleLinks finds what there is to see of a sample: its conversation, where the run was
// exported into its folder view, and what was kept of its box. base leads to its directory.
func sampleLinks(dir, base string) func(report.Case) []report.Link {
	_, err := os.Stat(filepath.Join(dir, "view", "index.html"))
	exported := err == nil
	return func(c report.Case) (list []report.Link) {
		if exported {
			list = append(list, report.Link{Name: "conversation", Href: base + "view/index.html#record/0/" + c.Key.String()})
		}
		kept := artifact.Dir("artifacts", c.Task, c.Number)
		if _, err := os.Stat(filepath.Join(dir, kept)); err == nil {
			list = append(list, report.Link{Name: "artifacts", Href: base + href(strings.Split(filepath.ToSlash(kept), "/")...) + "/"})
		}
		return list
	}
}

// href is a relative address of the parts of a path.
func href(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return strings.Join(escaped, "/")
}
