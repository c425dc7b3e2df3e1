package whole_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"hermes/internal/whole"
)

// TestWrite: a file takes the place of an older one only when it is complete, and nothing else is
// left in the folder.
func TestWrite(t *testing.T) {
	bad := errors.New("the source broke off")
	tests := []struct {
		name  string
		older string // "": a folder with something in it, which no file can replace
		err   error  // of what fills the file
		want  string // "": the same as before
	}{
		{name: "replaced", older: "old", want: "new"},
		{name: "broken off", older: "old", err: bad},
		{name: "in the place of a folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "file")
			if tt.older == "" {
				if err := os.MkdirAll(filepath.Join(name, "inner"), 0o700); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(name, []byte(tt.older), 0o600); err != nil {
				t.Fatal(err)
			}
			err := whole.Write(name, func(w io.Writer) error {
				_, werr := io.WriteString(w, "new")
				return errors.Join(werr, tt.err)
			})
			if (err == nil) != (tt.want != "") || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("error %v", err)
			}
			if tt.older != "" {
				got, err := os.ReadFile(name)
				want := tt.want
				if want == "" {
					want = tt.older
				}
				if err != nil || string(got) != want {
					t.Errorf("the file is %q, %v", got, err)
				}
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 1 {
				t.Errorf("in the folder: %v, %v", left, err)
			}
		})
	}
}
