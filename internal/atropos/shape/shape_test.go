package shape_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hermes/internal/atropos/shape"
)

func rewards(list ...float64) (out []shape.Sample) {
	for _, r := range list {
		out = append(out, shape.Sample{Reward: r, Length: 10})
	}
	return out
}

// cut marks samples as cut off.
func cut(list []shape.Sample, at ...int) []shape.Sample {
	for _, i := range at {
		list[i].Truncated = true
	}
	return list
}

func TestGroup(t *testing.T) {
	long := []shape.Sample{{Reward: 1, Length: 100}, {Reward: 1, Length: 150}, {Reward: 1, Length: 200}, {Reward: 1, Length: 900}}
	all := shape.Chances{Fill: true, Resample: true}
	tests := []struct {
		name    string
		rules   shape.Rules
		in      []shape.Sample
		size    int
		left    shape.Chances
		verdict shape.Verdict
		why     string
		index   []int
		scores  []float64
		adv     []float64
		masked  []bool
		missing int
		dropped int
		surplus int
	}{
		{name: "as they are", in: rewards(1, 0), size: 2, verdict: shape.Send, scores: []float64{1, 0}, adv: []float64{0, 0}},
		{name: "cut off, scored", in: cut(rewards(1, 0.5), 1), size: 2, verdict: shape.Send, scores: []float64{1, 0.5}},
		{name: "cut off, zero", rules: shape.Rules{Truncated: "zero"}, in: cut(rewards(1, 0.5), 1), size: 2, verdict: shape.Send, scores: []float64{1, 0}},
		{
			name:    "cut off, masked: it is in the baseline",
			rules:   shape.Rules{Truncated: "mask", Advantages: "dr_grpo"},
			in:      cut(rewards(1, 0), 1),
			size:    2,
			verdict: shape.Send,
			scores:  []float64{1, 0},
			adv:     []float64{0.5, 0},
			masked:  []bool{false, true},
		},
		{
			name:    "cut off, dropped, filled",
			rules:   shape.Rules{Truncated: "drop"},
			in:      cut(rewards(1, 0), 1),
			size:    2,
			left:    all,
			verdict: shape.Fill,
			why:     "short",
			missing: 1,
			dropped: 1,
		},
		{name: "short, no chance left", in: rewards(1), size: 3, verdict: shape.Drop, why: "short", missing: 2},
		{
			name:    "short, sent",
			rules:   shape.Rules{ShortGroups: "send"},
			in:      rewards(1, 0),
			size:    4,
			left:    all,
			verdict: shape.Send,
			scores:  []float64{1, 0},
			missing: 2,
		},
		{
			name:    "short, of a size that no batch has room for",
			rules:   shape.Rules{ShortGroups: "send"},
			in:      rewards(1, 0, 0),
			size:    4,
			left:    all,
			verdict: shape.Send,
			scores:  []float64{1, 0},
			missing: 1,
			surplus: 1,
		},
		{
			name:    "short, spread",
			rules:   shape.Rules{ShortGroups: "send", Keep: "spread", Oversample: 1},
			in:      rewards(0.5, 0, 1),
			size:    4,
			left:    all,
			verdict: shape.Send,
			index:   []int{1, 2},
			scores:  []float64{0, 1},
			missing: 1,
			surplus: 1,
		},
		{name: "nothing to train", rules: shape.Rules{Truncated: "mask"}, in: cut(rewards(1, 0), 0, 1), size: 2, left: all, verdict: shape.Drop, why: "masked"},
		{
			name:    "nothing to train, again",
			rules:   shape.Rules{Truncated: "mask", EqualScores: "resample"},
			in:      cut(rewards(1, 0), 0, 1),
			size:    2,
			left:    all,
			verdict: shape.Resample,
			why:     "masked",
		},
		{
			name:    "nothing to train is not sent",
			rules:   shape.Rules{Truncated: "mask", EqualScores: "send"},
			in:      cut(rewards(1, 0), 0, 1),
			size:    2,
			left:    all,
			verdict: shape.Drop,
			why:     "masked",
		},
		{
			name:    "once more is never",
			rules:   shape.Rules{EqualScores: "resample", Resamples: new(int)},
			in:      rewards(1, 1),
			size:    2,
			verdict: shape.Drop,
			why:     "equal",
		},
		{
			name:    "empty is never sent",
			rules:   shape.Rules{ShortGroups: "send", EqualScores: "send"},
			size:    2,
			left:    all,
			verdict: shape.Drop,
			why:     "short",
			missing: 2,
		},
		{name: "short, dropped", rules: shape.Rules{ShortGroups: "drop"}, in: rewards(1), size: 2, left: all, verdict: shape.Drop, why: "short", missing: 1},
		{name: "equal", in: rewards(1, 1), size: 2, left: all, verdict: shape.Drop, why: "equal"},
		{
			name:    "equal, sent",
			rules:   shape.Rules{EqualScores: "send", Advantages: "grpo"},
			in:      rewards(0.1, 0.1, 0.1),
			size:    3,
			verdict: shape.Send,
			scores:  []float64{0.1, 0.1, 0.1},
		},
		{name: "equal, again", rules: shape.Rules{EqualScores: "resample"}, in: rewards(1, 1), size: 2, left: all, verdict: shape.Resample, why: "equal"},
		{name: "equal, again and again", rules: shape.Rules{EqualScores: "resample"}, in: rewards(1, 1), size: 2, verdict: shape.Drop, why: "equal"},
		{name: "one alone equals no other", in: rewards(1), size: 1, verdict: shape.Send, scores: []float64{1}},
		{
			name:    "too many, in order",
			rules:   shape.Rules{Oversample: 2},
			in:      rewards(0, 1, 0, 1),
			size:    2,
			verdict: shape.Send,
			index:   []int{0, 1},
			scores:  []float64{0, 1},
			surplus: 2,
		},
		{
			name:    "too many, spread",
			rules:   shape.Rules{Keep: "spread", Oversample: 1},
			in:      rewards(0.5, 0.4, 1, 0),
			size:    2,
			verdict: shape.Send,
			index:   []int{2, 3},
			scores:  []float64{1, 0},
			surplus: 2,
		},
		{
			name:    "too many, spread, odd",
			rules:   shape.Rules{Keep: "spread", Oversample: 1},
			in:      rewards(0.5, 0.4, 1, 0),
			size:    3,
			verdict: shape.Send,
			index:   []int{0, 2, 3},
			scores:  []float64{0.5, 1, 0},
			surplus: 1,
		},
		{
			name:    "long answers",
			rules:   shape.Rules{Overlong: &shape.Overlong{SoftFrom: 100, Max: 200, Penalty: 0.5}},
			in:      long,
			size:    4,
			verdict: shape.Send,
			scores:  []float64{1, 0.75, 0.5, 0.5},
		},
		{
			name:    "grpo",
			rules:   shape.Rules{Advantages: "grpo"},
			in:      rewards(1, 0, 0, 1),
			size:    4,
			verdict: shape.Send,
			scores:  []float64{1, 0, 0, 1},
			adv:     []float64{1, -1, -1, 1},
		},
		{
			name:    "rloo",
			rules:   shape.Rules{Advantages: "rloo"},
			in:      rewards(1, 0, 0),
			size:    3,
			verdict: shape.Send,
			scores:  []float64{1, 0, 0},
			adv:     []float64{1, -0.5, -0.5},
		},
		{
			name:    "dr_grpo",
			rules:   shape.Rules{Advantages: "dr_grpo"},
			in:      rewards(1, 0, 0.5),
			size:    3,
			verdict: shape.Send,
			scores:  []float64{1, 0, 0.5},
			adv:     []float64{0.5, -0.5, 0},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.rules.Check(); err != nil {
				t.Fatal(err)
			}
			got := tt.rules.Group(tt.in, tt.size, tt.left)
			if got.Verdict != tt.verdict || got.Why != tt.why || got.Missing != tt.missing || got.Dropped != tt.dropped || got.Surplus != tt.surplus {
				t.Fatalf("%+v", got)
			}
			if len(got.Samples) != len(tt.scores) {
				t.Fatalf("%d samples, want %d", len(got.Samples), len(tt.scores))
			}
			for i, x := range got.Samples {
				if near := func(a, b float64) bool {
					return math.Abs(a-b) < 1e-9
				}; !near(x.Score, tt.scores[i]) || tt.adv != nil && !near(x.Advantage, tt.adv[i]) || tt.masked != nil && x.Masked != tt.masked[i] ||
					tt.index != nil && x.Index != tt.index[i] {
					t.Errorf("sample %d: %+v", i, x)
				}
			}
		})
	}
}

// TestPromises: for any samples and rules, a group that is sent has the size that was asked
// for (or a divisor of it, where short ones are sent), something to train, each sample at most once and in order, finite
// numbers, and advantages that sum to nothing; what is not sent says why.
func TestPromises(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	for range 20_000 {
		rules := shape.Rules{
			Truncated:   pick("score", "mask", "zero", "drop"),
			EqualScores: pick("drop", "send", "resample"),
			ShortGroups: pick("fill", "send", "drop"),
			Keep:        pick("order", "spread"),
			Oversample:  1,
			Advantages:  pick("none", "grpo", "rloo", "dr_grpo"),
		}
		if r.IntN(2) == 0 {
			rules.Overlong = &shape.Overlong{SoftFrom: r.IntN(50), Max: 50 + r.IntN(50), Penalty: r.Float64()}
		}
		if err := rules.Check(); err != nil {
			t.Fatal(err)
		}
		var in []shape.Sample
		for range r.IntN(9) {
			in = append(in, shape.Sample{Reward: float64(r.IntN(4))*0.7 - 1, Truncated: r.IntN(4) == 0, Length: r.IntN(120)})
		}
		before := slices.Clone(in)
		size, left := 1+r.IntN(6), shape.Chances{Fill: r.IntN(2) == 0, Resample: r.IntN(2) == 0}
		got := rules.Group(in, size, left)
		if !slices.Equal(in, before) {
			t.Fatal("the samples were changed")
		}
		if (got.Verdict == shape.Fill) && !left.Fill || got.Verdict == shape.Resample && !left.Resample || (got.Verdict == shape.Send) != (got.Why == "") ||
			(got.Verdict == shape.Send) != (len(got.Samples) > 0) {
			t.Fatalf("%+v with %+v of %+v: %+v", rules, left, in, got)
		}
		if got.Verdict != shape.Send {
			continue
		}
		if slices.IndexFunc(got.Samples, func(x shape.Shaped) bool { return !x.Masked }) < 0 {
			t.Fatalf("nothing is trained of %+v", got)
		}
		if size%len(got.Samples) != 0 || len(got.Samples) < size && rules.ShortGroups != "send" {
			t.Fatalf("%d samples for a group of %d", len(got.Samples), size)
		}
		sum := 0.0
		masked := false
		last := -1
		for _, x := range got.Samples {
			if x.Index <= last || math.IsNaN(x.Score+x.Advantage) || math.IsInf(x.Score+x.Advantage, 0) || x.Masked && x.Advantage != 0 {
				t.Fatalf("%+v", got)
			}
			if s := in[x.Index]; rules.Overlong == nil && !s.Truncated && x.Score != s.Reward ||
				x.Score > s.Reward && !(s.Truncated && rules.Truncated == "zero") {
				t.Fatalf("sample %+v became %+v", s, x)
			}
			last, sum, masked = x.Index, sum+x.Advantage, masked || x.Masked
		}
		if !masked && math.Abs(sum) > 1e-6 {
			t.Fatalf("advantages sum to %g: %+v", sum, got)
		}
	}
}

func TestCheck(t *testing.T) {
	below, above := -2, 300
	if (shape.Rules{}).Again() != 1 || (shape.Rules{Resamples: new(int)}).Again() != 0 {
		t.Error("resamples: want 1 where nothing is said, and 0 where 0 is said")
	}
	for _, tt := range []struct {
		rules shape.Rules
		want  string
	}{
		{shape.Rules{Truncated: "ignore"}, "training.truncated: \"ignore\" is none of score, mask, zero, drop"},
		{shape.Rules{Advantages: "gae"}, "training.advantages"},
		{shape.Rules{EqualScores: "x"}, "training.equal-scores"},
		{shape.Rules{ShortGroups: "x"}, "training.short-groups"},
		{shape.Rules{Keep: "x"}, "training.keep"},
		{shape.Rules{Keep: "spread"}, "set oversample"},
		{shape.Rules{Resamples: &below}, "training.resamples: -2"},
		{shape.Rules{Resamples: &above}, "training.resamples: 300: want 0 to 100"},
		{shape.Rules{Oversample: -1}, "training.oversample: -1"},
		{shape.Rules{Overlong: &shape.Overlong{SoftFrom: 10, Max: 10}}, "soft_from < max"},
		{shape.Rules{Overlong: &shape.Overlong{SoftFrom: 10, Max: 20, Penalty: math.NaN()}}, "penalty"},
	} {
		if err := tt.rules.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.rules, err, tt.want)
		}
	}
}
