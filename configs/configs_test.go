package configs_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"hermes/configs"
)

// grammar has a flag of every type.
type grammar struct {
	Config string `short:"c"`
	Preset string
	Batch  struct {
		Concurrency int               `default:"64" aliases:"in-flight" range:"1:100000"`
		Temperature *float64          `range:"0:2"`
		Timeout     time.Duration     `range:"1s:"`
		Memory      configs.Size      `default:"2GB" range:"64MiB:"`
		Progress    string            `default:"auto" enum:"auto,bar,plain,none"`
		Strict      bool              `negatable:""`
		Model       string            ``
		Toolsets    []string          ``
		Stop        []string          `sep:"none"`
		Ports       []int             `range:"1:65535"`
		Map         map[string]string ``
		JSON        bool              `name:"json" nokey:""`
		Retries     int               `default:"2"`
	} `cmd:""`
	Eval struct {
		Suite string
	} `cmd:""`
}

type world struct {
	t    *testing.T
	home string
	run  string
	env  []string
	args []string
}

// load runs the layers as the command line does.
func (w world) load() (*grammar, *configs.Layers, *kong.Context, error) {
	w.t.Helper()
	env, err := configs.NewEnv(append([]string{"HERMES_HOME=" + w.home}, w.env...))
	if err != nil {
		return nil, nil, nil, err
	}
	var g grammar
	k, err := kong.New(&g, kong.Name("hermes"), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		w.t.Fatal(err)
	}
	args := append([]string{"batch"}, w.args...)
	trace, err := kong.Trace(k, args)
	if err != nil || trace.Error != nil {
		w.t.Fatal(err, trace.Error)
	}
	l, err := configs.Load(configs.Options{App: k.Model, Command: trace.Selected(), Env: env, RunFile: w.run, Secrets: configs.Redact(env)})
	if err != nil {
		return nil, nil, nil, err
	}
	k, err = kong.New(&g, kong.Resolvers(l))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, err := k.Parse(args)
	if err == nil {
		err = configs.CheckRanges(ctx)
	}
	return &g, l, ctx, err
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLayersInOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "config.yaml", "concurrency: 3\nretries: 7\nmodel: user\nprogress: none\n")
	write(t, dir, ".env", "HERMES_PROGRESS=plain\nHERMES_MODEL=dotenv\n")
	run := write(t, dir, "run.yaml", "preset: trial\nin-flight: 5\nmodel: run\n")
	w := world{t: t, home: dir, run: run, env: []string{"HERMES_MODEL=env"}, args: []string{"--concurrency", "9"}}
	g, l, ctx, err := w.load()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]configs.Setting{}
	for _, s := range l.Settings(ctx) {
		got[s.Name] = s
	}
	for name, want := range map[string][2]string{
		"concurrency": {"9", "flag --concurrency"},
		"model":       {"env", "environment HERMES_MODEL"},
		"progress":    {"plain", "environment " + filepath.Join(dir, ".env") + ":1"},
		"retries":     {"7", "user " + filepath.Join(dir, "config.yaml") + ":2"},
		"preset":      {"trial", "run file " + run + ":1"},
		"memory":      {"2GB", "default default"},
	} {
		if s := got[name]; s.Value != want[0] || string(s.Layer)+" "+s.Source != want[1] {
			t.Errorf("%s is %q from %s %s, want %v", name, s.Value, s.Layer, s.Source, want)
		}
	}
	if g.Batch.Concurrency != 9 || g.Batch.Model != "env" || g.Batch.Retries != 7 || g.Batch.Progress != "plain" || g.Batch.Memory != 2e9 {
		t.Errorf("kong got %+v", g.Batch)
	}
	w.args, w.run = nil, write(t, dir, "low.yaml", "preset: trial\n")
	os.Remove(filepath.Join(dir, "config.yaml"))
	g, _, _, err = w.load()
	if err != nil || g.Batch.Concurrency != 4 || g.Batch.Retries != 0 {
		t.Errorf("the preset alone: %+v, %v", g, err)
	}
}

func TestTypes(t *testing.T) {
	dir := t.TempDir()
	run := write(t, dir, "run.yaml", `
concurrency: 1_000
temperature: 0.7
timeout: 90s
memory: 512MiB
strict: true
model: 7b
toolsets: [terminal, "a,b"]
stop: "x,y"
ports: [80, 443]
map: {prompt: question, id: name}
`)
	g, l, _, err := (world{t: t, home: dir, run: run}).load()
	if err != nil {
		t.Fatal(err)
	}
	b := g.Batch
	if b.Concurrency != 1000 || *b.Temperature != 0.7 || b.Timeout != 90*time.Second || b.Memory != 512<<20 || !b.Strict || b.Model != "7b" ||
		strings.Join(b.Toolsets, "|") != "terminal|a,b" || strings.Join(b.Stop, "|") != "x,y" || len(b.Ports) != 2 || b.Ports[1] != 443 ||
		b.Map["prompt"] != "question" || len(b.Map) != 2 {
		t.Errorf("%+v", b)
	}
	if v, ok := l.Given("map"); !ok || v != "id=name;prompt=question" {
		t.Errorf("map as text: %q", v)
	}
	if _, ok := l.Given("retries"); ok {
		t.Error("retries was not given")
	}
}

// TestBadRunFiles is the list of what must stop a run before it starts, with the words
// that name the culprit.
func TestBadRunFiles(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'h'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+p+",", 10), ",") + "]\n"
	}
	tests := []struct {
		name, in string
		want     []string
	}{
		{"typo", "model: x\nin_flite: 2\n", []string{":2:", "unknown key in_flite", "did you mean in-flight?"}},
		{"underscore", "in_flight: 2\n", []string{":1:", "did you mean in-flight?"}},
		{"nothing near", "zzzzzzzz: 1\n", []string{"unknown key zzzzzzzz"}},
		{"section typo", "backend-s: {}\n", []string{"did you mean backends?"}},
		{"key of another command", "suite: x\n", []string{"suite belongs to hermes eval"}},
		{"the run file in itself", "config: other.yaml\n", []string{"config can only be given as a flag"}},
		{"text for a number", "concurrency: many\n", []string{":1:", "concurrency: want an integer", "many"}},
		{"quoted number", "concurrency: \"8\"\n", []string{"want an integer"}},
		{"fraction", "concurrency: 8.5\n", []string{"want an integer", "8.5"}},
		{"too large", "concurrency: 99999999999999999999\n", []string{"concurrency"}},
		{"list for a number", "concurrency: [8]\n", []string{"got a list"}},
		{"mapping for text", "model: {name: x}\n", []string{"model: want text, got a mapping"}},
		{"nothing", "model:\n", []string{"model: want text, got nothing"}},
		{"yes for a boolean", "strict: yes\n", []string{"want true or false", "yes"}},
		{"boolean for text", "model: true\n", []string{"want text"}},
		{"duration without unit", "timeout: 60\n", []string{"unit such as 60s"}},
		{"bad duration", "timeout: soon\n", []string{"timeout", "soon"}},
		{"bad size", "memory: 2XB\n", []string{"memory", "2XB"}},
		{"enum", "progress: bra\n", []string{`"bra" is none of auto, bar, plain, none`, "did you mean bar?"}},
		{"below the range", "concurrency: 0\n", []string{"0 is out of range (1 to 100000)"}},
		{"above the range", "temperature: 2.5\n", []string{"2.5 is out of range (0 to 2)"}},
		{"not a number", "temperature: .nan\n", []string{"want a number, got the number .nan"}},
		{"short duration", "timeout: 10ms\n", []string{"out of range (1s or more)"}},
		{"small memory", "memory: 1MB\n", []string{"out of range (64MiB or more)"}},
		{"bad item", "ports: [80, x]\n", []string{"ports: item 2: want an integer"}},
		{"item out of range", "ports: [80, 0]\n", []string{"item 2: 0 is out of range"}},
		{"text for a mapping value", "map: {a: [1]}\n", []string{"map: a: want text, got a list"}},
		{"twice", "model: a\nretries: 1\nmodel: b\n", []string{":3:", "key model is given twice (first in line 1)"}},
		{"twice below", "backends:\n  docker: {}\n  docker: {}\n", []string{":3:", "docker is given twice"}},
		{"twice by alias", "concurrency: 1\nin-flight: 2\n", []string{":2:", "concurrency and in-flight are the same setting"}},
		{"tab", "backends:\n\tdocker: {}\n", []string{":2:", "tab"}},
		{"bracket", "toolsets: [a, b\n", []string{"run.yaml:"}},
		{"two documents", "model: a\n---\nmodel: b\n", []string{"second document"}},
		{"byte order mark", "\xef\xbb\xbfmodel: a\n", []string{":1:", "byte order mark"}},
		{"UTF-16", "\xff\xfem\x00", []string{"UTF-16"}},
		{"not UTF-8", "model: a\nmap: \xff\n", []string{":2:", "not UTF-8"}},
		{"NUL", "model: a\x00\n", []string{"NUL"}},
		{"a list at the top", "- model\n", []string{"want keys and values at the top, got a list"}},
		{"text at the top", "model\n", []string{"want keys and values"}},
		{"list as a key", "? [a]\n: b\n", []string{"a key must be a word"}},
		{"alias bomb", bomb, []string{"aliases"}},
		{"alias of itself", "a: &a [*a]\n", []string{"run.yaml:1"}},
		{"unknown alias", "model: *x\n", []string{"x"}},
		{"too deep", "envs: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n", []string{"nested deeper"}},
		{"too long", "model: " + strings.Repeat("x", 2<<20), []string{"longer than"}},
		{"secret key", "api-key: hunter22\n", []string{":1:", "api-key looks like a secret", ".env"}},
		{"secret below", "backends:\n  modal:\n    token_secret: hunter22\n", []string{":3:", "backends.modal.token_secret"}},
		{"secret by shape", "model: sk-abcdefghijklmnopqrstuvwxyz\n", []string{"model holds what looks like a secret"}},
		{"secret of the environment", "model: hunter22\n", []string{"model holds what looks like a secret"}},
		{"unknown preset", "preset: trail\n", []string{":1", `no preset "trail"`, "did you mean trial?"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			run := write(t, dir, "run.yaml", tt.in)
			_, _, _, err := (world{t: t, home: dir, run: run, env: []string{"OPENAI_API_KEY=hunter22"}}).load()
			if err == nil {
				t.Fatal("accepted")
			}
			if !configs.IsError(err) {
				t.Errorf("not a configuration error: %T", err)
			}
			for _, want := range append(tt.want, "run.yaml") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			for _, secret := range []string{"hunter22", "sk-abcdef"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q tells a secret", err)
				}
			}
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	dir := t.TempDir()
	run := write(t, dir, "run.yaml", "in_flite: 1\nretries: x\n")
	_, _, _, err := (world{t: t, home: dir, run: run, env: []string{"HERMES_TIMEOUT=60", "HERMES_STRICT=maybe"}}).load()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"run.yaml:1", "run.yaml:2", "HERMES_TIMEOUT: timeout: want a duration", "HERMES_STRICT"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if _, _, _, err := (world{
		t:    t,
		home: dir,
		args: []string{"--concurrency", "0"},
	}).load(); err == nil || err.Error() != "--concurrency: 0 is out of range (1 to 100000)" {
		t.Errorf("a flag out of range: %v", err)
	}
	for _, path := range []string{filepath.Join(dir, "none.yaml"), dir} {
		if _, _, _, err := (world{t: t, home: dir, run: path}).load(); !configs.IsError(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestForeignKeys: the user's file and the names of variables are shared with other
// programs, so what is unknown there is a warning.
func TestForeignKeys(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "config.yaml", "model:\n  default: x\ndisplay: {skin: y}\nmax_retries: 3\nin_flight: 3\n")
	_, l, _, err := (world{t: t, home: dir, env: []string{"HERMES_MODLE=x", "HERMES_YOLO_MODE=1"}}).load()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(l.Warnings(), "\n")
	for _, want := range []string{
		"model, display",
		"in_flight is ignored (did you mean in-flight?)",
		"HERMES_MODLE",
		"did you mean HERMES_MODEL?",
		"HERMES_YOLO_MODE",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	write(t, dir, "config.yaml", "concurrency: 0\n")
	if _, _, _, err := (world{
		t:    t,
		home: dir,
	}).load(); !configs.IsError(err) || !strings.Contains(err.Error(), "config.yaml:1: concurrency: 0 is out of range") {
		t.Errorf("a key of ours in the user's file is strict: %v", err)
	}
}

func TestSections(t *testing.T) {
	type docker struct {
		Image  string             `yaml:"image"`
		Slots  int                `yaml:"slots"`
		Limits struct{ Disk int } `yaml:"limits"`
	}
	dir := t.TempDir()
	run := write(t, dir, "run.yaml",
		"model: x\n\n# boxes\nbackends:\n  docker:\n    image: a\n    # more\n    slots: 3\n\n  dokcer:\n    imgae: b\n    limits:\n\n      disk: much\n")
	_, l, _, err := (world{t: t, home: dir, run: run}).load()
	if err != nil {
		t.Fatal(err)
	}
	s := l.Section("backends")
	var d docker
	if err := s.Sub("docker").Decode(&d); err != nil || d.Image != "a" || d.Slots != 3 {
		t.Errorf("%+v, %v", d, err)
	}
	err = s.Sub("dokcer").Decode(&d)
	if err == nil || !strings.Contains(err.Error(), "run.yaml:11: unknown key imgae in backends.dokcer (did you mean image?)") ||
		!strings.Contains(err.Error(), "run.yaml:14: backends.dokcer: want int, got str much") {
		t.Errorf("strict: %v", err)
	}
	if err := s.OnlyKeys([]string{
		"docker",
		"namespace",
	}); err == nil || !strings.Contains(err.Error(), "run.yaml:10: unknown key backends.dokcer (did you mean docker?)") {
		t.Errorf("OnlyKeys: %v", err)
	}
	if got := strings.Join(s.Keys(), " "); got != "docker dokcer" {
		t.Errorf("keys %q", got)
	}
	if err := l.Section("prices").Decode(&d); err != nil || l.Section("prices").Node != nil {
		t.Errorf("an absent section: %v", err)
	}
}

// TestAddressesOfSections: an address in a section holds no query, but for that of a file which
// others fetch, where it holds no secret.
func TestAddressesOfSections(t *testing.T) {
	for _, tt := range []struct{ line, bad string }{
		{"artifact: https://h/slotd.tar.gz?checksum=sha256:00&archive=tar.gz", ""},
		{"artifact: https://h/slotd.tar.gz?token=w0rd", "may be a secret"},
		{"artifact: https://u:w0rd@h/slotd.tar.gz?checksum=sha256:00", "a user or password"},
		{"address: http://h:4646?checksum=sha256:00", "a query"},
	} {
		dir := t.TempDir()
		_, _, _, err := (world{t: t, home: dir, run: write(t, dir, "run.yaml", "model: x\nbackends:\n  nomad:\n    "+tt.line+"\n")}).load()
		if (err != nil) != (tt.bad != "") || err != nil && (!strings.Contains(err.Error(), tt.bad) || !strings.Contains(err.Error(), "run.yaml:4") ||
			strings.Contains(err.Error(), "w0rd")) {
			t.Errorf("%s: %v", tt.line, err)
		}
	}
}

func TestDotEnv(t *testing.T) {
	got, err := configs.ParseDotEnv(".env", []byte("# keys\nexport A=1\nB = two words # c\nC='x # y'\nD=\"a\\nb\\\"\" # d\nE=\nF=a#b\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"A=1", "B=two words", "C=x # y", "D=a\nb\"", "E=", "F=a#b"}
	for i, e := range got {
		if s := e.Name + "=" + e.Value; s != want[i] {
			t.Errorf("%q, want %q", s, want[i])
		}
	}
	for _, bad := range []string{"hunter22", "A B=hunter22", "A='hunter22", "A=\"hunter22\" x", "1A=hunter22", "A=\x00hunter22"} {
		_, err := configs.ParseDotEnv(".env", []byte("OK=1\n"+bad+"\n"))
		if err == nil || !strings.Contains(err.Error(), ".env:2") || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("a: 1\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := configs.Read("f", raw)
		var e *configs.Error
		if err != nil && (!errors.As(err, &e) || d != nil) {
			t.Fatalf("%q: %T %v", raw, err, err)
		}
	})
}

func FuzzDotEnv(f *testing.F) {
	f.Add("A=\"x\\n\"\nexport B='y'\n")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := configs.ParseDotEnv("f", []byte(text))
		if err != nil && !configs.IsError(err) {
			t.Fatalf("%q: %v", text, err)
		}
		for _, e := range entries {
			if e.Name == "" || strings.Contains(e.Name, "=") {
				t.Fatalf("%q: name %q", text, e.Name)
			}
		}
	})
}

func TestSecretNames(t *testing.T) {
	for _, n := range []string{"OPENAI_API_KEY", "api-key", "apiKey", "HF_TOKEN", "token", "DB_PASSWORD", "client_secret", "AWS_ACCESS_KEY", "Authorization"} {
		if !configs.SecretName(n) {
			t.Errorf("%s is one", n)
		}
	}
	for _, n := range []string{"", "api-key-env", "max-tokens", "tokenizer", "eos_token", "prompt-key", "budget-tokens", "keyboard", "monkey", "secretary"} {
		if configs.SecretName(n) {
			t.Errorf("%s is none", n)
		}
	}
}

type carrier struct{ Inner map[string]string }

func TestRedaction(t *testing.T) {
	env, err := configs.NewEnv([]string{`OPENAI_API_KEY=hunter22"x/y`, "MY_VAR=other-secret", "SHORT_TOKEN=ab", "PLAIN=visible",
		"HTTPS_PROXY=http://me:pr0xyword@h:1"})
	if err != nil {
		t.Fatal(err)
	}
	r := configs.Redact(env, "MY_VAR")
	r.Add("made-at-start")
	const secret = `hunter22"x/y`
	for _, format := range []string{"text", "json"} {
		var buf bytes.Buffer
		var h slog.Handler = slog.NewTextHandler(&buf, nil)
		if format == "json" {
			h = slog.NewJSONHandler(&buf, nil)
		}
		log := slog.New(r.Handler(h)).With("with", secret).WithGroup("g")
		log.Info("key is "+secret, "err", errors.New("401 for "+secret), "map", carrier{map[string]string{"k": secret}}, "bytes", []byte(secret),
			slog.Group("deep", "url", "http://x/?k=hunter22%22x%2Fy"), "api_key", "shorty", "var", "other-secret", "made", "made-at-start", "nil", nil,
			"proxy", "it wants pr0xyword", "other", "http://who:unkn0wn@h/v1 and http://h/?api_key=unkn0wn",
			"shape", "sk-abcdefghijklmnopqrstuvwx", "plain", "visible", "ab", "ab", slog.Any("ptr", &carrier{map[string]string{"k": secret}}))
		out := buf.String()
		for _, bad := range []string{"hunter22", "other-secret", "made-at-start", "shorty", "sk-abc", "aHVudGVy", "pr0xyword", "unkn0wn"} {
			if strings.Contains(out, bad) {
				t.Errorf("%s: %q reached the log: %s", format, bad, out)
			}
		}
		if !strings.Contains(out, "visible") || !strings.Contains(out, "401 for") {
			t.Errorf("%s: too much was hidden: %s", format, out)
		}
	}
	var buf bytes.Buffer
	if n, err := r.Writer(&buf).Write([]byte("a " + secret + " b")); n != len(secret)+4 || err != nil || buf.String() != "a "+configs.Hidden+" b" {
		t.Errorf("Writer: %d, %v, %q", n, err, buf.String())
	}
	var none *configs.Redactor
	if none.Knows("x") || none.String("x") != "x" {
		t.Error("a nil Redactor knows nothing")
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]configs.Size{
		"0":                   0,
		"1024":                1024,
		"2GB":                 2e9,
		"2 gb":                2e9,
		"512MiB":              512 << 20,
		"1.5GiB":              3 << 29,
		"4k":                  4096,
		"9223372036854775807": 1<<63 - 1,
	} {
		var s configs.Size
		if err := s.UnmarshalText([]byte(in)); err != nil && in != "9223372036854775807" || err == nil && s != want {
			t.Errorf("%q is %d, %v", in, s, err)
			continue
		}
		var again configs.Size
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%q → %s → %d, %v", in, s, again, err)
		}
	}
	for _, bad := range []string{"", "GB", "-1", "2XB", "1e9", "1..2", "99999999TB", "∞"} {
		var s configs.Size
		if err := s.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is %d", bad, s)
		}
	}
}

func TestPresetsAreRunFiles(t *testing.T) {
	if len(configs.Presets()) < 3 {
		t.Error("presets are missing")
	}
	for _, name := range configs.Presets() {
		if _, err := configs.Preset(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
