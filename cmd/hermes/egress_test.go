package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSandboxEgress: what the run file lists is reached from a box, nothing else, and the log
// says so.
func TestSandboxEgress(t *testing.T) {
	if boxesHere() == "local" {
		t.Skip("no isolated back-end here")
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "served ", r.URL.Path) })
	good, bad := httptest.NewServer(answer), httptest.NewServer(answer)
	defer good.Close()
	defer bad.Close()
	dir := t.TempDir()
	conf := fmt.Sprintf("backends: {namespace: {egress: {allow: [%q], log: egress.jsonl}}}\n", strings.TrimPrefix(good.URL, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "run.yaml"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	ask := func(url string) string {
		script := `at=${HTTP_PROXY#http://}; exec 3<>/dev/tcp/${at%:*}/${at##*:}; printf 'GET %s/secret-path HTTP/1.1\r\nHost: x\r\n\r\n' ` + url + ` >&3; cat <&3`
		out, err := hermes(t, dir, "sandbox", "exec", "-c", "run.yaml", "--backend", "namespace", "--", "bash", "-c", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if got := ask(good.URL); !strings.Contains(got, " 200 OK") || !strings.Contains(got, "served /secret-path") {
		t.Errorf("listed: %s", got)
	}
	if got := ask(bad.URL); !strings.Contains(got, " 403 ") || !strings.Contains(got, "backends.namespace.egress.allow") {
		t.Errorf("not listed: %s", got)
	}
	log, err := os.ReadFile(filepath.Join(dir, "egress.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(log)
	for _, want := range []string{
		`"event":"connect","target":"` + strings.TrimPrefix(good.URL, "http://"),
		`"event":"refuse","target":"` + strings.TrimPrefix(bad.URL, "http://"),
		`"event":"close"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the log:\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret-path") {
		t.Errorf("a path in the log:\n%s", text)
	}
}
