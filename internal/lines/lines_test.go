package lines_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"hermes/internal/lines"
)

func TestAnswer(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n \r\n\n", ""},
		{"in order, the last without its end", "1\n2\n3", "[1]\n[2]\n[3]\n"},
		{"too long a line", long + "\n2\n", `{"id":null,"error":"the line is longer than 20 bytes"}` + "\n[2]\n"},
		{"too long a last line", "1\n" + long, "[1]\n" + `{"id":null,"error":"the line is longer than 20 bytes"}` + "\n"},
		{"markup stays", `"<b>"`, `["<b>"]` + "\n"},
		{"no JSON", "{\n", `{"id":null,"error":"bad"}` + "\n"},
		{"no JSON, an id", `{"id":7}`, `{"id":7,"error":"bad"}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			err := lines.Answer(strings.NewReader(c.in), &out, 20, func(line []byte) any {
				if line[0] == '{' {
					return lines.Refuse(line, errors.New("bad"))
				}
				return []json.RawMessage{line}
			})
			if err != nil || out.String() != c.want {
				t.Errorf("%q\nwant %q (%v)", &out, c.want, err)
			}
		})
	}
}

// TestAnswerAtOnce: who asks line by line gets each answer before the next line is sent.
func TestAnswerAtOnce(t *testing.T) {
	a := &asker{left: 3}
	if err := lines.Answer(a, a, lines.Most, func([]byte) any { return 1 }); err != nil || a.answers != 3 {
		t.Errorf("%d answers, %v", a.answers, err)
	}
	broken := errors.New("broken")
	for _, a := range []*asker{{left: 1, writes: broken}, {reads: broken}} {
		if err := lines.Answer(a, a, lines.Most, func([]byte) any { return 1 }); !errors.Is(err, broken) {
			t.Errorf("%v, want %v", err, broken)
		}
	}
}

// asker sends a line once the answer to the one before has come.
type asker struct {
	left, sent, answers int
	reads, writes       error
}

func (a *asker) Read(p []byte) (int, error) {
	switch {
	case a.reads != nil:
		return 0, a.reads
	case a.sent != a.answers:
		return 0, errors.New("a line was read before the answer to the one before was written")
	case a.left == 0:
		return 0, io.EOF
	}
	a.left--
	a.sent++
	return copy(p, "1\n"), nil
}

func (a *asker) Write(p []byte) (int, error) {
	a.answers++
	return len(p), a.writes
}
