package compress

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"

	"hermes/trajectory"
)

//go:embed prompt.md
var instructions string

// Prompt is what a model is asked for a summary. The turns are fenced by a mark that none
// of them can hold. chars bounds their text, the middle of long turns being left out; 0:
// no bound.
func Prompt(r Request, chars int) []trajectory.Message {
	var b strings.Builder
	each := 0
	if chars > 0 {
		each = max(200, chars/max(1, len(r.Turns)))
	}
	for _, t := range r.Turns {
		b.WriteString("<" + string(t.Role) + ">\n" + middleOut(t.Text, each) + "\n</" + string(t.Role) + ">\n")
	}
	text := b.String()
	hash := sha256.Sum256([]byte(text))
	mark := "record-" + hex.EncodeToString(hash[:8])
	system := strings.NewReplacer("{mark}", mark, "{tokens}", strconv.Itoa(r.Tokens)).Replace(strings.TrimSpace(instructions))
	return []trajectory.Message{trajectory.Text(trajectory.System, system),
		trajectory.Text(trajectory.User, mark+"\n"+text+mark+"\n\nWrite the summary of the record now.")}
}

func middleOut(s string, n int) string {
	if n <= 0 || len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n*2/3], "") + "\n[…]\n" + strings.ToValidUTF8(s[len(s)-n/3:], "")
}
