package cmd_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hermes/cmd"
	"hermes/configs"
)

// hidden is the secret of the addresses of these tests.
const hidden = "c4naryInUrl"

// withSecrets are addresses that hold one, also in ways that no parser of URLs takes.
func withSecrets() []string {
	return []string{
		"http://user:" + hidden + "@127.0.0.1:9/v1",
		"http://" + hidden + "@127.0.0.1:9/v1",
		"http://127.0.0.1:9/v1?api_key=" + hidden,
		"https://u:50%" + hidden + "@127.0.0.1:9",
		"https://u:a/b?" + hidden + "@127.0.0.1:9",
		" http://u:" + hidden + "@127.0.0.1:9/v1 ",
		"name=model@http://u:" + hidden + "@127.0.0.1:9/v1",
	}
}

// TestEveryOptionRefusesSecretAddresses tries all options and arguments of all commands: an
// address with a secret is refused before anything begins, and the secret is not shown. Only
// text that is for a model or a program is left alone. An option that is new is tried, too.
func TestEveryOptionRefusesSecretAddresses(t *testing.T) {
	home := t.TempDir()
	all, err := cmd.Options()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	refused := 0
	free := map[string]bool{}
	for path, list := range all {
		words := strings.Fields(path)
		for i, w := range words {
			if strings.HasPrefix(w, "<") || strings.HasPrefix(w, "[") {
				words = words[:i]
				break
			}
		}
		for _, v := range list {
			kind := v.Target.Kind()
			if v.Target.Kind() == reflect.Pointer {
				kind = v.Target.Type().Elem().Kind()
			}
			if kind != reflect.String && kind != reflect.Slice && kind != reflect.Map || v.Enum != "" {
				continue // what is no text cannot hold one
			}
			for _, address := range []string{withSecrets()[tried%len(withSecrets())]} {
				args := slices.Clone(words)
				name := "--" + v.Name
				if v.Flag != nil {
					args = append(args, name+"="+address)
				} else {
					name = "<" + v.Name + ">"
				}
				for _, p := range list {
					switch {
					case p.Flag != nil:
					case p == v && p.Passthrough:
						args = append(args, "--", address)
					case p == v:
						args = append(args, address)
					case p.Required && p.Passthrough:
						args = append(args, "--", "true")
					case p.Required && p.Enum != "":
						args = append(args, strings.Split(p.Enum, ",")[0])
					case p.Required:
						args = append(args, "x")
					}
				}
				place := strings.Join(words, " ") + "." + name
				if configs.FreeText(place) {
					free[place] = true
					continue
				}
				tried++
				code, out, said := cmd.Run(t.Context(), []string{"HERMES_HOME=" + home}, nil, cmd.Builtin(), args...)
				if code != cmd.ExitUsage || strings.Contains(out+said, hidden) {
					t.Errorf("%q: exit %d, %s%s", args, code, out, said)
				}
				if strings.Contains(said, "does not belong into an address") {
					refused++
				}
			}
		}
	}
	for _, place := range configs.FreeTexts() {
		if !free[place] {
			t.Errorf("%s is excused and no option", place)
		}
	}
	t.Logf("%d command lines of %d commands: %d refused for the address, the others for their form; %d options are free text",
		tried, len(all), refused, len(free))
	if tried < 200 || refused < tried/2 {
		t.Errorf("%d of %d command lines were refused for the address", refused, tried)
	}
	// An address without a secret is an address.
	if _, _, said := cmd.Run(t.Context(), []string{"HERMES_HOME=" + home}, nil, cmd.Builtin(), "batch", "x", "--base-url=http://127.0.0.1:9/v1"); strings.Contains(said, "belong into") {
		t.Error(said)
	}
}

// TestSecretAddressesOfFilesAndVariables does the same for the layers below the command line,
// the sections of the files and the variables of other programs.
func TestSecretAddressesOfFilesAndVariables(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	write(t, rows, `{"id":"a","prompt":"x"}`+"\n")
	line := []string{"batch", rows, "--model", "scripted", "--out", filepath.Join(t.TempDir(), "out")}
	tests := []struct {
		name, user, run, file string
		env, args             []string
	}{
		{name: "run file", run: "base-url: @@\n"},
		{name: "run file, list", run: "base-url: [http://127.0.0.1:9/v1, '@@']\n"},
		{name: "user's file", user: "base-url: @@\n"},
		{name: "variable", env: []string{"HERMES_BASE_URL=@@"}},
		{name: "dotenv", file: "HERMES_BASE_URL='@@'\n"},
		{name: "section docker", run: "backends: {docker: {host: '@@'}}\n"},
		{name: "section nomad", user: "backends: {nomad: {address: '@@'}}\n"},
		{name: "section modal", run: "backends: {modal: {server: '@@'}}\n"},
		{name: "section envs", run: "envs: {web: {url: '@@'}}\n"},
		{name: "section training", user: "training: {keep: '@@'}\n"},
		{name: "HF_ENDPOINT", env: []string{"HF_ENDPOINT=@@", "HF_HUB_CACHE=" + t.TempDir()}, args: []string{"data", "show", "hf:owner/name"}},
		{
			name: "WANDB_BASE_URL",
			env:  []string{"WANDB_BASE_URL=@@", "WANDB_API_KEY=" + strings.Repeat("a", 40)},
			args: append(line, "--backend", "local", "--wandb", "online"),
		},
		{name: "DOCKER_HOST", env: []string{"DOCKER_HOST=@@"}, args: append(line, "--backend", "docker")},
		{name: "NOMAD_ADDR", run: "backends: {nomad: {slotd: /x}}\n", env: []string{"NOMAD_ADDR=@@"}, args: append(line, "--backend", "nomad")},
		{
			name: "MODAL_SERVER_URL",
			env:  []string{"MODAL_SERVER_URL=@@", "MODAL_TOKEN_ID=ak-1", "MODAL_TOKEN_SECRET=as-1"},
			args: append(line, "--backend", "modal"),
		},
		{name: "lines of a file", file: "", args: []string{"batch", rows, "--model", "m", "--base-url", "@file"}},
	}
	for _, tt := range tests {
		for _, address := range withSecrets()[:6] {
			home := t.TempDir()
			put := func(name, text string) string {
				file := filepath.Join(home, name)
				write(t, file, strings.ReplaceAll(text, "@@", address))
				return file
			}
			if tt.user != "" {
				put("config.yaml", tt.user)
			}
			if tt.file != "" {
				put(".env", tt.file)
			}
			args := tt.args
			if args == nil {
				args = line
			}
			if tt.run != "" {
				args = append(args[:len(args):len(args)], "-c", put("run.yaml", tt.run))
			}
			env := []string{"HERMES_HOME=" + home, "HOME=" + home}
			for _, v := range tt.env {
				name, value, _ := strings.Cut(v, "=")
				if value == "@@" {
					value = address
				}
				env = append(env, name+"="+value)
			}
			for i, a := range args {
				if a == "@file" {
					args = append(args[:i:i], "@"+put("urls", "@@\n"))
				}
			}
			code, out, said := cmd.Run(t.Context(), env, nil, cmd.Builtin(), args...)
			if code != cmd.ExitUsage || strings.Contains(out+said, hidden) || !strings.Contains(said, "does not belong into an address") {
				t.Errorf("%s, %s: exit %d, %s%s", tt.name, address, code, out, said)
			}
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
