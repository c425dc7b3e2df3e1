// Package hubtest is a Hugging Face hub for tests, as far as pushing goes: repositories
// are made, files are looked at, stored and committed, and whatever does not have the
// form that the real hub demands is refused and kept as a complaint.
package hubtest

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Hub is a hub that accepts one token. Its methods may be called at any time.
type Hub struct {
	URL     string
	Token   string
	Chunk   int64 // objects above this size are sent in pieces; 0: none
	FailPut int   // the first so many objects are answered with 503

	mu         sync.Mutex
	repos      map[string]*repo
	objects    map[string][]byte
	parts      map[string][]byte // by oid/number
	complaints []string
	puts       int
}

type repo struct {
	private bool
	files   map[string][]byte
	commits []string // messages
}

// New starts a hub; it ends with the test.
func New(t *testing.T, token string) *Hub {
	h := &Hub{Token: token, repos: map[string]*repo{}, objects: map[string][]byte{}, parts: map[string][]byte{}}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	h.URL = s.URL
	return h
}

// Files are the files of a dataset, nil where there is none.
func (h *Hub) Files(name string) map[string][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.repos[name]; r != nil {
		return maps.Clone(r.files)
	}
	return nil
}

// Commits are the messages of a dataset's commits; private tells how it was made.
func (h *Hub) Commits(name string) (messages []string, private bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.repos[name]; r != nil {
		return slices.Clone(r.commits), r.private
	}
	return nil, false
}

// Complaints lists what did not have the right form.
func (h *Hub) Complaints() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.complaints)
}

// Puts is how many objects and pieces were sent.
func (h *Hub) Puts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.puts
}

// ServeHTTP answers one request at a time.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<28))
	h.mu.Lock()
	defer h.mu.Unlock()
	path := r.URL.Path
	store := strings.HasPrefix(path, "/store/") || strings.HasPrefix(path, "/complete/") // signed addresses
	switch {
	case err != nil:
		h.refuse(w, 400, "%s: %v", path, err)
	case store && r.Header.Get("Authorization") != "":
		h.refuse(w, 400, "%s: the store was shown the token", path)
	case !store && r.Header.Get("Authorization") != "Bearer "+h.Token:
		w.Header().Set("X-Error-Message", "Invalid username or password.")
		w.WriteHeader(http.StatusUnauthorized)
	case store && r.Method == http.MethodPut:
		h.put(w, strings.TrimPrefix(path, "/store/"), body)
	case path == "/api/repos/create" && r.Method == http.MethodPost:
		h.create(w, body)
	case strings.HasPrefix(path, "/api/datasets/") && strings.HasSuffix(path, "/preupload/main"):
		h.preupload(w, body)
	case strings.HasPrefix(path, "/datasets/") && strings.HasSuffix(path, ".git/info/lfs/objects/batch"):
		h.batch(w, r, body)
	case strings.HasPrefix(path, "/complete/"):
		h.complete(w, strings.TrimPrefix(path, "/complete/"), body)
	case path == "/verify":
		h.verify(w, body)
	case strings.HasPrefix(path, "/api/datasets/") && strings.HasSuffix(path, "/commit/main"):
		h.commit(w, r, strings.TrimSuffix(strings.TrimPrefix(path, "/api/datasets/"), "/commit/main"), body)
	case path == "/api/validate-yaml": // Python asks whether the card is in order
		h.answer(w, map[string]any{"errors": []any{}, "warnings": []any{}})
	case r.Method == http.MethodGet && path == "/api/whoami-v2":
		h.answer(w, map[string]any{"type": "user", "name": "me"})
	case r.Method == http.MethodGet && strings.HasPrefix(path, "/api/datasets/"):
		h.answer(w, map[string]any{"id": "x", "sha": strings.Repeat("1", 40), "siblings": []any{}})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (h *Hub) refuse(w http.ResponseWriter, status int, format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	h.complaints = append(h.complaints, text)
	w.Header().Set("X-Error-Message", text)
	w.WriteHeader(status)
}

func (h *Hub) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		h.complaints = append(h.complaints, err.Error())
	}
}

func (h *Hub) create(w http.ResponseWriter, body []byte) {
	var q struct {
		Name, Organization, Type string
		Private                  bool
	}
	if err := json.Unmarshal(body, &q); err != nil || q.Name == "" || q.Organization == "" || q.Type != "dataset" {
		h.refuse(w, 400, "create: %s", body)
		return
	}
	id := q.Organization + "/" + q.Name
	if h.repos[id] != nil {
		w.Header().Set("X-Error-Message", "You already created this dataset repo")
		w.WriteHeader(http.StatusConflict)
		h.answer(w, map[string]any{"url": h.URL + "/datasets/" + id})
		return
	}
	h.repos[id] = &repo{private: q.Private, files: map[string][]byte{}}
	h.answer(w, map[string]any{"url": h.URL + "/datasets/" + id, "name": id})
}

func (h *Hub) preupload(w http.ResponseWriter, body []byte) {
	var q struct {
		Files []struct {
			Path, Sample string
			Size         *int64
		}
	}
	if err := json.Unmarshal(body, &q); err != nil || len(q.Files) == 0 {
		h.refuse(w, 400, "preupload: %s", body)
		return
	}
	out := []map[string]any{}
	for _, f := range q.Files {
		sample, err := base64.StdEncoding.DecodeString(f.Sample)
		if err != nil || f.Size == nil || int64(len(sample)) != min(512, *f.Size) {
			h.refuse(w, 400, "preupload of %s: a sample of %d bytes", f.Path, len(sample))
			return
		}
		mode := "regular"
		if strings.HasSuffix(f.Path, ".parquet") || *f.Size > 10<<20 {
			mode = "lfs"
		}
		out = append(out, map[string]any{"path": f.Path, "uploadMode": mode, "shouldIgnore": false, "oid": nil})
	}
	h.answer(w, map[string]any{"files": out})
}

func (h *Hub) batch(w http.ResponseWriter, r *http.Request, body []byte) {
	var q struct {
		Operation, HashAlgo string
		Hash                string `json:"hash_algo"`
		Transfers           []string
		Objects             []struct {
			OID  string
			Size int64
		}
	}
	const form = "application/vnd.git-lfs+json"
	if err := json.Unmarshal(body, &q); err != nil || q.Operation != "upload" || q.Hash != "sha256" || !slices.Contains(q.Transfers, "basic") || len(q.Objects) == 0 ||
		r.Header.Get("Accept") != form || !strings.HasPrefix(r.Header.Get("Content-Type"), form) {
		h.refuse(w, 400, "batch: %s, %v", body, r.Header)
		return
	}
	out := []map[string]any{}
	for _, o := range q.Objects {
		one := map[string]any{"oid": o.OID, "size": o.Size}
		if _, have := h.objects[o.OID]; !have {
			upload := map[string]any{"href": h.URL + "/store/" + o.OID, "header": map[string]any{"X-Signed": "yes"}}
			if h.Chunk > 0 && o.Size > h.Chunk {
				pieces := map[string]any{"chunk_size": strconv.FormatInt(h.Chunk, 10)}
				for i := int64(0); i*h.Chunk < o.Size; i++ {
					pieces[fmt.Sprintf("%05d", i+1)] = fmt.Sprintf("%s/store/%s/%d", h.URL, o.OID, i+1)
				}
				upload = map[string]any{"href": h.URL + "/complete/" + o.OID, "header": pieces}
			}
			one["actions"] = map[string]any{"upload": upload, "verify": map[string]any{"href": h.URL + "/verify", "header": map[string]any{}}}
		}
		out = append(out, one)
	}
	h.answer(w, map[string]any{"transfer": "basic", "objects": out})
}

func (h *Hub) put(w http.ResponseWriter, name string, body []byte) {
	h.puts++
	if h.puts <= h.FailPut {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("ETag", `"`+hash(body)[:32]+`"`)
	if strings.Contains(name, "/") {
		h.parts[name] = body
		return
	}
	if hash(body) != name {
		h.refuse(w, 400, "put: %d bytes are not %s", len(body), name)
		return
	}
	h.objects[name] = body
}

func (h *Hub) complete(w http.ResponseWriter, oid string, body []byte) {
	var q struct {
		OID   string
		Parts []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := json.Unmarshal(body, &q); err != nil || q.OID != oid {
		h.refuse(w, 400, "complete: %s", body)
		return
	}
	var all []byte
	for i, p := range q.Parts {
		piece, ok := h.parts[fmt.Sprintf("%s/%d", oid, p.PartNumber)]
		if !ok || p.PartNumber != i+1 || p.ETag != `"`+hash(piece)[:32]+`"` {
			h.refuse(w, 400, "complete: piece %d: %s", i+1, body)
			return
		}
		all = append(all, piece...)
	}
	if hash(all) != oid {
		h.refuse(w, 400, "complete: the pieces are not %s", oid)
		return
	}
	h.objects[oid] = all
	h.answer(w, map[string]any{})
}

func (h *Hub) verify(w http.ResponseWriter, body []byte) {
	var q struct {
		OID  string
		Size int
	}
	if err := json.Unmarshal(body, &q); err != nil || len(h.objects[q.OID]) != q.Size || h.objects[q.OID] == nil {
		h.refuse(w, 400, "verify: %s", body)
	}
}

func (h *Hub) commit(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	repo := h.repos[name]
	if repo == nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-ndjson") {
		h.refuse(w, 400, "commit to %s: %v", name, r.Header)
		return
	}
	files, summary := map[string][]byte{}, ""
	lines := bufio.NewScanner(strings.NewReader(string(body)))
	lines.Buffer(nil, 1<<28)
	for n := 0; lines.Scan(); n++ {
		var l struct {
			Key   string
			Value struct {
				Summary, Path, Encoding, Content, Algo, OID string
				Size                                        int
			}
		}
		err := json.Unmarshal(lines.Bytes(), &l)
		v := l.Value
		switch {
		case err != nil, n == 0 && (l.Key != "header" || v.Summary == ""):
			h.refuse(w, 400, "commit, line %d: %.200s", n, lines.Text())
			return
		case n == 0:
			summary = v.Summary
		case l.Key == "file" && v.Encoding == "base64":
			raw, err := base64.StdEncoding.DecodeString(v.Content)
			if err != nil {
				h.refuse(w, 400, "commit, line %d: %v", n, err)
				return
			}
			files[v.Path] = raw
		case l.Key == "lfsFile" && v.Algo == "sha256" && len(h.objects[v.OID]) == v.Size && h.objects[v.OID] != nil:
			files[v.Path] = h.objects[v.OID]
		default:
			h.refuse(w, 400, "commit, line %d: %.200s", n, lines.Text())
			return
		}
	}
	maps.Copy(repo.files, files)
	repo.commits = append(repo.commits, summary)
	h.answer(w, map[string]any{"success": true, "commitOid": strings.Repeat("2", 40), "commitUrl": h.URL + "/datasets/" + name + "/commit/2"})
}

func hash(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
