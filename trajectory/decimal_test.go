package trajectory_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"hermes/trajectory"
)

// TestAppendDecimal holds the numbers against those of strconv, around every power of ten.
func TestAppendDecimal(t *testing.T) {
	list := []trajectory.Token{0, math.MaxInt32, math.MinInt32}
	for n := int64(1); n <= math.MaxInt32; n *= 10 {
		for _, v := range []int64{n - 1, n, n + 1, 2*n + 1, 5 * n} {
			list = append(list, trajectory.Token(v), trajectory.Token(-v))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		list = append(list, trajectory.Token(r.Int32()>>r.IntN(31)))
	}
	for i := range list {
		if got, want := string(trajectory.AppendDecimal([]byte("x"), list[i:i+1])), "x"+strconv.Itoa(int(list[i])); got != want {
			t.Fatalf("%d is written %s", list[i], got)
		}
	}
	for n := range 50 {
		part := list[n : n*7]
		want := strings.Trim(strings.ReplaceAll(fmt.Sprint(part), " ", ","), "[]")
		if got := string(trajectory.AppendDecimal(nil, part)); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if got := trajectory.DecimalLen(part); got != len(want) {
			t.Fatalf("%s has %d bytes, not %d", want, len(want), got)
		}
	}
	room := make([]byte, 0, trajectory.DecimalLen(list))
	if got := trajectory.AppendDecimal(room, list); &got[:1][0] != &room[:1][0] {
		t.Error("room of the right size is not used")
	}
}

func BenchmarkAppendDecimal(b *testing.B) {
	for _, most := range []int{700, 150_000} {
		r := rand.New(rand.NewPCG(1, 2))
		list := make([]trajectory.Token, 4000)
		for i := range list {
			list[i] = trajectory.Token(r.IntN(most))
		}
		room := make([]byte, 0, 8*len(list))
		b.Run(fmt.Sprint(most), func(b *testing.B) {
			for b.Loop() {
				trajectory.AppendDecimal(room, list)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(list)), "ns/token")
		})
		b.Run(fmt.Sprint(most, "/strconv"), func(b *testing.B) {
			for b.Loop() {
				out := room
				for i, t := range list {
					if i > 0 {
						out = append(out, ',')
					}
					out = strconv.AppendInt(out, int64(t), 10)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(list)), "ns/token")
		})
	}
}
