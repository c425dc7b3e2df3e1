package edit

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
)

// bare is what is left of a text without what patch forgives: white space, escapes,
// typographic characters.
func bare(s string) string {
	s = strings.ToValidUTF8(s, unshown)
	for next := unescape(s); next != s; next = unescape(s) {
		s = next
	}
	var b strings.Builder
	for _, r := range s {
		for _, p := range plainRune(r) {
			if !unicode.IsSpace(p) && p != '\\' {
				b.WriteRune(p)
			}
		}
	}
	return b.String()
}

// checkNamed holds that a replacement changes what old names, and nothing else.
func checkNamed(t *testing.T, content, old, new string) (changed bool) {
	t.Helper()
	f := find(content, old)
	for _, s := range f.spans {
		if was := content[s.from:s.to]; bare(was) != bare(old) {
			t.Fatalf("%s: old %q is found in %q as %q", f.strategy, old, content, was)
		}
	}
	if len(f.spans) != 1 || strings.Contains(content, "\r") {
		return false
	}
	got, _, err := Replace(content, old, new, false)
	if err != nil {
		return false
	}
	s := f.spans[0]
	if head, tail := content[:s.from], content[s.to:]; !strings.HasPrefix(got, head) || !strings.HasSuffix(got[len(head):], tail) {
		t.Fatalf("%s: replacing %q in %q by %q gives %q", f.strategy, old, content, new, got)
	}
	return true
}

// TestPatchTouchesWhatIsNamed: old_string is a piece of the file with some damage; whatever
// is found is what it names.
func TestPatchTouchesWhatIsNamed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	line := func() string {
		return pick("", "  ", "\t", "    ") + pick("host: one", "port: 80", "user: x", "return “q”", "s = \"a\\tb\"", "", "}", "- \"[[Two]]\"", "if a  &&  b {")
	}
	changed := 0
	for range 20_000 {
		var lines []string
		for range 3 + rng.IntN(8) {
			lines = append(lines, line())
		}
		at := rng.IntN(len(lines))
		old := append([]string{}, lines[at:at+1+rng.IntN(len(lines)-at)]...)
		for range rng.IntN(3) {
			i := rng.IntN(len(old))
			switch rng.IntN(6) {
			case 0:
				old[i] = strings.TrimSpace(old[i])
			case 1:
				old[i] = "  " + old[i]
			case 2:
				old[i] = strings.NewReplacer("“", `"`, "”", `"`).Replace(old[i])
			case 3:
				old[i] = strings.ReplaceAll(old[i], "\t", `\t`)
			case 4:
				old[i] += pick("x", "1", ";", " # note")
			case 5:
				old[i] = line()
			}
		}
		content, want := strings.Join(lines, "\n")+"\n", strings.Join(old, "\n")
		if checkNamed(t, content, want, "NEW") {
			changed++
		}
		var h hunk
		for _, l := range old {
			h.lines = append(h.lines, "-"+l)
		}
		h.lines = append(h.lines, "+NEW")
		if rows := rowsOf(content); want != "" {
			if at, n, err := locate(rows, h, 0); err == nil {
				for i := range n {
					if bare(rows[at+i].text) != bare(old[i]) {
						t.Fatalf("a hunk that removes %q is put over %q", old[i], rows[at+i].text)
					}
				}
			}
		}
	}
	if changed < 2000 {
		t.Errorf("only %d replacements found their place: the test shows nothing", changed)
	}
}

func FuzzPatchTouchesWhatIsNamed(f *testing.F) {
	f.Add("a:\n  host: one\n  user: x\nb:\n  host: two\n  user: y\n", "c:\n  host: two\n  user: z", "c: 1")
	f.Add("related:\n  - \"[[One]]\"\n  - \"[[Two]]\"\n", "related:\n  - \"[[One]]\"\n  - \"[[Three]]\"", "x")
	f.Add("caf\xe9\xe8 = 1\n", "caf\uFFFD = 1", "caf\uFFFD = 2")
	f.Add("x “q” y\n", `"q"`, "z")
	f.Fuzz(func(t *testing.T, content, old, new string) { checkNamed(t, content, old, new) })
}
