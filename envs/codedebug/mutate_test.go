package codedebug

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write good.json again")

// judge runs sources on calls of their function, in one Python: which pass, and did it end
// in time?
const judge = `
import json, sys, signal, copy
def slow(*_): raise TimeoutError()
signal.signal(signal.SIGPROF, slow)
sys.setrecursionlimit(2000)
for line in sys.stdin:
    name, source, cases = json.loads(line)
    space, out = {}, []
    exec(source, space)
    for arguments in cases:
        if "slow" in out:
            break
        signal.setitimer(signal.ITIMER_PROF, 0.05)
        try:
            out.append(json.dumps({"value": space[name](*copy.deepcopy(arguments))}))
        except TimeoutError:
            out.append("slow")
        except Exception as e:
            out.append(json.dumps({"error": type(e).__name__}))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps(out))
`

type trial struct {
	name, source string
	cases        []call
}

func tried(t *testing.T, trials []trial) [][]string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3:", err)
	}
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	for _, x := range trials {
		list := []any{}
		for _, c := range x.cases {
			list = append(list, c.args)
		}
		if err := enc.Encode([]any{x.name, x.source, list}); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "-I", "-c", judge)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	d := json.NewDecoder(bytes.NewReader(raw))
	for range trials {
		var one []string
		if err := d.Decode(&one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// TestGood holds the list of good mutants to what Python says: none runs for ever, the
// fixed calls find each, and some call passes with most of them.
func TestGood(t *testing.T) {
	want, err := good()
	if err != nil {
		t.Fatal(err)
	}
	var trials []trial
	var names []string
	for _, b := range builtin() {
		var fixed []call
		for _, a := range b.edges {
			fixed = append(fixed, b.call(a))
		}
		for _, m := range mutants(b.source) {
			trials, names = append(trials, trial{b.name, m.source, fixed}), append(names, m.name)
		}
	}
	found := map[string][]string{}
	for i, results := range tried(t, trials) {
		bad := 0
		for k, result := range results {
			if !trials[i].cases[k].fits(result) {
				bad++
			}
		}
		if !slices.Contains(results, "slow") && bad > 0 && bad < len(results) {
			found[trials[i].name] = append(found[trials[i].name], names[i])
		}
	}
	if *update {
		raw, err := json.MarshalIndent(found, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("good.json", append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		want = found
	}
	n := 0
	for _, b := range builtin() {
		n += len(want[b.name])
		if len(want[b.name]) < 3 {
			t.Errorf("%s has only %d good mutants", b.name, len(want[b.name]))
		}
		for _, name := range want[b.name] {
			if !slices.Contains(found[b.name], name) {
				t.Errorf("%s: mutant %s is not good (run go test -update)", b.name, name)
			}
		}
	}
	t.Logf("%d good mutants of %d, %d functions", n, len(names), len(builtin()))
}

// TestSolve compares the second implementations with the functions in Python.
func TestSolve(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var trials []trial
	for _, b := range builtin() {
		x := trial{b.name, b.source, nil}
		for _, a := range b.edges {
			x.cases = append(x.cases, b.call(a))
		}
		for range 60 {
			x.cases = append(x.cases, b.call(b.draw(r)))
		}
		trials = append(trials, x)
	}
	for i, results := range tried(t, trials) {
		for k, c := range trials[i].cases {
			if !c.fits(results[k]) {
				t.Errorf("%s(%v): Python says %s, here it is %v", c.name, c.args, results[k], c.want)
			}
		}
	}
}

func TestMutants(t *testing.T) {
	for _, b := range builtin() {
		seen := map[string]bool{}
		for _, m := range mutants(b.source) {
			if m.source == b.source || seen[m.name] {
				t.Errorf("%s: mutant %s is no mutant, or there twice", b.name, m.name)
			}
			seen[m.name] = true
		}
		if !reflect.DeepEqual(mutants(b.source), mutants(b.source)) {
			t.Errorf("%s: other mutants the second time", b.name)
		}
	}
}
