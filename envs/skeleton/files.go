package skeleton

import (
	_ "embed"
	"fmt"
	"go/token"
	"strings"

	"hermes/internal/late"
)

//go:embed skeleton.go
var code string

//go:embed skeleton_test.go
var test string

var plainName = late.Regexp(`^[a-z][a-z0-9]{1,30}$`)

// Files returns the sources of a new environment called name, by file name.
func Files(name string) (map[string]string, error) {
	if !plainName.MatchString(name) || token.IsKeyword(name) {
		return nil, fmt.Errorf("name %q: want 2 to 31 lower-case letters and digits, a letter first, and no word of Go", name)
	}
	code := strings.Replace(code, " `hermes\n// env new NAME` copies it; replace", " Replace", 1)
	return map[string]string{name + ".go": strings.ReplaceAll(code, "skeleton", name), name + "_test.go": strings.ReplaceAll(test, "skeleton", name)}, nil
}
