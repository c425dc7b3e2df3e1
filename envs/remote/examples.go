package remote

import (
	_ "embed" // the examples
	"fmt"
	"strings"

	"hermes/internal/late"
	"hermes/python"
)

//go:embed examples/hello.py
var helloPython string

//go:embed examples/hello.js
var helloJavaScript string

//go:embed examples/hello.go
var helloGo string

//go:embed examples/hello.sh
var helloShell string

// Languages are those of which [Files] has an environment.
func Languages() []string { return []string{"python", "javascript", "go", "shell"} }

var scriptName = late.Regexp(`^[A-Za-z][A-Za-z0-9_-]{0,40}$`)

// Files are the sources of a new environment in a language, by file name, and the name of
// the file that is the environment.
func Files(language, name string) (files map[string]string, main string, err error) {
	if !scriptName.MatchString(name) {
		return nil, "", fmt.Errorf("name %q: want letters, digits, - and _, a letter first", name)
	}
	files = map[string]string{}
	hello := ""
	switch language {
	case "python":
		main, hello = name+".py", helloPython
		files["hermes_env.py"] = python.Env
	case "javascript":
		main, hello = name+".js", helloJavaScript
	case "go":
		main, hello = name+".go", helloGo
	case "shell":
		main, hello = name+".sh", helloShell
	default:
		return nil, "", fmt.Errorf("language %q: want one of %s", language, strings.Join(Languages(), ", "))
	}
	if _, taken := files[main]; taken {
		return nil, "", fmt.Errorf("name %q: %s is the file that it uses", name, main)
	}
	files[main] = hello
	return files, main, nil
}
