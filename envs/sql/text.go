package sql

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// readOnly refuses all but one query that reads: SELECT, WITH, VALUES or EXPLAIN. That a
// WITH writes nothing is for the connection to see to.
func readOnly(text string) error {
	words, statements := 0, 0
	first := ""
	for rest := text; rest != ""; {
		token, after, err := next(rest)
		if err != nil {
			return err
		}
		rest = after
		switch {
		case token == "":
		case token == ";":
			words = 0
		default:
			words++
			if words == 1 {
				statements++
			}
			if first == "" {
				first = strings.ToUpper(token)
			}
		}
	}
	switch {
	case statements == 0:
		return errors.New("no query")
	case statements > 1:
		return fmt.Errorf("%d statements: want one query", statements)
	case first != "SELECT" && first != "WITH" && first != "VALUES" && first != "EXPLAIN":
		return fmt.Errorf("%.20s: the database is read-only, want SELECT or WITH", first)
	}
	return nil
}

// next splits the first token off; it is empty for white space and comments, and only its
// kind matters otherwise.
func next(s string) (token, rest string, err error) {
	until := func(from int, end string, what string) (string, string, error) {
		i := strings.Index(s[from:], end)
		if i < 0 {
			return "", "", fmt.Errorf("%s is not closed", what)
		}
		return s[:from+i+len(end)], s[from+i+len(end):], nil
	}
	switch {
	case strings.HasPrefix(s, "--"):
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			return "", s[i+1:], nil
		}
		return "", "", nil
	case strings.HasPrefix(s, "/*"):
		if i := strings.Index(s[2:], "*/"); i >= 0 {
			return "", s[i+4:], nil
		}
		return "", "", nil // SQLite takes the end of the text for the end of the comment
	case strings.IndexByte("'\"`", s[0]) >= 0: // a doubled quote is two texts here, which is all the same
		return until(1, s[:1], "a quote")
	case s[0] == '[':
		return until(1, "]", "a name in brackets")
	case strings.IndexByte(" \t\n\r\f", s[0]) >= 0:
		return "", s[1:], nil
	}
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= 0x80 || s[n] >= '0' && s[n] <= '9' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	n = max(n, 1)
	return s[:n], s[n:], nil
}

// lastBlock is the last fenced block of an answer that is marked with one of the languages
// or, without such a one, the last that is marked with none; without a fence it is the whole
// answer. Fences are of back-ticks or tildes; a block may stand on one line.
func lastBlock(answer string, languages ...string) string {
	parts := strings.Split(strings.ReplaceAll(answer, "~~~", "```"), "```")
	if n := len(parts); n%2 == 0 && strings.Contains(parts[n-1], "\n") {
		parts = append(parts, "") // the last block was not closed
	}
	if len(parts) == 1 {
		return strings.TrimSpace(answer)
	}
	plain := ""
	for i := len(parts) - 2; i > 0; i-- {
		if i%2 == 0 {
			continue
		}
		head, body, lines := strings.Cut(parts[i], "\n")
		if word, rest, _ := strings.Cut(strings.TrimSpace(head), " "); slices.Contains(languages, strings.ToLower(word)) {
			if !lines {
				body = rest
			}
			return strings.TrimSpace(body)
		}
		if !lines {
			head, body = "", parts[i]
		}
		if plain == "" && strings.TrimSpace(head) == "" {
			plain = strings.TrimSpace(body)
		}
	}
	return plain
}
