package group_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"hermes/internal/atropos/group"
)

func needWide(t testing.TB) {
	if !group.Wide() {
		t.Skip("this processor has no AVX2: the reader by masks is not used")
	}
}

func TestClassify(t *testing.T) {
	needWide(t)
	var b [64]byte
	for c := range 256 {
		for at := range b {
			b = [64]byte{}
			b[at] = byte(c)
			if !group.SameMasks(&b) {
				t.Fatalf("byte %#x at %d", c, at)
			}
		}
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 10_000 {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if !group.SameMasks(&b) {
			t.Fatalf("%x", b)
		}
	}
}

// agree demands that both readers find the same in a body with these rows.
func agree(t *testing.T, key string, rows []byte, r group.Rules) {
	t.Helper()
	body := fmt.Appendf(nil, `{"tokens":[[1]],"masks":[[1]],"scores":[0],%q:[[%s]]}`, key, rows)
	a, errA := group.ReadNarrow(body, r)
	b, errB := group.ReadWide(body, r)
	if fmt.Sprint(errA) != fmt.Sprint(errB) {
		t.Fatalf("%s\n%v\n%v", body, errA, errB)
	}
	if errA == nil && (a.NonFinite != b.NonFinite || a.Tokens != b.Tokens || !bytes.Equal(canonical(&a), canonical(&b))) {
		t.Fatalf("%s: the readers find different groups", body)
	}
}

// keys of lists of ids, of integers and of floats.
func keys() []string { return []string{"tokens", "masks", "inference_logprobs"} }

// numbers is a list of n numbers in spellings that a client may use.
func numbers(rng *rand.Rand, n int, float bool) []byte {
	var b []byte
	for i := range n {
		if i > 0 {
			if b = append(b, ','); rng.IntN(3) == 0 {
				b = append(b, ' ')
			}
		}
		switch {
		case !float:
			b = strconv.AppendInt(b, rng.Int64N([]int64{1, 10, 200_000, 1_000_000_000, 1 << 40}[min(rng.IntN(20), 4)]), 10)
		case rng.IntN(8) == 0:
			b = strconv.AppendFloat(b, rng.NormFloat64()*1e-9, 'e', rng.IntN(18), 64)
		default:
			b = strconv.AppendFloat(b, -rng.ExpFloat64(), 'f', rng.IntN(18), 64)
		}
	}
	return b
}

// TestWideAgreesWithNarrow changes characters of lists of numbers: both readers take the
// same, count the same, and find the same fault at the same place.
func TestWideAgreesWithNarrow(t *testing.T) {
	needWide(t)
	rng := rand.New(rand.NewPCG(9, 9))
	const alphabet = "0019.,-eE+ ]x\"\n[tn"
	for range 12_000 {
		key := keys()[rng.IntN(3)]
		rows := numbers(rng, rng.IntN(60), key == "inference_logprobs")
		for range rng.IntN(3) {
			if len(rows) == 0 {
				break
			}
			at := rng.IntN(len(rows))
			switch rng.IntN(3) {
			case 0:
				rows[at] = alphabet[rng.IntN(len(alphabet))]
			case 1:
				rows = append(rows[:at], rows[at+1:]...)
			default:
				rows = append(rows[:at], append([]byte{alphabet[rng.IntN(len(alphabet))]}, rows[at:]...)...)
			}
		}
		agree(t, key, rows, group.Rules{Types: rng.IntN(2) == 0})
	}
}

func FuzzWideAgreesWithNarrow(f *testing.F) {
	needWide(f)
	rng := rand.New(rand.NewPCG(4, 4))
	for range 30 {
		f.Add(uint8(rng.IntN(3)), rng.IntN(2) == 0, numbers(rng, 40, rng.IntN(2) == 0))
	}
	f.Add(uint8(2), true, []byte("1e5,1e55,1e555,1.5e-3,1e05,-0,-00,1.e5,1.5.5,1e5.5,1e5e5,12345678901234567890123456789012345678901234567890123456789012345678901234567890,1"))
	f.Fuzz(func(t *testing.T, key uint8, types bool, rows []byte) {
		agree(t, keys()[key%3], rows, group.Rules{Types: types})
	})
}
