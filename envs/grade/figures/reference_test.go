package figures_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"testing"

	"hermes/envs/grade/figures"
)

// vector is one [arguments, result] of the reference.
type vector [2]json.RawMessage

func (c vector) read(t *testing.T, args ...any) {
	t.Helper()
	list := make([]json.RawMessage, len(args)-1)
	if err := json.Unmarshal(c[0], &list); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if err := json.Unmarshal(list[i], args[i]); err != nil {
			t.Fatalf("%s: %v", list[i], err)
		}
	}
	if err := json.Unmarshal(c[1], args[len(args)-1]); err != nil {
		t.Fatal(err)
	}
}

func near(t *testing.T, what string, c vector, tolerance float64, got, want []float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance) {
			t.Errorf("%s of %s: %v, want %v", what, c[0], got, want)
		}
	}
}

// TestReference compares with values that scipy and statsmodels gave.
func TestReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, raw)
}

// TestOracle asks scipy and statsmodels again.
func TestOracle(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		t.Skip("ORACLE_PYTHON names no Python that has scipy and statsmodels")
	}
	if out, err := exec.Command(python, "-c", "import scipy, statsmodels").CombinedOutput(); err != nil {
		t.Skipf("%s has no scipy and statsmodels: %s", python, bytes.TrimSpace(out))
	}
	out, err := exec.Command(python, "testdata/reference.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, out)
}

func compare(t *testing.T, raw []byte) {
	var all map[string][]vector
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"wilson", "t", "mcnemar", "pass_at_k", "pass_hat_k", "maj_at_k", "clustered", "bca", "paired", "mde"} {
		if len(all[name]) < 2 {
			t.Errorf("the reference has %d cases of %s", len(all[name]), name)
		}
	}
	const exact = 1e-9
	for _, c := range all["wilson"] {
		var n, of int
		var level float64
		var want []float64
		c.read(t, &n, &of, &level, &want)
		r := figures.Proportion(n, of, level)
		near(t, "wilson", c, exact, []float64{r.Low, r.High}, want)
	}
	for _, c := range all["t"] {
		var p, freedom, want float64
		c.read(t, &p, &freedom, &want)
		near(t, "t", c, exact*max(1, want), []float64{figures.TQuantile(p, freedom)}, []float64{want})
	}
	for _, c := range all["mcnemar"] {
		var a, b int
		var want float64
		c.read(t, &a, &b, &want)
		near(t, "mcnemar", c, exact, []float64{figures.McNemar(a, b)}, []float64{want})
	}
	for name, f := range map[string]func(n, c, k int) float64{"pass_at_k": figures.PassAtK, "pass_hat_k": figures.PassHatK} {
		for _, c := range all[name] {
			var n, passed, k int
			var want float64
			c.read(t, &n, &passed, &k, &want)
			near(t, name, c, exact, []float64{f(n, passed, k)}, []float64{want})
		}
	}
	for _, c := range all["maj_at_k"] {
		var right, k int
		var wrong []int
		var want float64
		c.read(t, &right, &wrong, &k, &want)
		near(t, "maj@k", c, exact, []float64{figures.MajAtK(right, wrong, k)}, []float64{want})
	}
	for _, c := range all["clustered"] {
		var tasks [][]float64
		var want []float64
		c.read(t, &tasks, &want)
		e, _ := figures.Mean(tasks, figures.Options{})
		near(t, "clustered", c, exact, []float64{e.Value, *e.Low, *e.High}, want)
	}
	for _, c := range all["bca"] {
		var xs, want []float64
		c.read(t, &xs, &want)
		e, _ := figures.OverTasks(xs, nil, false, figures.Options{Draws: 30_000})
		if e.Method != figures.BCa {
			t.Errorf("method %s", e.Method)
		}
		near(t, "bca", c, 0.02*(want[1]-want[0]), []float64{*e.Low, *e.High}, want)
	}
	for _, c := range all["paired"] {
		var ds, want []float64
		c.read(t, &ds, &want)
		var tasks [][]figures.Pair
		for _, d := range ds {
			tasks = append(tasks, []figures.Pair{{A: d, B: 0}})
		}
		e, _ := figures.Difference(tasks, figures.Options{})
		near(t, "difference", c, exact, []float64{e.Value, *e.Low, *e.High}, want[:3])
		p := figures.PairedBootstrap(tasks, figures.Options{Draws: 30_000})
		near(t, "paired bootstrap", c, 0.01, []float64{p}, want[3:])
	}
	for _, c := range all["mde"] {
		var n int
		var p, rho, want float64
		c.read(t, &n, &p, &rho, &want)
		near(t, "mde", c, exact, []float64{figures.MDE(n, p, rho, 0.05, 0.8)}, []float64{want})
	}
}
