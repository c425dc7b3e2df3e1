package runs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermes/trajectory/columns"
)

// maxFound bounds the list of secrets that are named.
const maxFound = 20

// SecretsError names the places of what looks like secrets, never the secrets.
type SecretsError struct {
	Places []string // the first ones
	Rows   int64    // rows and lines that hold some
}

func (e *SecretsError) Error() string {
	text := fmt.Sprintf("what looks like a secret is in %d rows or lines:", e.Rows)
	for _, p := range e.Places {
		text += "\n  " + p
	}
	return text
}

// CheckSecrets reads a folder that [ExportHub] wrote and returns its files; a
// *[SecretsError] where secret says yes to a text in one of them.
func CheckSecrets(dir string, secret func(text string) bool) (files []string, err error) {
	found := &SecretsError{}
	note := func(format string, a ...any) {
		found.Rows++
		if len(found.Places) < maxFound {
			found.Places = append(found.Places, fmt.Sprintf(format, a...))
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s: not a regular file", path)
		}
		name = filepath.ToSlash(name)
		files = append(files, name)
		if strings.HasSuffix(name, ".parquet") {
			err = secretRows(path, secret, func(i int64, row columns.Row, where string) {
				note("%s, row %d (id %s, sample %d): %s", name, i, row.ID, row.Sample, where)
			})
		} else {
			err = secretLines(path, secret, func(n int) { note("%s, line %d", name, n) })
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	if err == nil && found.Rows > 0 {
		err = found
	}
	return files, err
}

func secretRows(path string, secret func(string) bool, note func(int64, columns.Row, string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	rows, err := columns.NewReader(f, info.Size())
	if err != nil {
		return err
	}
	i := int64(0)
	for row, err := range rows.Rows() {
		if err != nil {
			return err
		}
		where, err := secretIn(row, secret)
		if err != nil {
			return err
		}
		if where != "" {
			note(i, row, where)
		}
		i++
	}
	return nil
}

// secretIn says which part of a row holds a secret; empty: none.
func secretIn(row columns.Row, secret func(string) bool) (string, error) {
	for i, m := range row.Messages {
		texts := []string{m.Content}
		if m.Reasoning != nil {
			texts = append(texts, *m.Reasoning)
		}
		for _, c := range m.Calls {
			texts = append(texts, c.Function.Arguments)
		}
		for _, t := range texts {
			if secret(t) {
				return fmt.Sprintf("message %d (%s)", i, m.Role), nil
			}
		}
	}
	if secret(row.Metadata) {
		return "metadata", nil
	}
	row.Sequences = nil // the tokens of the same messages
	raw, err := json.Marshal(row)
	if err == nil && secret(string(raw)) {
		return "a column beside the messages", nil
	}
	return "", err
}

func secretLines(path string, secret func(string) bool, note func(int)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if secret(lines.Text()) {
			note(n)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return errors.New("a line of more than 16 MiB cannot be looked through for secrets")
	}
	return lines.Err()
}
