package group_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/internal/atropos/group"
)

func TestReadCanonical(t *testing.T) {
	body := ` {"scores":[1, -1.5e0],"tokens":[[5,6,7],[5, 6,9]], "junk":{"a":[null,"é\n"]},"masks":[[-100,-100,7],[-100,-100,9]],` +
		`"inference_logprobs":[[1.0,1,-0.2],[1,1,-1.5]],"env_id":3,"messages":[[{"role":"u","content":null}],[]],"ref_logprobs":null,"advantages":[]} `
	g, err := group.Read([]byte(body), group.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	if g.Sequences != 2 || g.Tokens != 6 || !g.HasEnv || g.Env != 3 {
		t.Errorf("%d sequences, %d tokens, env %v %d", g.Sequences, g.Tokens, g.HasEnv, g.Env)
	}
	want := `{"tokens":[[5,6,7],[5, 6,9]],"masks":[[-100,-100,7],[-100,-100,9]],"scores":[1, -1.5e0],"advantages":[],"ref_logprobs":null,` +
		`"messages":[[{"role":"u","content":null}],[]],"generation_params":null,"inference_logprobs":[[1.0,1,-0.2],[1,1,-1.5]],"overrides":null,` +
		`"group_overrides":null,"images":null,"env_id":3,"distill_token_ids":null,"distill_logprobs":null}`
	got := string(canonical(&g))
	if got != want {
		t.Errorf("canonical form:\n%s\nwant\n%s", got, want)
	}
}

// TestReadRefuses looks at faults, by our own rules and by those of types alone.
func TestReadRefuses(t *testing.T) {
	tests := []struct{ name, body, strict, own string }{ // "" means accepted, else a part of the error
		{"plain", `{"tokens":[[1]],"masks":[[1]],"scores":[0]}`, "", ""},
		{"not an object", `[1]`, "dictionary", "dictionary"},
		{"nothing", ``, "byte 0", "byte 0"},
		{"cut off", `{"tokens":[[1]],"masks":[[1]],"scores":[0]`, "byte", "byte"},
		{"more behind", `{"tokens":[[1]],"masks":[[1]],"scores":[0]}}`, "byte 43", "byte 43"},
		{"no masks", `{"tokens":[[1]],"scores":[0]}`, "masks: Field required", "masks: Field required"},
		{"null for required", `{"tokens":null,"masks":[[1]],"scores":[0]}`, "tokens: Input should be a valid list", "valid list"},
		{"null in a list", `{"tokens":[[1,null]],"masks":[[1,1]],"scores":[0]}`, "tokens.0.1: Input should be a valid integer", "tokens.0.1"},
		{"fraction", `{"tokens":[[1.5]],"masks":[[1]],"scores":[0]}`, "fractional", "fractional"},
		{"text", `{"tokens":[["a"]],"masks":[[1]],"scores":[0]}`, "parse string", "parse string"},
		{"spelled otherwise", `{"tokens":[[1.0,"2",true]],"masks":[[1,2,1]],"scores":["0.5"]}`, "", ""},
		{"negative id", `{"tokens":[[-1]],"masks":[[1]],"scores":[0]}`, "", "tokens.0.0: a token id is -1"},
		{"large id", `{"tokens":[[1,2147483648]],"masks":[[1,1]],"scores":[0]}`, "", "2147483648"},
		{"largest id", `{"tokens":[[1,2147483647]],"masks":[[1,1]],"scores":[0]}`, "", ""},
		{"leading zero", `{"tokens":[[1,2,3,4,5,6,7,08]],"masks":[[1,1,1,1,1,1,1,1]],"scores":[0]}`, "begins with 0", "begins with 0"},
		{"comma at the end", `{"tokens":[[1,2,3,4,5,6,7,]],"masks":[[1]],"scores":[0]}`, "byte", "byte"},
		{"two commas", `{"tokens":[[1,2,3,4,5,,6,7]],"masks":[[1]],"scores":[0]}`, "byte", "byte"},
		{"NaN", `{"tokens":[[1]],"masks":[[1]],"scores":[NaN]}`, "", "finite"},
		{"floats", `{"tokens":[[1,2,3,4]],"masks":[[1,2,3,4]],"scores":[-0.5],"inference_logprobs":[[-0.123456789012,1.0, -2.25,0.5]]}`, "", ""},
		{"comma behind floats", `{"tokens":[[1]],"masks":[[1]],"scores":[0.5,-1.25,]}`, "byte", "byte"},
		{"point without digits", `{"tokens":[[1]],"masks":[[1]],"scores":[0.5,-1.,0.25]}`, "behind the point", "behind the point"},
		{"two points", `{"tokens":[[1]],"masks":[[1]],"scores":[0.5,1.25.25,0.25]}`, "byte", "byte"},
		{"two spaces and an exponent", `{"tokens":[[1],[1],[1]],"masks":[[1],[1],[1]],"scores":[0.5,  1.5e-05,0.25]}`, "", ""},
		{"minus infinity", `{"tokens":[[1]],"masks":[[1]],"scores":[-Infinity]}`, "", "finite"},
		{"minus NaN", `{"tokens":[[1]],"masks":[[1]],"scores":[-NaN]}`, "byte", "byte"},
		{"overflow", `{"tokens":[[1]],"masks":[[1]],"scores":[1e999]}`, "", "finite"},
		{"nan text", `{"tokens":[[1]],"masks":[[1]],"scores":["nan"]}`, "", "finite"},
		{"masks too short", `{"tokens":[[1,2]],"masks":[[1]],"scores":[0]}`, "", "masks: sequence 0 has 1 positions but 2 tokens"},
		{"one score for two", `{"tokens":[[1],[2]],"masks":[[1],[2]],"scores":[0]}`, "", "scores: 1 entries for 2"},
		{"log-probs", `{"tokens":[[1,2]],"masks":[[1,2]],"scores":[0],"inference_logprobs":[[1]]}`, "", "inference_logprobs"},
		{"no sequences", `{"tokens":[],"masks":[],"scores":[]}`, "", "no sequences"},
		{"empty sequence", `{"tokens":[[]],"masks":[[]],"scores":[0]}`, "", "no tokens"},
		{"distillation one shorter", `{"tokens":[[1,2]],"masks":[[1,2]],"scores":[0],"distill_token_ids":[[[1,2]]],"distill_logprobs":[[[-1,-2]]]}`, "", ""},
		{
			"distillation uneven",
			`{"tokens":[[1,2]],"masks":[[1,2]],"scores":[0],"distill_token_ids":[[[1,2],[3]]],"distill_logprobs":[[[-1],[-1,-2]]]}`,
			"",
			"distill_logprobs",
		},
		{"message without role", `{"tokens":[[1]],"masks":[[1]],"scores":[0],"messages":[[{"content":""}]]}`, "messages.0.0", "role"},
		{"escaped keys", `{"t\u006fkens":[[1]],"masks":[[1]],"scores":[0],"messages":[[{"r\u006fle":1,"content":2}]]}`, "", ""},
		{"message is a number", `{"tokens":[[1]],"masks":[[1]],"scores":[0],"messages":[[7]]}`, "dictionary", "dictionary"},
		{"object wanted", `{"tokens":[[1]],"masks":[[1]],"scores":[0],"overrides":[[]]}`, "overrides.0", "overrides.0"},
		{"not UTF-8", "{\"tokens\":[[1]],\"masks\":[[1]],\"scores\":[0],\"images\":\"abcdefgh\xff\"}", "UTF-8", "UTF-8"},
		{"control character", "{\"tokens\":[[1]],\"masks\":[[1]],\"scores\":[0],\"images\":\"a\nbcdefgh\"}", "control", "control"},
		{"deep", `{"images":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "deeply", "deeply"},
	}
	for _, tt := range tests {
		for _, strict := range []bool{false, true} {
			want := tt.own
			if strict {
				want = tt.strict
			}
			g, err := group.Read([]byte(tt.body), group.Rules{Types: strict})
			switch {
			case want == "" && err != nil:
				t.Errorf("%s, types alone %v: %v", tt.name, strict, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s, types alone %v: %v, want %q", tt.name, strict, err, want)
			}
			finite := json.Valid(canonical(&g))
			if err == nil && finite == g.NonFinite && tt.name != "overflow" {
				t.Errorf("%s: not finite %v, valid JSON %v", tt.name, g.NonFinite, finite)
			}
		}
	}
}

func TestReadList(t *testing.T) {
	one := `{"tokens":[[1]],"masks":[[1]],"scores":[0]}`
	list, err := group.ReadList([]byte("["+one+" , "+one+"]"), group.Rules{})
	if err != nil || len(list) != 2 {
		t.Fatal(len(list), err)
	}
	list, err = group.ReadList([]byte("[]"), group.Rules{})
	if err != nil || len(list) != 0 {
		t.Error(len(list), err)
	}
	_, err = group.ReadList([]byte(`[`+one+`,{"tokens":[[1]],"masks":[["x"]],"scores":[0]}]`), group.Rules{})
	var f *group.Fault
	if !errors.As(err, &f) || fmt.Sprint(f.Loc) != "[1 masks 0 0]" {
		t.Error(err)
	}
	for _, bad := range []string{one, "[" + one, "", "[" + one + "]]", "7"} {
		if _, err := group.ReadList([]byte(bad), group.Rules{}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// oracle reads a body with encoding/json and walks it as the types demand; ok means that
// every number is spelled as one.
func oracle(body []byte) (tokens [][]float64, ok bool) {
	if !json.Valid(body) {
		return nil, false
	}
	var top map[string]any
	if json.Unmarshal(body, &top) != nil || top == nil {
		return nil, false
	}
	var walk func(v any, depth int) bool
	walk = func(v any, depth int) bool {
		if depth == 0 {
			_, ok := v.(float64)
			return ok
		}
		list, ok := v.([]any)
		for _, v := range list {
			ok = ok && walk(v, depth-1)
		}
		return ok
	}
	for key, depth := range map[string]int{"tokens": 2, "masks": 2, "scores": 1} {
		if !walk(top[key], depth) {
			return nil, false
		}
	}
	for _, row := range top["tokens"].([]any) {
		var ids []float64
		for _, v := range row.([]any) {
			id := v.(float64)
			if id == 0 {
				id = 0 // -0.00 is token 0
			}
			ids = append(ids, id)
		}
		tokens = append(tokens, ids)
	}
	return tokens, true
}

// FuzzRead compares the reader with encoding/json: what it accepts is JSON and says the
// same; what it keeps reads back as itself; lists of integers are taken exactly when they
// are such.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`[[1,2,3],[4, 5,-100]]`))
	f.Add([]byte(`[[12345678,123456789],[0,10,01]]`))
	f.Add([]byte(`[[1234567,1234567],[99999999,1]]`))
	f.Add([]byte(`[[1.0,2e3,"4",true],[ 0 , 7 ]]`))
	f.Add([]byte(`[[-0.5,1.0, -2.123456789012,3e-5],[0.25]]`))
	f.Add([]byte(`[[-0.5,1., -2.1],[0.25,]]`))
	f.Add([]byte(`[[0,0,0,0,0,0,0,0,-0,00]]`))
	f.Add([]byte(`[[0,0,0,0,0,0,0,0,-0.00]]`))
	f.Fuzz(func(t *testing.T, rows []byte) {
		floats(t, rows)
		body := append(append([]byte(`{"tokens":`), rows...), `,"masks":[[1,-100, 3]],"scores":[-0.25e1],"images":{"k":"v"}}`...)
		want, valid := oracle(body)
		g, err := group.Read(body, group.Rules{Types: true})
		if err != nil {
			if valid && integers(want) && utf8Keys(rows) {
				t.Fatalf("%s is refused: %v", rows, err)
			}
			return
		}
		out := canonical(&g)
		if !g.NonFinite && !json.Valid(out) {
			t.Fatalf("%s gives %s, which is not JSON", rows, out)
		}
		again, err := group.Read(out, group.Rules{Types: true})
		if err != nil || !bytes.Equal(canonical(&again), out) || again.Sequences != g.Sequences || again.Tokens != g.Tokens {
			t.Fatalf("%s does not read back as itself: %v", out, err)
		}
		got, ok := oracle(out)
		if !ok && !g.NonFinite {
			t.Fatalf("%s: the oracle refuses %s", rows, out)
		}
		if valid && ok && integers(want) && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s became %s", rows, out)
		}
		if ok {
			n := 0
			for _, row := range got {
				n += len(row)
			}
			if len(got) != g.Sequences || n != g.Tokens {
				t.Fatalf("%s: %d sequences of %d tokens, counted %d of %d", rows, len(got), n, g.Sequences, g.Tokens)
			}
		}
	})
}

// floats reads the rows as lists of floats: taken exactly when encoding/json takes them.
func floats(t *testing.T, rows []byte) {
	body := append(append([]byte(`{"tokens":[],"masks":[],"scores":[],"advantages":`), rows...), '}')
	var want struct{ Advantages [][]*float64 }
	plain := json.Valid(body) && !bytes.ContainsAny(rows, `{"ntf`) && json.Unmarshal(body, &want) == nil && want.Advantages != nil
	g, err := group.Read(body, group.Rules{Types: true})
	if plain && err != nil {
		t.Fatalf("floats %s are refused: %v", rows, err)
	}
	if err == nil && !g.NonFinite && !json.Valid(canonical(&g)) {
		t.Fatalf("floats %s give %s", rows, canonical(&g))
	}
}

func integers(rows [][]float64) bool {
	for _, row := range rows {
		for _, v := range row {
			if v != float64(int64(v)) || v > 1<<53 || v < -1<<53 {
				return false
			}
		}
	}
	return true
}

// utf8Keys excuses rows that redefine keys behind their own brackets or nest too deeply:
// the oracle has no bound of depth.
func utf8Keys(rows []byte) bool { return !bytes.ContainsAny(rows, `{"`) }

// TestReadRandom puts integers of every length and spelling at every offset of a word.
func TestReadRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var rows [][]int64
		for range 1 + rng.IntN(3) {
			var row []int64
			for range 1 + rng.IntN(40) {
				row = append(row, rng.Int64N([]int64{10, 1000, 200000, 1 << 31}[rng.IntN(4)]))
			}
			rows = append(rows, row)
		}
		text, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			text = bytes.ReplaceAll(text, []byte(","), []byte(", "))
		}
		scores := strings.TrimSuffix(strings.Repeat("0,", len(rows)), ",")
		body := fmt.Appendf(nil, `{"tokens":%s,"masks":%s,"scores":[%s]}`, text, text, scores)
		g, err := group.Read(body, group.Rules{})
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got, ok := oracle(canonical(&g)); !ok || fmt.Sprint(got) != strings.ReplaceAll(fmt.Sprint(rows), "\n", "") && !same(got, rows) {
			t.Fatalf("%s became %v", body, got)
		}
	}
}

func same(got [][]float64, want [][]int64) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if len(got[i]) != len(want[i]) {
			return false
		}
		for j := range got[i] {
			if int64(got[i][j]) != want[i][j] {
				return false
			}
		}
	}
	return true
}

// canonical is the form in which a group is kept.
func canonical(g *group.Group) []byte { return bytes.Join(g.Parts(nil), nil) }
