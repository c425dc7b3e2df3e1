package skeleton

import (
	_ "embed"
	"errors"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hermes/internal/late"
)

//go:embed skeleton.go
var code string

//go:embed skeleton_test.go
var test string

var plainName = late.Regexp(`^[a-z][a-z0-9]{1,30}$`)

// CheckName reports whether an environment cannot be called name.
func CheckName(name string) error {
	if !plainName.MatchString(name) || token.IsKeyword(name) {
		return fmt.Errorf("name %q: want 2 to 31 lower-case letters and digits, a letter first, and no word of Go", name)
	}
	return nil
}

// Files returns the sources of a new environment called name, by file name. path is the
// import path that the package will have.
func Files(name, path string) (map[string]string, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	code := strings.Replace(code, " `hermes\n// env new NAME` copies it; replace", " Replace", 1)
	test := strings.ReplaceAll(test, `"hermes/envs/skeleton"`, strconv.Quote(path))
	return map[string]string{name + ".go": strings.ReplaceAll(code, "skeleton", name), name + "_test.go": strings.ReplaceAll(test, "skeleton", name)}, nil
}

const program = `// Command hermes is hermes with the environment of this module.
package main

import (
	"context"
	"os"

	"hermes/cmd"

	%[2]q
)

func main() {
	parts := cmd.Builtin()
	parts.Envs = append(parts.Envs, %[1]s.Kind)
	os.Exit(cmd.Main(context.Background(), os.Args, parts))
}
`

// Module returns the sources of a module called name that holds the environment: those of
// [Files], go.mod, go.sum, and a main package that is hermes with the environment. hermes is
// not published, so go.mod replaces it by the folder checkout.
func Module(name, checkout string) (map[string]string, error) {
	files, err := Files(name, name)
	if err != nil {
		return nil, err
	}
	files["go.mod"], files["go.sum"], err = Requirements(name, checkout, checkout)
	if err != nil {
		return nil, err
	}
	files["cmd/hermes/main.go"] = fmt.Sprintf(program, name, name)
	return files, nil
}

// ErrNoCheckout says that a folder does not hold the sources of hermes.
var ErrNoCheckout = errors.New("not a checkout of hermes")

// Requirements returns go.mod and go.sum of a module called name that uses the sources of
// hermes in the folder checkout and reaches them by the path replace. The modules that hermes
// needs are required at its own versions, so that nothing has to be resolved; `go mod tidy`
// makes the list short.
func Requirements(name, checkout, replace string) (mod, sum string, err error) {
	own, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	rest, found := strings.CutPrefix(string(own), "module hermes\n")
	if err != nil || !found {
		return "", "", fmt.Errorf("%s: %w: want a folder whose go.mod begins with \"module hermes\"", checkout, ErrNoCheckout)
	}
	sums, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		return "", "", err
	}
	if strings.ContainsAny(replace, " \t\"'`()[]{},;") || !strings.HasPrefix(replace, ".") && !filepath.IsAbs(replace) {
		replace = strconv.Quote(replace)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module %s\n", name)
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "tool ") { // programs that only changes of hermes need
			continue
		}
		b.WriteString(line)
	}
	text := strings.TrimRight(b.String(), "\n")
	return fmt.Sprintf("%s\n\nrequire hermes v0.0.0\n\n// hermes is not published: this is the folder of its sources.\nreplace hermes => %s\n", text, replace), string(sums), nil
}
