package viewer_test

import (
	"fmt"
	"slices"
	"testing"

	"hermes/rollout/journal"
	"hermes/trajectory"
)

// A page of a sorted list is what it would be if the whole list was sorted: rows that are equal
// stay in the order of the log, in both directions.
func TestSortedPages(t *testing.T) {
	dir := t.TempDir()
	const n = 400
	d := openRun(t, dir, n, journal.Options{})
	for i := range n {
		r := textRecord(t, i, 0, "An answer.")
		r.Score = &trajectory.Score{Reward: float64(i*37%5) / 5}
		if _, err := d.Journal.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	url := open(t, dir).URL
	for _, list := range []string{"/api/list?run=0&sort=reward", "/api/tasks?run=0&sort=mean"} {
		for _, direction := range []string{"", "&desc=1"} {
			var all listed
			ask(t, url+list+direction+"&limit=500", &all)
			if len(all.Rows) != n || all.Total != n {
				t.Fatalf("%s: %d rows of %d", list, len(all.Rows), all.Total)
			}
			for _, offset := range []int{0, 3, 20, 60} {
				var page listed
				ask(t, fmt.Sprintf("%s%s%s&limit=7&offset=%d", url, list, direction, offset), &page)
				if want := all.ids()[offset : offset+7]; !slices.Equal(page.ids(), want) || page.Total != n {
					t.Errorf("%s%s from %d on: %v of %d, want %v", list, direction, offset, page.ids(), page.Total, want)
				}
			}
		}
	}
}

// A search among tasks looks into their ids and texts, and all samples of a task count.
func TestSearchTasks(t *testing.T) {
	dir := t.TempDir()
	makeRun(t, dir)
	url := open(t, dir).URL
	for query, want := range map[string]int{"row1": 2, "TASK+number+7": 1, "Another": 0, "row1+row10": 1, "": 11} {
		var got struct {
			Total int
			Rows  []struct {
				ID      string
				Samples int
			}
		}
		ask(t, url+"/api/tasks?run=0&q="+query, &got)
		if got.Total != want || len(got.Rows) != want {
			t.Errorf("%q: %+v, want %d tasks", query, got, want)
		}
		for _, r := range got.Rows {
			if r.ID == "row1" && r.Samples != 2 {
				t.Errorf("%q: row1 has %d samples", query, r.Samples)
			}
		}
	}
}
