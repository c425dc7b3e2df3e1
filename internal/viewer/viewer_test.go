package viewer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hermes/internal/viewer"
	"hermes/rollout/journal"
	"hermes/rollout/runs"
	"hermes/rollout/sink"
	"hermes/trajectory"
)

// get asks the page and returns status and body.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	a, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

func ask(t testing.TB, url string, into any) {
	t.Helper()
	status, body := get(t, url)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", url, status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%s: %v in %.200s", url, err, body)
	}
}

type listed struct {
	Total, Next int
	Rows        []struct {
		ID, Key, Book, Task, Answer, Reason string
		Sample, Attempt                     int
		Reward                              *float64
		Old                                 bool
	}
}

func (l listed) ids() (out []string) {
	for _, r := range l.Rows {
		out = append(out, fmt.Sprintf("%s/%d", r.ID, r.Sample))
	}
	return out
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	makeRun(t, dir)
	url := open(t, dir).URL
	for _, tt := range []struct {
		query string
		total int
		want  string
	}{
		{"", 12, "row0/0 row1/0 row2/0 row3/0 row4/0 row5/0 row6/0 row7/0 row8/0 row9/0 row1/1 row10/0"},
		{"sort=reward&desc=1&limit=3", 12, "row10/0 row9/0 row8/0"},
		{"sort=reward&limit=2", 12, "row3/0 row0/0"}, // what has none comes first
		{"sort=id&offset=2&limit=3", 12, "row1/1 row10/0 row2/0"},
		{"sort=cost&desc=1&limit=1&max=0.5", 6, "row5/0"},
		{"sort=tokens&desc=1&limit=1", 12, "row10/0"},
		{"book=failed", 1, "row3/0"},
		{"book=failed.sandbox", 1, "row3/0"},
		{"outcome=answered&min=0.8", 3, "row8/0 row9/0 row10/0"},
		{"q=task+NUMBER+7", 1, "row7/0"},
		{"q=box+lost", 1, "row3/0"},
		{"q=" + key(2, 0).String()[:8], 1, "row2/0"},
		{"tool=terminal&limit=0", 11, ""},
		{"tool=nothing", 0, ""},
		{"offset=99", 12, ""},
	} {
		var got listed
		ask(t, url+"/api/list?run=0&"+tt.query, &got)
		if got.Total != tt.total || strings.Join(got.ids(), " ") != tt.want {
			t.Errorf("%q: %d, %v; want %d, %s", tt.query, got.Total, got.ids(), tt.total, tt.want)
		}
	}
	for _, bad := range []string{"run=1", "run=x", "run=0&sort=nonsense", "run=0&min=high", "run=0&offset=-1"} {
		if status, body := get(t, url+"/api/list?"+bad); status < 400 || status >= 500 || !strings.Contains(body, "error") {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	var all []struct {
		Planned, Records int
		Books            map[string]int
		Reward, Indexed  float64
		State            string
	}
	ask(t, url+"/api/runs", &all)
	if len(all) != 1 || all[0].Planned != 12 || all[0].Records != 12 || all[0].Books["accepted"] != 11 || all[0].Books["failed.sandbox"] != 1 ||
		all[0].Indexed != 1 || all[0].State != "" {
		t.Errorf("%+v", all)
	}
}

// Samples are put together by task, sorted and paged; a run has its page.
func TestTasks(t *testing.T) {
	dir := t.TempDir()
	makeRun(t, dir)
	url := open(t, dir).URL
	type task struct {
		ID                       string
		Samples, Failed, Scored  int
		Mean, Low, High, Seconds *float64
	}
	for query, want := range map[string]string{
		"":                    "row0",
		"sort=samples&desc=1": "row1",
		"sort=mean&desc=1":    "row10",
		"sort=failed&desc=1":  "row3",
		"sort=id&offset=10":   "row9",
		"q=number+7":          "row7",
	} {
		var got struct {
			Total int
			Rows  []task
		}
		ask(t, url+"/api/tasks?run=0&"+query, &got)
		if len(got.Rows) == 0 || got.Rows[0].ID != want || got.Total != 11 && query != "q=number+7" {
			t.Errorf("%q: %+v, want %s", query, got, want)
		}
		if want == "row1" && (got.Rows[0].Samples != 2 || *got.Rows[0].Low > *got.Rows[0].High) ||
			want == "row3" && (got.Rows[0].Mean != nil || got.Rows[0].Failed != 1) {
			t.Errorf("%q: %+v", query, got.Rows[0])
		}
	}
	if status, _ := get(t, url+"/api/tasks?run=0&sort=colour"); status != http.StatusBadRequest {
		t.Errorf("sort by colour: %d", status)
	}
	var r struct {
		Tasks, Scored, Failed int
		Causes                []struct {
			Book, Example, Key string
			Count              int
		}
		Rewards  []int
		Settings []struct{ Name, Value string }
	}
	ask(t, url+"/api/run?run=0", &r)
	if r.Tasks != 11 || r.Scored != 11 || r.Failed != 1 || len(r.Causes) != 1 || r.Causes[0].Example != "the box was lost" || r.Causes[0].Count != 1 ||
		r.Rewards[10] != 1 || r.Settings[0].Value != "m" {
		t.Errorf("%+v", r)
	}
	var one listed
	if ask(t, url+"/api/list?run=0&task=row1", &one); one.Total != 2 {
		t.Errorf("of row1: %+v", one)
	}
}

// Runs that are not opened yet are listed by their manifests; a bad one with its error. Each is
// opened when it is looked at.
func TestLazy(t *testing.T) {
	parent := t.TempDir()
	good, bad := filepath.Join(parent, "good"), filepath.Join(parent, "bad")
	makeRun(t, good)
	if err := os.MkdirAll(bad, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, "run.yaml"), []byte("x: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := viewer.Open(t.Context(), []string{good, bad}, viewer.Options{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	s := httptest.NewServer(v.Handler())
	defer s.Close()
	var all []struct {
		Name, Model, Error string
		Planned, Done      int
	}
	ask(t, s.URL+"/api/runs", &all)
	if len(all) != 2 || all[0].Planned != 12 || all[0].Model != "m" || all[0].Error != "" || all[1].Error == "" {
		t.Errorf("%+v", all)
	}
	if _, err := os.Stat(filepath.Join(good, "view.index")); err == nil {
		t.Error("a run was opened before it was looked at")
	}
	var got listed
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for got.Total != 12 {
		<-tick.C
		ask(t, s.URL+"/api/list?run=0", &got)
	}
	if status, _ := get(t, s.URL+"/api/list?run=1"); status < 400 {
		t.Errorf("a bad run: %d", status)
	}
	if _, err := viewer.Open(t.Context(), []string{good, bad}, viewer.Options{}); err == nil {
		t.Error("a bad run that was named is no error")
	}
}

// The whole text of records is searched, thinking and arguments included.
func TestSearchWholeText(t *testing.T) {
	dir := t.TempDir()
	makeRun(t, dir)
	url := open(t, dir).URL
	for query, want := range map[string]string{
		"thinking+about+8": "row8/0",
		"ls+another":       "row1/1",
		"hello+there":      "row10/0",
		"garbled":          "row10/0",
		"absent":           "",
	} {
		var found []string
		for from := 0; from >= 0; {
			got := listed{Next: -2}
			ask(t, fmt.Sprintf("%s/api/search?run=0&q=%s&offset=%d&limit=1", url, query, from), &got)
			found = append(found, got.ids()...)
			if got.Next != -1 && got.Next <= from {
				t.Fatalf("%s: from %d on to %d", query, from, got.Next)
			}
			from = got.Next
		}
		if strings.Join(found, " ") != want {
			t.Errorf("%s: %v, want %s", query, found, want)
		}
	}
}

type node struct {
	Role               string
	Parent, Given      int
	Abandoned, Sampled bool
	Tokens             []int
	Texts              []string
	LogProbs           []float64
	Reasoning          string
	Versions           []trajectory.Span
	Parts              []trajectory.Part
	Calls              []trajectory.Call
	Faults             []trajectory.Fault
}

type recorded struct {
	Run, Key, Row, Mode, Book, Decoded string
	Branches                           []struct {
		Path            []int
		Head, Abandoned bool
	}
	Nodes     []node
	Attempts  []struct{ At, Attempt int }
	Samples   []struct{ Sample int }
	Artifacts []struct {
		Name string
		Size int
	}
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	makeRun(t, dir)
	url := open(t, dir).URL
	var r recorded
	ask(t, url+"/api/record?run=0&key="+key(1, 0).String(), &r)
	if r.Row != "row1" || r.Mode != "text" || r.Book != "accepted" || len(r.Nodes) != 5 || r.Nodes[2].Reasoning != "thinking about 1" ||
		r.Nodes[2].Calls[0].Arguments != "{\n  \"command\": \"ls\"\n}" {
		t.Errorf("%+v", r)
	}
	if len(r.Samples) != 1 || r.Samples[0].Sample != 1 || len(r.Artifacts) != 1 || r.Artifacts[0].Name != "workspace.diff" {
		t.Errorf("samples %+v, artifacts %+v", r.Samples, r.Artifacts)
	}
	r = recorded{}
	ask(t, url+"/api/record?run=0&key="+key(10, 0).String(), &r)
	if len(r.Branches) != 2 || !r.Branches[0].Head || !slices.Equal(r.Branches[0].Path, []int{0, 2, 3, 4}) || !r.Branches[1].Abandoned ||
		!slices.Equal(r.Branches[1].Path, []int{0, 1}) {
		t.Errorf("branches %+v", r.Branches)
	}
	if n := r.Nodes[2]; n.Given != 2 || strings.Join(n.Texts, "") != "A:hello there" || len(n.LogProbs) != 11 || n.LogProbs[2] != -1 ||
		n.Versions[0].Version != "v1" || r.Decoded != "" {
		t.Errorf("%+v, %q", n, r.Decoded)
	}
	_, body := get(t, url+"/api/record?run=0&key="+key(10, 0).String())
	if n := r.Nodes[4]; n.Given != 0 || len(n.LogProbs) != len(n.Tokens) || strings.Count(body, `"given":`) != len(r.Nodes) {
		t.Errorf("a place of 0 given tokens is not in the answer: %+v", n)
	}
	if n := r.Nodes[4]; n.Calls[0].State != trajectory.CallTruncated || len(n.Faults) != 1 || n.Faults[0].Kind != "truncated" || r.Run != filepath.Base(dir) {
		t.Errorf("verdicts %+v of run %q", n, r.Run)
	}
	for _, bad := range []string{"key=zz", "key=" + key(77, 0).String(), "key=" + key(1, 0).String() + "&at=5"} {
		if status, body := get(t, url+"/api/record?run=0&"+bad); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	var d struct{ A, B, Diff string }
	ask(t, url+"/api/diff?a=0:"+key(1, 0).String()+"&b=0:"+key(1, 1).String(), &d)
	if !strings.Contains(d.Diff, "-The answer is 1.") || !strings.Contains(d.Diff, "+Another answer.") || !strings.HasSuffix(d.A, "row1/0") {
		t.Errorf("%+v", d)
	}
}

// Files are served as text, from the folder of the sample alone; nothing is served to
// pages that reach this machine by another name.
func TestWhatIsServed(t *testing.T) {
	dir := t.TempDir()
	makeRun(t, dir)
	s := open(t, dir)
	base := s.URL + "/artifact?run=0&key=" + key(1, 0).String() + "&name="
	if status, body := get(t, base+"workspace.diff"); status != http.StatusOK || body != "+two\n" {
		t.Errorf("%d %q", status, body)
	}
	for _, name := range []string{"../../../run.yaml", "/etc/passwd", "leak", ".", "absent", ""} {
		if status, body := get(t, base+name); status < 400 || strings.Contains(body, "root:") {
			t.Errorf("%q: %d %q", name, status, body)
		}
	}
	for _, name := range []string{"../run.yaml", strings.Repeat("a", 64)} {
		if status, _ := get(t, s.URL+"/blob?run=0&name="+name); status < 400 {
			t.Errorf("blob %q: %d", name, status)
		}
	}
	for host, want := range map[string]int{
		"localhost:80":              200,
		"127.0.0.1":                 200,
		"[::1]:99":                  200,
		"evil.example":              403,
		"127.0.0.1.evil.example:80": 403,
		"10.0.0.1":                  403,
	} {
		q, err := http.NewRequest(http.MethodGet, s.URL+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = host
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want || !strings.HasPrefix(a.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
			t.Errorf("host %s: %d, want %d; %v", host, a.StatusCode, want, a.Header)
		}
	}
	if a, err := http.Post(s.URL+"/api/runs", "", nil); err != nil || a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", a, err)
	}
	for _, addr := range []string{"0.0.0.0:0", "10.1.2.3:80", "example.org:80", ":0:1"} {
		if l, err := viewer.Listen(t.Context(), addr); err == nil {
			l.Close()
			t.Errorf("%s was listened on", addr)
		}
	}
	if l, err := viewer.Listen(t.Context(), "0"); err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}

// A run that is being written shows what came since, and a sample that is tried again is
// listed once unless attempts are asked for.
func TestGrowingRun(t *testing.T) {
	dir := t.TempDir()
	d := openRun(t, dir, 3, journal.Options{})
	defer d.Close()
	first := textRecord(t, 0, 0, "")
	first.Outcome, first.Score = trajectory.Provider, nil
	if _, err := d.Journal.AppendAttempt(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	url := open(t, dir).URL
	var got listed
	if ask(t, url+"/api/list?run=0", &got); got.Total != 1 || got.Rows[0].Book != "retried" {
		t.Fatalf("%+v", got)
	}
	again := textRecord(t, 0, 0, "Fine now.")
	again.Attempt = 2
	for _, r := range []*trajectory.Record{again, textRecord(t, 1, 0, "One.")} {
		if _, err := d.Journal.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for got.Total != 2 {
		<-tick.C
		ask(t, url+"/api/list?run=0", &got)
	}
	if got.Rows[0].Attempt != 2 || got.Rows[0].Book != "accepted" {
		t.Errorf("%+v", got)
	}
	if ask(t, url+"/api/list?run=0&old=1", &got); got.Total != 3 || !got.Rows[0].Old {
		t.Errorf("with attempts: %+v", got)
	}
	var r recorded
	ask(t, url+"/api/record?run=0&key="+key(0, 0).String(), &r)
	if len(r.Attempts) != 2 {
		t.Errorf("%+v", r.Attempts)
	}
	ask(t, fmt.Sprintf("%s/api/record?run=0&key=%s&at=%d", url, key(0, 0), r.Attempts[0].At), &r)
	if r.Book != "retried" {
		t.Errorf("the first attempt: %+v", r)
	}
}

// The index is kept, used, and made again where it is not that of the log.
func TestIndexIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	makeRun(t, dir)
	total := func() int {
		var got listed
		ask(t, open(t, dir).URL+"/api/list?run=0&limit=1", &got)
		return got.Total
	}
	name := filepath.Join(dir, "view.index")
	if n := total(); n != 12 {
		t.Fatalf("%d rows", n)
	}
	kept, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if n := total(); n != 12 {
		t.Errorf("%d rows by the kept index", n)
	}
	if after, err := os.Stat(name); err != nil || !os.SameFile(before, after) {
		t.Errorf("an index that was up to date was written again (%v)", err)
	}
	broken := slices.Clone(kept)
	broken[len(broken)/2] ^= 1
	for what, data := range map[string][]byte{"broken": broken, "short": kept[:20], "empty": nil} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if n := total(); n != 12 {
			t.Errorf("%s: %d rows", what, n)
		}
		if now, err := os.ReadFile(name); err != nil || string(now) != string(kept) {
			t.Errorf("%s: not made again (%v)", what, err)
		}
	}
	// The index of another run, whose log is longer.
	other := filepath.Join(t.TempDir(), "run")
	d := openRun(t, other, 1, journal.Options{})
	if _, err := d.Journal.Append(t.Context(), textRecord(t, 5, 0, "x")); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "view.index"), kept, 0o644); err != nil {
		t.Fatal(err)
	}
	dir = other
	if n := total(); n != 1 {
		t.Errorf("with the index of another run: %d rows", n)
	}
}

// A run that keeps its list itself is opened by that, and nothing is written; what the
// list lacks, because the run was killed, comes out of the log. The page says the same as
// by a list that the viewer makes.
func TestRunKeepsItsList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	makeRun(t, dir)
	var want listed
	ask(t, open(t, dir).URL+"/api/list?run=0&old=1", &want)
	name := filepath.Join(dir, "view.index")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	r, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Rebuild(t.Context(), r.Journal, dir, r.Manifest, sink.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{len(whole), len(whole) - 3, len(whole) / 2, 40} {
		if err := os.WriteFile(name, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		var got listed
		ask(t, open(t, dir).URL+"/api/list?run=0&old=1", &got)
		if !reflect.DeepEqual(want, got) {
			t.Errorf("with %d of %d bytes of the run's list: %+v, want %+v", n, len(whole), got, want)
		}
		if now, err := os.ReadFile(name); err != nil || len(now) != n {
			t.Errorf("the run's list was written: %d bytes, not %d (%v)", len(now), n, err)
		}
	}
}

// TestRunsOfOneName: runs in folders of the same name are distinguished by their paths.
func TestRunsOfOneName(t *testing.T) {
	parent := t.TempDir()
	one, two := filepath.Join(parent, "x", "demo"), filepath.Join(parent, "y", "demo")
	makeRun(t, one)
	makeRun(t, two)
	var all []struct{ Name string }
	ask(t, open(t, one, two).URL+"/api/runs", &all)
	if len(all) != 2 || all[0].Name != one || all[1].Name != two {
		t.Errorf("%+v", all)
	}
}
