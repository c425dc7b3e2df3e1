package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// canaries are the secrets that hermes can hold, by where they are kept. Each has characters
// that JSON, URLs and shells write in other ways.
func canaries() map[string]string {
	out := map[string]string{}
	for i, name := range []string{
		"OPENAI_API_KEY", "JUDGE_KEY", "HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET",
		"NOMAD_TOKEN", "GITHUB_TOKEN", "DATABASE_PASSWORD", "RUN_API_TOKEN", "proxy password", "docker password", ".env OPENROUTER_API_KEY", ".env PLAIN_SECRET",
	} {
		out[name] = fmt.Sprintf("cNrY%02dq7/Zx&k+%dw=t", i, 7919*(i+3))
		if name == "RUN_API_TOKEN" || name == "proxy password" {
			out[name] = fmt.Sprintf("cNrY%02dq7Zx-k_%dwt", i, 7919*(i+3)) // part of a path, and of a URL
		}
	}
	return out
}

// forms are the ways in which a text may be written.
func forms(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	all := map[string]string{
		"plain": secret,
		"JSON":  strings.Trim(string(quoted), `"`),
		"query": url.QueryEscape(secret),
		"path":  url.PathEscape(secret),
		"hex":   hex.EncodeToString([]byte(secret)),
		"HEX":   strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for shift := range 3 { // whatever comes before it
		in := append(bytes.Repeat([]byte{'x'}, shift), secret...)
		for name, e := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := e.EncodeToString(in)
			all[fmt.Sprint(name, shift)] = text[(shift*8+5)/6 : len(text)-2] // only what its neighbours do not change
		}
	}
	return all
}

// search gives what it finds of the secrets: name and form.
func search(text []byte, secrets map[string]string) (found []string) {
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		for form, written := range forms(secrets[name]) {
			if bytes.Contains(text, []byte(written)) {
				found = append(found, name+" as "+form)
			}
		}
	}
	return found
}

// shown is a text that is no secret; each door must show it, or the search proves nothing.
const shown = "m4rkerOfTheRow"

// doors collects what each way out has shown.
type doors struct {
	t   *testing.T
	mu  sync.Mutex
	all map[string]*bytes.Buffer
}

func (d *doors) add(name string, text []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[name] == nil {
		d.all[name] = &bytes.Buffer{}
	}
	d.all[name].Write(text)
	d.all[name].WriteByte('\n')
}

// files adds all files below a folder, each kind as a door; what is packed is unpacked.
func (d *doors) files(dir string, left func(path string) bool) {
	d.t.Helper()
	z, err := zstd.NewReader(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	defer z.Close()
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || left(path) {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := "file " + filepath.Base(path)
		if filepath.Ext(path) != "" {
			name = "file *" + filepath.Ext(path)
		}
		d.add(name, append([]byte(path+"\n"), raw...))
		for rest := raw; ; {
			i := bytes.Index(rest, []byte("\x28\xb5\x2f\xfd"))
			if i < 0 {
				return nil
			}
			rest = rest[i:]
			if plain, err := z.DecodeAll(rest, nil); err == nil || len(plain) > 0 {
				d.add(name+", unpacked", plain)
			}
			rest = rest[4:]
		}
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// echoing is a model server that sends the key back in all ways there are. It notes the keys.
func echoing(t *testing.T) (base string, keys func() []byte) {
	var mu sync.Mutex
	var seen bytes.Buffer
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		mu.Lock()
		seen.WriteString(key + "\n")
		mu.Unlock()
		quoted, _ := json.Marshal(key)
		way, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if strings.HasSuffix(r.URL.Path, "/models") && way == "names" {
			fmt.Fprintf(w, `{"object":"list","data":[{"id":"m","object":"model"},{"id":%s,"object":"model","owned_by":%s}]}`, quoted, quoted)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/models") && way != "list" {
			fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model","max_model_len":32768}]}`)
			return
		}
		switch way {
		case "body", "list":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"%s: no key %s, base64 %s","type":"x","code":"y"}}`, shown,
				strings.Trim(string(quoted), `"`), base64.StdEncoding.EncodeToString([]byte(key)))
		case "refused":
			w.Header().Set("X-Request-Key", key)
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+key+`"`)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, "Incorrect API key provided: %s %s", key, url.QueryEscape(key))
		case "redirect":
			http.Redirect(w, r, "http://127.0.0.1:9/?key="+url.QueryEscape(key), http.StatusTemporaryRedirect)
		case "sse":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"error\":{\"message\":%s,\"code\":500}}\n\n", quoted)
		case "garbage":
			fmt.Fprintf(w, "<html>%s %s</html>", key, hex.EncodeToString([]byte(key)))
		case "content", "thoughts", "calls", "encoded", "names":
			answers(w, r, way, key)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []byte { mu.Lock(); defer mu.Unlock(); return bytes.Clone(seen.Bytes()) }
}

// answers says the key in an answer that is one, with status 200: in pieces where they are asked for.
func answers(w http.ResponseWriter, r *http.Request, way, key string) {
	var asked struct{ Stream bool }
	_ = json.NewDecoder(r.Body).Decode(&asked) // else it is answered whole
	text := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	says := map[string]func(string) string{
		"content":  func(s string) string { return `"content":` + text(s) },
		"names":    func(s string) string { return `"content":` + text(s) },
		"encoded":  func(s string) string { return `"content":` + text(s) },
		"thoughts": func(s string) string { return `"content":"","reasoning_content":` + text(s) },
		"calls": func(s string) string {
			return `"content":"","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"terminal","arguments":` + text(s) + `}}]`
		},
	}[way]
	whole := "your key is " + key + "."
	switch way {
	case "calls":
		whole = `{"command":` + text("echo '"+key+"'") + `}`
	case "encoded":
		whole = base64.StdEncoding.EncodeToString([]byte("it is " + key))
	}
	if !asked.Stream {
		fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant",%s},"finish_reason":"stop"}]}`, says(whole))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for first := true; len(whole) > 0; first = false {
		n := min(len(whole), 5)
		delta := says(whole[:n])
		if !first {
			delta = strings.Replace(delta, `"id":"c1","type":"function","function":{"name":"terminal",`, `"function":{`, 1)
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{%s}}]}\n\n", delta)
		w.(http.Flusher).Flush()
		whole = whole[n:]
	}
	fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// telling is an environment whose program prints all that it was given, and all that it can see.
const telling = `#!/usr/bin/env python3
import json, os, sys
def seen():
    out = ["m4rkerOfTheRow"] + [k + "=" + v for k, v in os.environ.items()]
    for f in ("environ", "cmdline"):
        out.append(open("/proc/self/" + f, errors="replace").read())
    out.append(open("/proc/%d/cmdline" % os.getppid(), errors="replace").read())
    return "\n".join(out)
print(seen(), file=sys.stderr, flush=True)
for line in sys.stdin:
    m = json.loads(line)
    r = {"initialize": {"protocol": 1, "name": "tell", "version": "1"}}.get(m["method"])
    if r is None:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32000, "message": seen()}}), flush=True)
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

// TestCanaries starts the command lines that hold secrets, with a canary for each, and looks for
// them in every byte that was written, printed or answered, also in other spellings: there are none.
// The same search finds each canary in what holds it rightly, and in each door what is no secret.
func TestCanaries(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many command lines")
	}
	dir := t.TempDir()
	secrets := canaries()
	put := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
			err = os.WriteFile(file, []byte(text), 0o600)
			if err == nil {
				return file
			}
		}
		t.Fatal(name)
		return ""
	}
	dotenv := put("home/.env", "OPENROUTER_API_KEY='"+secrets[".env OPENROUTER_API_KEY"]+"'\nPLAIN_SECRET='"+secrets[".env PLAIN_SECRET"]+"'\n")
	config := put("docker/config.json",
		`{"auths":{"registry.example":{"auth":"`+base64.StdEncoding.EncodeToString([]byte("user:"+secrets["docker password"]))+`"}}}`)
	env := []string{
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir, "HERMES_HOME=" + filepath.Join(dir, "home"),
		"DOCKER_CONFIG=" + filepath.Dir(config),
		"HTTPS_PROXY=http://user:" + secrets["proxy password"] + "@127.0.0.1:9", "HTTP_PROXY=http://user:" + secrets["proxy password"] + "@127.0.0.1:9", "NO_PROXY=127.0.0.1",
	}
	for name, v := range secrets {
		if !strings.ContainsAny(name, " .") {
			env = append(env, name+"="+v)
		}
	}
	base, keys := echoing(t)
	rows := put("rows.jsonl",
		`{"id":"a","prompt":"`+shown+`","checker":"env; exit 0","hermes":{"artifacts":["seen.txt"],"script":[{"calls":[{"name":"terminal","arguments":{"command":"(env; cat /proc/self/environ /proc/1/environ; tr '\\0' ' ' </proc/1/cmdline; ls -la /proc/self/fd; echo `+shown+`) 2>&1 | tee seen.txt"}}]},{"content":"`+shown+`"}]}}`+"\n")
	put("judged.jsonl", `{"id":"j","prompt":"`+shown+`","rubric":"is it good?","hermes":{"script":[{"content":"`+shown+`"}]}}`+"\n")
	put("tell.py", telling)
	if err := os.Chmod(filepath.Join(dir, "tell.py"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &doors{t: t, all: map[string]*bytes.Buffer{}}
	var ran atomic.Int64
	start := func(args ...string) *exec.Cmd {
		c := hermes(t, dir, args...)
		c.Env = env
		ran.Add(1)
		return c
	}
	box := boxesHere()
	run := func(door string, args ...string) {
		t.Helper()
		began := time.Now()
		out, err := start(args...).CombinedOutput()
		if took := time.Since(began); took > 10*time.Second {
			t.Logf("%s took %v", door, took)
		}
		if err != nil && !strings.Contains(err.Error(), "exit status") {
			t.Error(args, err)
		}
		d.add("output of "+door, out)
	}
	debug := []string{"--log-level", "debug", "--progress", "plain", "--backend", box}
	with := func(args ...string) []string { return append(args, debug...) }
	run("batch", with("batch", rows, "--model", "scripted", "--toolsets", "terminal", "--run", "plain",
		"--parquet", "--wandb", "offline", "--format", "sharegpt,messages")...)
	var wg sync.WaitGroup
	for _, way := range []string{"body", "refused", "redirect", "sse", "garbage", "list", "content", "thoughts", "calls", "encoded", "names"} {
		wg.Go(func() {
			run("batch, "+way, with("batch", rows, "--model", "m", "--base-url", base+"/"+way+"/v1", "--toolsets", "terminal", "--retries",
				"0", "--request-retries", "1", "--max-turns", "1", "--run", "r-"+way, "--api-key-env", "OPENAI_API_KEY")...)
			run("chat, "+way, "chat", "-q", shown, "--model", "m", "--base-url", base+"/"+way+"/v1", "--backend",
				box, "--request-retries", "1", "--toolsets", "terminal", "--log-level", "debug")
			run("judge, "+way, with("batch", "judged.jsonl", "--model", "scripted", "--model-role", "judge=m@"+base+"/"+way+"/v1", "--api-key-env", strings.TrimPrefix(base,
				"http://")+"=JUDGE_KEY",
				"--retries", "0", "--request-retries", "1", "--toolsets", "none", "--run", "j-"+way)...)
			run("model check, "+way, "model", "check", "--model", "m", "--base-url", base+"/"+way+"/v1", "--log-level", "debug")
		})
	}
	wg.Wait()
	run("key of .env", with("batch", rows, "--model", "m", "--base-url", base+"/body/v1", "--api-key-env",
		"PLAIN_SECRET", "--retries", "0", "--toolsets", "terminal", "--run", "dotenv")...)
	run("eval", with("eval", "run", rows, "--model", "scripted", "--toolsets", "terminal", "--run", "ev", "--grader", "contains")...)
	run("env process", with("env", "process", "./tell.py", "--groups", "1", "--group-size",
		"1", "--workers", "1", "--model", "scripted", "--run", "printed")...)
	passed := put("passed.yaml", "envs: {remote: {command: [./tell.py], pass-env: [GITHUB_TOKEN]}}\n")
	run("env process, passed", with("env", "process", "remote", "-c", passed, "--groups", "1", "--group-size",
		"1", "--workers", "1", "--model", "scripted", "--run", "passed")...)
	run("env check", "env", "check", "./tell.py", "--backend", box)
	found, err := filepath.Glob(filepath.Join(dir, "runs", "plain", "*.parquet"))
	deeper, _ := filepath.Glob(filepath.Join(dir, "runs", "plain", "*", "*.parquet"))
	found = append(found, deeper...)
	if err != nil || len(found) == 0 {
		t.Fatal("no Parquet", err)
	}
	parquet := found[0]
	first := func(line []string) string { // the words of a command
		words := strings.Join(line[:min(2, len(line))], " ")
		if search([]byte(words), secrets) != nil || strings.Contains(words, "/") {
			return line[0][:min(3, len(line[0]))]
		}
		return words
	}
	for _, line := range [][]string{
		{"runs", "show", "plain"},
		{"runs", "show", "plain", "a"},
		{"runs", "show", "plain", "a", "--json"},
		{"runs", "stats", "plain"},
		{"runs", "list"},
		{"runs", "verify", "plain"},
		{"runs", "export", "plain", "--format", "messages", "-o", "-"},
		{"runs", "export", "plain", "--format", "sharegpt", "-o", "out.jsonl"},
		{"runs", "show", "r-body", "a"},
		{"runs", "show", "j-body", "j"},
		{"eval", "report", "plain"}, {"data", "show", parquet},
		{"config", "show"}, {"config", "show", "batch"}, {"config", "check"}, {"doctor"}, {"doctor", "--json"},
		{"runs", "push", "user/name", "plain"},
		{"data", "show", "hf:owner/name"},
		{"sandbox", "exec", "--backend", box, "--", "sh", "-c", "env; cat /proc/1/environ; echo " + shown},
		{"tools", "run", "terminal", `{"command":"env; echo ` + shown + `"}`, "--backend", box},
		{"batch", rows, "--model", "m", "--base-url", "http://user:" + secrets["OPENAI_API_KEY"] + "@127.0.0.1:9"}, {secrets["OPENAI_API_KEY"]},
		{"batch", "x.jsonl", "--model", "m", "--base-url", base + "/body/v1", "--api-key-env", secrets["OPENAI_API_KEY"]},
	} {
		run(first(line), line...)
	}

	// Servers: what they answer, their lists of arguments, and what they say when they crash.
	serve := func(name string, token string, paths []string, args ...string) {
		t.Helper()
		c := start(args...)
		var said bytes.Buffer
		out, err := c.StdoutPipe()
		c.Stderr = &said
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 400)
		n, _ := out.Read(line)
		at := strings.TrimRight(strings.TrimSpace(string(line[:n])), "/")
		for _, p := range paths {
			for _, bearer := range []string{"", token} {
				r, err := http.NewRequest(http.MethodGet, at+p, nil)
				if err != nil {
					t.Fatal(name, err)
				}
				if bearer != "" {
					r.Header.Set("Authorization", "Bearer "+bearer)
				}
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(name, p, err, said.String())
				}
				var head bytes.Buffer
				resp.Header.Write(&head)
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				d.add("answers of "+name, append(append([]byte(p+"\n"), head.Bytes()...), body...))
			}
		}
		for _, f := range []string{"cmdline", "limits", "status"} {
			raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.Process.Pid), f))
			if err == nil {
				d.add("/proc "+f, raw)
			}
		}
		if raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.Process.Pid), "environ")); err == nil && len(search(raw, secrets)) < 10 {
			t.Errorf("%s: its environment holds %q: the search finds nothing", name, search(raw, secrets))
		}
		c.Process.Signal(syscall.SIGQUIT)
		rest, _ := io.ReadAll(out)
		ended := make(chan struct{})
		go func() { c.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			c.Process.Kill()
			<-ended
		}
		d.add("crash of "+name, append(append(line[:n], rest...), said.Bytes()...))
	}
	serve("run-api", secrets["RUN_API_TOKEN"], []string{
		"/", "/status", "/info", "/metrics", "/dashboard", "/latest_example", "/healthz", "/nothing",
	}, "run-api", "--port", "0", "--token-env", "RUN_API_TOKEN", "--log-level", "debug")
	serve("runs view", "", []string{"/", "/api/runs", "/api/list?run=0", "/api/search?run=0&q=" + shown, "/app.js"}, "runs", "view", "plain")
	serve("model fake", "", []string{"/v1/models", "/stats", "/metrics"}, "model", "fake", "--log-level", "debug")

	d.files(dir, func(path string) bool { return path == dotenv || path == config })
	hits := 0
	for _, name := range slices.Sorted(maps.Keys(d.all)) {
		text := d.all[name].Bytes()
		if found := search(text, secrets); len(found) > 0 {
			hits += len(found)
			i := -1
			for _, secret := range secrets {
				for _, form := range forms(secret) {
					if j := bytes.Index(text, []byte(form)); j >= 0 && (i < 0 || j < i) {
						i = j
					}
				}
			}
			t.Errorf("%s: %q: …%q", name, found, text[max(0, i-200):min(len(text), i+100)])
		}
	}
	// What holds them rightly is found, by the same search.
	held, _ := os.ReadFile(dotenv)
	docker, _ := os.ReadFile(config)
	for what, text := range map[string][]byte{
		".env":                           held,
		"docker's configuration":         docker,
		"what the model server was sent": keys(),
		"our environment":                []byte(strings.Join(env, "\n")),
	} {
		if len(search(text, secrets)) == 0 {
			t.Errorf("%s: no canary is found where there is one", what)
		}
	}
	for _, name := range []string{
		"output of chat, body", "output of env process", "output of runs show", "output of sandbox exec", "output of tools run",
		"output of data show", "answers of runs view", "file *.jsonl", "file *.log", "file *.txt",
	} {
		if b := d.all[name]; b == nil || !bytes.Contains(b.Bytes(), []byte(shown)) {
			text := ""
			if b != nil {
				text = b.String()
			}
			t.Errorf("%s shows nothing of the row: the search proves nothing there: %.300s (have %q)", name, text, slices.Sorted(maps.Keys(d.all)))
		}
	}
	for _, way := range []string{"content", "thoughts", "calls", "encoded"} { // that they get as far as this
		for _, door := range []string{"output of batch, ", "output of chat, "} {
			if b := d.all[door+way]; b == nil || !bytes.Contains(b.Bytes(), []byte("answered with the key of the request (OPENAI_API_KEY)")) {
				t.Errorf("%s%s does not say that the server answered with the key: %.600s", door, way, b)
			}
		}
	}
	if b := d.all["output of env process, passed"]; b == nil || !bytes.Contains(b.Bytes(), []byte("GITHUB_TOKEN=[redacted]")) { // the program has the key, and prints it
		t.Errorf("an environment that prints a key it was given: %.1000s", b)
	}
	t.Logf("%d canaries × %d doors × %d spellings of %d command lines: %d hits", len(secrets), len(d.all), len(forms("cNrY00q7/Zx&k+1w=t")), ran.Load(), hits)
}
