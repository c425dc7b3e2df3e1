package skeleton_test

import (
	"go/format"
	"path/filepath"
	"testing"

	"hermes/envs/skeleton"
)

// What env new writes is as gofmt wants it, whatever the name and the import path.
func TestFilesAreFormatted(t *testing.T) {
	for name, path := range map[string]string{"repeat": "repeat", "aa": "aa", "zebra": "example.org/zebra", "mine": "hermes/envs/mine", "averyveryverylongname": "hermes/x"} {
		files, err := skeleton.Files(name, path)
		if err != nil {
			t.Fatal(err)
		}
		module, err := skeleton.Module(name, filepath.Join("..", ".."))
		if err != nil {
			t.Fatal(err)
		}
		files["cmd/hermes/main.go"] = module["cmd/hermes/main.go"]
		for file, code := range files {
			want, err := format.Source([]byte(code))
			if err != nil || string(want) != code {
				t.Errorf("%s is not formatted: %v\n%s", file, err, code)
			}
		}
	}
}
