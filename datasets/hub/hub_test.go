package hub_test

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hermes/datasets/hub"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// fake speaks the hub's API: revision, tree in pages, resolve with a redirect to
// another host. It cuts the first answers of large files short.
type fake struct {
	*httptest.Server
	cdn    *httptest.Server
	files  map[string]string
	mu     sync.Mutex
	cut    int // answers to cut after half
	ranges int
	bytes  int
	bad    bool // send other bytes than announced
	leaked bool // the token reached the other host
}

func newFake(t *testing.T, files map[string]string) *fake {
	f := &fake{files: files}
	f.cdn = httptest.NewServer(http.HandlerFunc(f.blob))
	t.Cleanup(f.cdn.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/datasets/org/set/revision/{rev}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.Header().Set("X-Error-Message", "Access to dataset org/set is restricted")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if rev := r.PathValue("rev"); rev != "main" && rev != "v1" && rev != commit {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"sha": commit})
	})
	mux.HandleFunc("GET /api/datasets/org/set/tree/"+commit, f.tree)
	mux.HandleFunc("GET /datasets/org/set/resolve/"+commit+"/{path...}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Repo-Commit", commit)
		http.Redirect(w, r, f.cdn.URL+"/"+r.PathValue("path"), http.StatusFound)
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) tree(w http.ResponseWriter, r *http.Request) {
	var all []map[string]any
	for path, text := range f.files {
		gitSum := sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(text), text)))
		e := map[string]any{"type": "file", "path": path, "size": len(text), "oid": hex.EncodeToString(gitSum[:])}
		if strings.HasSuffix(path, ".parquet") || len(text) > 1000 {
			sum := sha256.Sum256([]byte(text))
			e["lfs"] = map[string]any{"oid": hex.EncodeToString(sum[:]), "size": len(text)}
		}
		all = append(all, e)
	}
	half := len(all) / 2
	if r.URL.Query().Get("cursor") == "" { // maps have no order: the second page repeats what it must
		w.Header().Set("Link", fmt.Sprintf(`<http://elsewhere.invalid%s?cursor=x>; rel="next"`, r.URL.Path))
		json.NewEncoder(w).Encode(all[:half])
		return
	}
	json.NewEncoder(w).Encode(all)
}

func (f *fake) blob(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaked = f.leaked || r.Header.Get("Authorization") != ""
	text, from := f.files[strings.TrimPrefix(r.URL.Path, "/")], 0
	if f.bad {
		text = strings.ToUpper(text)
	}
	if spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		from, _ = strconv.Atoi(strings.TrimSuffix(spec, "-"))
		f.ranges++
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(text)-1, len(text)))
	}
	rest := text[from:]
	w.Header().Set("Content-Length", strconv.Itoa(len(rest)))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if f.cut > 0 && len(rest) > 1000 {
		f.cut--
		rest = rest[:len(rest)/2]
	}
	f.bytes += len(rest)
	fmt.Fprint(w, rest)
}

func rows(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"prompt":"p%d"}`+"\n", i)
	}
	return b.String()
}

func fetch(t *testing.T, f *fake, cache, spec string, offline bool) ([]hub.File, error) {
	t.Helper()
	ref, err := hub.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return hub.Fetch(t.Context(), ref, hub.Options{Endpoint: f.URL, Token: "secret", Cache: cache, Offline: offline})
}

func TestFetchResumesAndShares(t *testing.T) {
	f := newFake(t, map[string]string{
		"README.md":                       "hello",
		"data/train-00000-of-00002.jsonl": rows(500),
		"data/train-00001-of-00002.jsonl": rows(3),
		"data/test.jsonl":                 rows(2),
	})
	f.cut = 2
	cache := t.TempDir()
	files, err := fetch(t, f, cache, "hf:org/set@v1:train", false)
	if err != nil || len(files) != 2 || files[0].Name != "hf:org/set/data/train-00000-of-00002.jsonl" {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(files[0].Path)
	if err != nil || string(text) != rows(500) {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if f.ranges != 2 || f.leaked {
		t.Errorf("%d resumed answers, token leaked: %v", f.ranges, f.leaked)
	}
	sum := sha256.Sum256(text)
	blob := filepath.Join(cache, "datasets--org--set", "blobs", hex.EncodeToString(sum[:]))
	if target, err := os.Readlink(files[0].Path); err != nil || filepath.Join(filepath.Dir(files[0].Path), target) != blob {
		t.Errorf("link to %s, want %s (%v)", target, blob, err)
	}
	if ref, err := os.ReadFile(filepath.Join(cache, "datasets--org--set", "refs", "v1")); err != nil || string(ref) != commit {
		t.Errorf("refs/v1 %q, %v", ref, err)
	}
	before := f.bytes
	if _, err := fetch(t, f, cache, "hf:org/set@v1", false); err != nil || f.bytes != before {
		t.Errorf("the second time took %d bytes, %v", f.bytes-before, err)
	}
	f.Close()
	if again, err := fetch(t, f, cache, "hf:org/set@v1:train", true); err != nil || len(again) != 2 {
		t.Errorf("offline: %v, %v", again, err)
	}
	if _, err := fetch(t, f, cache, "hf:org/set@v2", true); !errors.Is(err, hub.ErrOffline) {
		t.Errorf("offline, unknown revision: %v", err)
	}
}

func TestFetchErrors(t *testing.T) {
	f := newFake(t, map[string]string{"a/train.jsonl": rows(500), "b/train.jsonl": rows(2), "b/test.jsonl": rows(2)})
	for spec, want := range map[string]string{
		"hf:org/set":         "several configurations, name one: a, b",
		"hf:org/set/c":       `no configuration "c"`,
		"hf:org/set/b:extra": `no split "extra" (have test, train)`,
		"hf:org/set@nope":    "404",
		"hf:org/other":       "404",
	} {
		if files, err := fetch(t, f, t.TempDir(), spec, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", spec, files, err, want)
		}
	}
	f.bad = true
	cache := t.TempDir()
	if _, err := fetch(t, f, cache, "hf:org/set/a", false); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("damaged download: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*", "blobs", "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	_, err := hub.Fetch(t.Context(), hub.Ref{Owner: "org", Name: "set", To: -1}, hub.Options{Endpoint: f.URL, Cache: cache, Token: "wrong"})
	if err == nil || !strings.Contains(err.Error(), "restricted") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("wrong token: %v", err)
	}
}

func TestReadmeNamesTheFiles(t *testing.T) {
	card := "---\nconfigs:\n- config_name: main\n  default: true\n  data_files:\n  - split: train\n    path: parts/*.jsonl\n  - split: held\n    path: [\"x/**/h.jsonl\"]\n- config_name: other\n  data_files: x/y/h.jsonl\n---\ntext"
	f := newFake(t, map[string]string{"README.md": card, "parts/1.jsonl": "a", "parts/2.jsonl": "b", "x/y/h.jsonl": "c"})
	for spec, want := range map[string]string{
		"hf:org/set":           "parts/1.jsonl parts/2.jsonl",
		"hf:org/set/main:held": "x/y/h.jsonl",
		"hf:org/set/other":     "x/y/h.jsonl",
	} {
		files, err := fetch(t, f, t.TempDir(), spec, false)
		var got []string
		for _, g := range files {
			got = append(got, strings.TrimPrefix(g.Name, "hf:org/set/"))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", spec, got, err)
		}
	}
}

func TestParse(t *testing.T) {
	want := hub.Ref{Owner: "o", Name: "n", Revision: "refs/pr/1", Config: "c", Split: "train", From: 10, To: 20}
	if got, err := hub.Parse("hf:o/n@refs%2Fpr%2F1/c:train[10:20]"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := hub.Parse("hf:o/n/c:train[:5]"); err != nil || got.Config != "c" || got.To != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"o/n", "hf:", "hf:n", "hf:o/../n", "hf:o/n@", "hf:o/n:", "hf:o/n:t[", "hf:o/n:t[5:2]", "hf:o/n:t[-1:]", "hf:o/n@../x",
		"hf:o/n/a/b", "hf:../n",
	} {
		if got, err := hub.Parse(bad); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}
