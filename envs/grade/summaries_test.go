package grade_test

import (
	"errors"
	"fmt"
	"testing"

	"hermes/envs"
	"hermes/envs/grade"
)

// What frameworks say of their tests is read, in colour too; a run of no test is no verdict, and
// neither is a share whose summary may be in what was cut off.
func TestSummaries(t *testing.T) {
	x := box(t)
	const void = -1
	for _, tt := range []struct {
		command string
		want    float64
	}{
		{`printf "Tests:       1 failed, 3 passed, 4 total\n"; exit 1`, 0.75},
		{`printf "Tests:       1 failed, 2 skipped, 3 passed, 6 total\n"; exit 1`, 0.75},
		{`printf " Tests  1 failed | 3 passed (4)\n"; exit 1`, 0.75},
		{`printf "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured\n"; exit 101`, 0.75},
		{`printf "test result: ok. 0 passed; 0 failed; 0 ignored\ntest result: FAILED. 3 passed; 1 failed; 0 ignored\n"; exit 101`, 0.75},
		{`printf "Tests run: 4, Failures: 1, Errors: 1, Skipped: 0\n"; exit 1`, 0.5},
		{`printf "Tests run: 4, Failures: 1, Errors: 0, Skipped: 2\n"; exit 1`, 0.5},
		{`printf "4 examples, 1 failure\n"; exit 1`, 0.75},
		{`printf "4 examples, 1 failure, 2 pending\n"; exit 1`, 0.5},
		{`printf "75%% tests passed, 1 tests failed out of 4\n"; exit 8`, 0.75},
		{`printf "Tests: 4, Assertions: 5, Failures: 1.\n"; exit 1`, 0.75},
		{`printf "  3 passing (5ms)\n  1 failing\n"; exit 1`, 0.75},
		{`printf "\033[31m=== 3 failed, 1 passed in 1s ===\033[0m\n"; exit 1`, 0.25},
		{`printf "3 examples of 4 tests run: fine\n"; exit 1`, 0},
		{`printf "Ran 0 tests in 0.0s\n\nOK\n" >&2`, void},
		{`printf "=== no tests ran in 0.01s ===\n"; exit 5`, void},
		{`printf "testing: warning: no tests to run\nPASS\n"`, void},
		{`printf "=== 3 failed, 1 passed in 1s ===\n"; yes | head -c 9000000; exit 1`, void},
		{`yes | head -c 9000000; printf "=== 3 failed, 1 passed in 1s ===\n"; exit 1`, 0.25},
	} {
		s, err := grade.Parse(fmt.Sprintf("{kind: tests, share: true, command: '%s'}", tt.command))
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Bind(row(t, `{"tests": {"t": "x"}}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Grade(t.Context(), envs.World{Box: x}, said(t, "x"))
		var no *envs.NoVerdict
		if none := errors.As(err, &no); none != (tt.want == void) || !none && (err != nil || got.Reward != tt.want) {
			t.Errorf("%s: reward %v, %v, want %v", tt.command, got.Reward, err, tt.want)
		}
	}
}

// JSON that two readers take for different things is no answer, and neither is one of several.
func TestJSONThatDecides(t *testing.T) {
	table(t, []graded{
		{`json`, `{"answer":{"a":2}}`, `{"a":1,"a":2}`, 0},
		{`json`, `{"answer":{"a":1}}`, `so {"a":1,"a":1}`, 0},
		{`json`, `{"answer":{"a":{"b":1}}}`, "```json\n{\"a\":{\"b\":2,\"b\":1}}\n```", 0},
		{`json`, `{"answer":{"a":1,"A":2}}`, `{"a":1,"A":2}`, 1},
		{`json`, `{"answer":[{"a":1},{"a":1}]}`, `[{"a":1},{"a":1}]`, 1},
		{`json`, `{"answer":{"a":1}}`, `{"a":2}` + "\n" + `{"a":1}`, 0},
		{`json`, `{"answer":{"a":1}}`, `{"a":2} or {"a":1}`, 0},
		{`json`, `{"answer":{"a":1}}`, `{"a":1} or {"a":1}`, 1},
		{`json`, `{"answer":{"a":1}}`, `First I had {"a":2}. The answer is {"a":1}`, 1},
		{`json`, `{"answer":{"a":1}}`, `not {"a":1}`, 0},
		{`json`, `{"answer":{"a":1}}`, `{"a":1} is wrong`, 0},
		{`json`, `{"answer":{"a":1}}`, `not {"a":2} but {"a":1}`, 1},
		{`json`, `{"answer":"{\"a\":\"\u00e9\"}"}`, `{"a":"e` + "\u0301" + `"}`, 1},
		{`{kind: contains, words: true}`, `{"answer":"5"}`, "5.5", 0},
		{`{kind: contains, words: true}`, `{"answer":"5"}`, "1,5", 0},
		{`{kind: contains, words: true}`, `{"answer":"5"}`, "-5", 0},
		{`{kind: contains, words: true}`, `{"answer":"5"}`, "5 %", 0},
		{`{kind: contains, words: true}`, `{"answer":"5"}`, "3-5, so 5.", 1},
		{`{kind: contains, words: true}`, `{"answer":"5"}`, "1.5 and 5", 1},
	})
}
