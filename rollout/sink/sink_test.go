package sink_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/journal/journaltest"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory"
	"hermes/trajectory/columns"
	"hermes/trajectory/stats"
)

var long = flag.Bool("long", false, "run the long crash tests")

func record(i int, r *rand.Rand) *trajectory.Record {
	outcomes := []trajectory.Outcome{trajectory.Answered, trajectory.Answered, trajectory.Answered, trajectory.Truncated,
		trajectory.Malformed, trajectory.Faulty, trajectory.Sandbox, trajectory.Provider}
	rec := &trajectory.Record{
		Key: trajectory.NewKey(row(i), 0, 0, i%3), Row: row(i), Sample: i % 3, PromptIndex: int64(i / 3), Attempt: 1,
		Outcome: outcomes[r.IntN(len(outcomes))], Reason: "because | of é", Started: time.Unix(1e9+int64(i), 0).UTC(), Seconds: 1,
		ToolStats: map[string]trajectory.ToolCount{"terminal": {Count: 1, Success: 1}}, Model: "m",
		Usage: trajectory.Usage{Prompt: 3, Completion: 2}, Toolsets: []string{"file"},
	}
	if !rec.Outcome.Failure() {
		rec.Score = &trajectory.Score{Reward: r.Float64(), Metrics: map[string]float64{"x": float64(i)}}
	}
	t := trajectory.New(trajectory.ModeText, []trajectory.ToolSpec{{Name: "terminal", Parameters: json.RawMessage(`{"type":"object"}`)}})
	secret := trajectory.Text(trajectory.System, "EPHEMERAL")
	secret.Ephemeral = true
	answer := trajectory.Text(trajectory.Assistant, strings.Repeat("word ", 15*r.IntN(4)))
	answer.Calls = []trajectory.Call{{ID: "c", Name: "terminal", Arguments: `{"command": "ls"}`}}
	_, err := t.Commit(trajectory.Turn{Finish: trajectory.FinishCalls, Sampled: trajectory.Delta{Message: answer},
		Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.System, "REAL PROMPT")},
			{Message: secret},
			{Message: trajectory.Text(trajectory.User, "go")}}})
	if err != nil {
		panic(err)
	}
	t.Finish([]trajectory.Message{{Role: trajectory.Tool, CallID: "c", Parts: []trajectory.Part{{Kind: "text", Text: "a\nb"}}}})
	rec.Trace = t
	odd(rec, r)
	return rec
}

// odd gives a record what the log changes or leaves out: bytes that are no UTF-8, white space
// in JSON, empty lists, a clock with a zone.
func odd(rec *trajectory.Record, r *rand.Rand) {
	switch r.IntN(12) {
	case 0:
		rec.Reason = "bytes \xff\xfe and é"
	case 1:
		rec.Metadata = json.RawMessage("{ \"a\" : [1,\n 2], \"b\": \"<&>\\u2028\" }")
	case 2:
		rec.Trace.Nodes[0].Delta.Message.Parts[0].Text = "text \xc3 <tag> \u2028 \ufffd"
	case 3:
		rec.Tools = []trajectory.ToolSpec{{Name: "terminal", Description: "<x>", Parameters: json.RawMessage("{ \"type\" :\t\"object\" }")}, {Name: "todo"}}
	case 4:
		rec.Toolsets = []string{}
		rec.Notes = []string{}
		rec.Moves = []string{}
		rec.ToolStats = map[string]trajectory.ToolCount{}
	case 5:
		rec.Started = time.Now().In(time.FixedZone("somewhere", 3600)).Add(-time.Since(rec.Started))
	case 6:
		last := len(rec.Trace.Nodes) - 1
		rec.Trace.Nodes[last].Delta.Message.Opaque = json.RawMessage(`{ "state" : 1 }`)
	case 7:
		rec.Children = []*trajectory.Record{{Row: "child", Trace: trajectory.New(trajectory.ModeText, nil), Metadata: json.RawMessage("[ 1 ]")}}
	}
}

func row(i int) string { return fmt.Sprint("row <", i/3, ">") }

// deduped is the manifest of a run of three samples a row, of which equal ones are rejected.
func deduped(planned int64) rundir.Manifest {
	m := manifest(planned)
	m.Books.Dedup, m.Extent.Rollouts = true, 3
	return m
}

func manifest(planned int64) rundir.Manifest {
	return rundir.Manifest{Identity: rundir.Fields{{Name: "model", Value: "m"}}, Extent: rundir.Extent{Planned: planned}, Tools: []string{"terminal", "todo"},
		Books: rundir.Books{Mode: "batch", Parquet: true}}
}

const dir = "/run"

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// contents reads all projections but the file of positions.
func contents(t *testing.T, disk *journaltest.Disk) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, d := range []string{dir, filepath.Join(dir, "parquet")} {
		for _, n := range must(t, must2(disk.List(d))(t), nil) {
			if strings.Contains(n, "projections.json") || strings.HasSuffix(n, ".tmp") {
				continue
			}
			all[filepath.Join(d, n)] = string(must2(journal.ReadFile(disk, filepath.Join(d, n)))(t))
		}
	}
	return all
}

func must2[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T { return must(t, v, err) }
}

func TestCrashesLeaveTheSameBytes(t *testing.T) {
	for seed := range uint64(60) {
		crash(t, seed)
	}
}

func TestLongCrashes(t *testing.T) {
	if !*long {
		t.Skip("a long test: -long runs it")
	}
	for seed := range uint64(1000) {
		crash(t, seed+1000)
	}
}

// crash runs processes that append and project on a disk that loses power; at the end the
// projections must be what one undisturbed projection makes of the log.
func crash(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	const planned = 42
	disk := journaltest.NewDisk()
	for process := range 8 {
		last := process == 7
		disk.CutAfter(r.IntN(150))
		if last {
			disk.CutAfter(-1)
		}
		err := live(t, disk, r, planned, last)
		if last || err == nil {
			must(t, 0, err)
			continue
		}
		if !errors.Is(err, journaltest.ErrPower) {
			t.Fatalf("seed %d, process %d: %v", seed, process, err)
		}
		if r.IntN(3) == 0 {
			disk = disk.Kill()
		} else {
			disk = disk.PowerCut(r)
		}
	}
	got := contents(t, disk)
	j := must2(journal.Open(dir+"/journal", journal.Options{FS: disk}))(t)
	must2(sink.Rebuild(t.Context(), j, dir, deduped(planned), sink.Options{FS: disk}))(t)
	want := contents(t, disk)
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("seed %d: %s differs from a projection made at once: %d and %d bytes", seed, name, len(got[name]), len(want[name]))
		}
	}
	if len(got) != len(want) || len(want) < 6 {
		t.Errorf("seed %d: %d files, %d when made at once", seed, len(got), len(want))
	}
}

// live is one process. It works on a random part of what is left, or on all of it.
func live(t *testing.T, disk *journaltest.Disk, r *rand.Rand, planned int64, all bool) error {
	if err := disk.MkdirAll(dir); err != nil {
		return err
	}
	j, err := journal.Open(dir+"/journal", journal.Options{FS: disk, SegmentSize: 3000})
	if err != nil {
		return err
	}
	j.Remember([]int64{0, 700, 4000, 1 << 20}[r.IntN(4)])
	if failed := j.Failed(); len(failed) > 0 && r.IntN(3) == 0 {
		if err := j.Reopen(t.Context(), failed); err != nil {
			return err
		}
	}
	for i := range int(planned) {
		rec := record(i, r)
		if j.Done(rec.Key) || !all && r.IntN(4) > 0 {
			continue
		}
		if r.IntN(5) == 0 {
			if _, err := j.AppendAttempt(t.Context(), rec); err != nil {
				return err
			}
		}
		if _, err := j.Append(t.Context(), rec); err != nil {
			return err
		}
		if r.IntN(6) == 0 { // a new projector, as that of another process
			if err := project(t, j, disk, deduped(planned)); err != nil {
				return err
			}
		}
	}
	return project(t, j, disk, deduped(planned))
}

func project(t *testing.T, j *journal.Journal, disk *journaltest.Disk, m rundir.Manifest) error {
	p, err := sink.New(j, dir, m, sink.Options{FS: disk})
	if err != nil {
		return err
	}
	_, err = p.Finish(t.Context())
	return err
}

func TestProjections(t *testing.T) {
	disk := journaltest.NewDisk()
	r := rand.New(rand.NewPCG(1, 1))
	must(t, 0, disk.MkdirAll(dir))
	j := must2(journal.Open(dir+"/journal", journal.Options{FS: disk}))(t)
	m := manifest(30)
	p := must2(sink.New(j, dir, m, sink.Options{FS: disk, Every: time.Millisecond}))(t)
	p.Follow(t.Context())
	books := map[string]int64{}
	rules := must2(sink.NewRules("batch", "all", false))(t)
	for i := range 25 {
		rec := record(i, r)
		must2(j.Append(t.Context(), rec))(t)
		b, sub := rules.Book(rec)
		books[string(b)+"."+sub]++
	}
	s := must2(p.Finish(t.Context()))(t)
	if s.Pending != 5 || s.Accepted != books["accepted."] || s.Rejected["truncated"] != books["rejected.truncated"] ||
		s.Rejected["malformed"] != books["rejected.malformed"] || s.Failed["sandbox"] != books["failed.sandbox"] ||
		s.Failed["provider"] != books["failed.provider"] {
		t.Errorf("%+v, want %v", s, books)
	}
	files := contents(t, disk)
	accepted := strings.Count(files["/run/trajectories.jsonl"], "\n")
	others := strings.Count(files["/run/failed_trajectories.jsonl"], "\n")
	if int64(accepted) != s.Accepted || accepted+others != 25 || strings.Count(files["/run/messages.jsonl"], "\n") != accepted {
		t.Errorf("%d accepted lines, %d others", accepted, others)
	}
	for name, text := range files {
		if strings.Contains(text, "EPHEMERAL") {
			t.Errorf("%s shows an ephemeral message", name)
		}
		if strings.HasSuffix(name, ".jsonl") {
			for line := range strings.Lines(text) {
				if !json.Valid([]byte(line)) {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
	if strings.Contains(files["/run/trajectories.jsonl"], "REAL PROMPT") ||
		!strings.Contains(files["/run/messages.jsonl"], `{"role":"system","content":"REAL PROMPT"}`) {
		t.Error("the system prompt is in the wrong file")
	}
	if !strings.Contains(files["/run/messages.jsonl"], `"function":{"name":"terminal","arguments":{"command":"ls"}}`) {
		t.Error("arguments are no object")
	}
	if whole := regexp.MustCompile(`"x":\d+[,}]`); whole.MatchString(files["/run/messages.jsonl"]) || !strings.Contains(files["/run/messages.jsonl"], `.0}`) {
		t.Error("a number has no point: a reader takes the column for one of integers")
	}
	rows := 0
	for name, text := range files {
		if strings.HasSuffix(name, ".parquet") {
			rows += len(must2(columns.Read(bytes.NewReader([]byte(text)), int64(len(text))))(t))
		}
	}
	if rows != accepted {
		t.Errorf("%d rows in Parquet", rows)
	}
	var parsed stats.Statistics
	must(t, 0, json.Unmarshal([]byte(files["/run/statistics.json"]), &parsed))
	if _, ok := parsed.Tools["todo"]; !ok || !strings.Contains(files["/run/report.md"], "| pending | 5 |") {
		t.Errorf("%+v\n%s", parsed, files["/run/report.md"])
	}

	// A deleted file comes back, alone.
	must(t, 0, disk.Remove("/run/trajectories.jsonl"))
	must(t, 0, project(t, j, disk, manifest(30)))
	if now := contents(t, disk); now["/run/trajectories.jsonl"] != files["/run/trajectories.jsonl"] ||
		now["/run/messages.jsonl"] != files["/run/messages.jsonl"] {
		t.Error("the deleted file did not come back")
	}
}

func TestBook(t *testing.T) {
	rec := func(o trajectory.Outcome, reward float64) *trajectory.Record {
		tr := trajectory.New(trajectory.ModeText, nil)
		return &trajectory.Record{Outcome: o, Score: &trajectory.Score{Reward: reward, Metrics: map[string]float64{"x": 2}}, Trace: tr}
	}
	thinking := rec(trajectory.Answered, 1)
	thinking.Trace.Finish([]trajectory.Message{{Role: trajectory.Assistant, Reasoning: "hm"}})
	unscored := rec(trajectory.Answered, 0)
	unscored.Score = nil
	tests := []struct {
		mode, accept string
		reasoning    bool
		rec          *trajectory.Record
		want         string
	}{
		{"batch", "all", false, rec("answered", 0), "accepted."},
		{"batch", "passed", false, rec("answered", 0.4), "rejected.low_reward"},
		{"batch", "passed", false, unscored, "rejected.filtered"},
		{"batch", "passed", false, rec("answered", 1), "accepted."},
		{"batch", "reward >= 0.5 and metrics.x > 1", false, rec("answered", 0.5), "accepted."},
		{"batch", "reward >= 0.5 and metrics.x > 1", false, rec("answered", 0.4), "rejected.filtered"},
		{"batch", "reward > 0.9 or not (metrics.x != 2 || metrics.y > 0)", false, rec("answered", 0), "accepted."},
		{"batch", "metrics.y < 1", false, rec("answered", 0), "rejected.filtered"},
		{"batch", "outcome == 'answered' && turns<1", false, rec("answered", 0), "accepted."},
		{"batch", "all", true, rec("answered", 0), "rejected.no_reasoning"},
		{"batch", "all", true, thinking, "accepted."},
		{"batch", "all", false, rec("truncated", 1), "rejected.truncated"},
		{"batch", "all", false, rec("malformed", 1), "rejected.malformed"},
		{"batch", "all", false, rec("faulty", 1), "rejected.malformed"},
		{"batch", "all", false, rec("filtered", 1), "rejected.filtered"},
		{"env", "all", false, rec("filtered", 0), "accepted."},
		{"batch", "all", false, rec("provider", 1), "failed.provider"},
		{"batch", "all", false, rec("internal", 1), "failed.internal"},
		{"batch", "all", false, rec("surprise", 1), "failed.internal"},
		{"env", "all", true, rec("truncated", 1), "accepted."},
		{"env", "", false, rec("faulty", 0), "accepted."},
		{"eval", "all", false, rec("malformed", 0), "accepted."},
		{"eval", "all", false, rec("sandbox", 0), "failed.sandbox"},
		{"eval", "all", false, rec("environment", 0), "failed.environment"},
	}
	for _, tt := range tests {
		rules, err := sink.NewRules(tt.mode, tt.accept, tt.reasoning)
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		if b, sub := rules.Book(tt.rec); string(b)+"."+sub != tt.want {
			t.Errorf("%s, accept %q: %s enters %s.%s, want %s", tt.mode, tt.accept, tt.rec.Outcome, b, sub, tt.want)
		}
	}
	for _, bad := range []string{
		"reward", "reward >", "reward => 1", "rewrd > 1", "reward > x", "(reward > 1", "reward > 1 and", "reward > 1 1",
		"outcome > 'a'", "reward > 'a", "a $ b",
		strings.Repeat("(", 1000),
	} {
		if _, err := sink.NewRules("batch", bad, false); err == nil || !strings.Contains(err.Error(), "accept") {
			t.Errorf("%q is accepted: %v", bad, err)
		}
	}
	if _, err := sink.NewRules("eval", "passed", false); err == nil {
		t.Error("eval narrows what it accepts")
	}
}
