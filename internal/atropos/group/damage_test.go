package group_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"hermes/internal/atropos/group"
)

// agree demands that a list of numbers is read alike with its commas as they are, where
// eight bytes are looked at together, and with a line break behind each comma, where each
// number is read by itself.
func agree(t *testing.T, key string, rows []byte, r group.Rules) {
	t.Helper()
	if bytes.ContainsAny(rows, "\"{") {
		return // a comma in a string is none of the list
	}
	body := func(rows []byte) []byte {
		return fmt.Appendf(nil, `{"tokens":[[1]],"masks":[[1]],"scores":[0],%q:[[%s]]}`, key, rows)
	}
	one, errOne := group.Read(body(rows), r)
	two, errTwo := group.Read(body(bytes.ReplaceAll(rows, []byte(","), []byte(",\n"))), r)
	if (errOne == nil) != (errTwo == nil) {
		t.Fatalf("%s %s\nas it is: %v\nby lines: %v", key, rows, errOne, errTwo)
	}
	if errOne != nil {
		a, b := errOne.(*group.Fault), errTwo.(*group.Fault)
		if a.Type != b.Type || a.Msg != b.Msg || a.Type != "json_invalid" && fmt.Sprint(a.Loc) != fmt.Sprint(b.Loc) {
			t.Fatalf("%s %s\nas it is: %v\nby lines: %v", key, rows, a, b)
		}
		return
	}
	plain := func(g *group.Group) []byte { return bytes.Join(bytes.Fields(canonical(g)), nil) }
	if one.NonFinite != two.NonFinite || one.Tokens != two.Tokens || !bytes.Equal(plain(&one), plain(&two)) {
		t.Fatalf("%s %s: the group depends on line breaks", key, rows)
	}
}

// keys of lists of ids, of integers and of floats.
func keys() []string { return []string{"tokens", "masks", "inference_logprobs"} }

// numbers is a list of n numbers in spellings that a client may use.
func numbers(rng *rand.Rand, n int, float bool) []byte {
	var b []byte
	for i := range n {
		if i > 0 {
			b = append(b, ',')
			if rng.IntN(3) == 0 {
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

// TestDamagedNumbers changes characters of lists of numbers: what is found does not depend
// on how many bytes were looked at together.
func TestDamagedNumbers(t *testing.T) {
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

func FuzzDamagedNumbers(f *testing.F) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 30 {
		f.Add(uint8(rng.IntN(3)), rng.IntN(2) == 0, numbers(rng, 40, rng.IntN(2) == 0))
	}
	f.Add(uint8(2), true,
		[]byte("1e5,1e55,1e555,1.5e-3,1e05,-0,-00,1.e5,1.5.5,1e5.5,1e5e5,12345678901234567890123456789012345678901234567890123456789012345678901234567890,1"))
	f.Fuzz(func(t *testing.T, key uint8, types bool, rows []byte) {
		agree(t, keys()[key%3], rows, group.Rules{Types: types})
	})
}
