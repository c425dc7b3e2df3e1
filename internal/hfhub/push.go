package hfhub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// ErrNoToken says that nothing can be written without a token.
var ErrNoToken = errors.New("no token: set HF_TOKEN to one that may write")

// Upload is one file to push.
type Upload struct {
	Path string // in the repository
	File string // on this machine
}

// PushOptions say how files are pushed.
type PushOptions struct {
	Private  bool   // of a repository that is made; one that exists stays as it is
	Revision string // branch; "" means main
	Message  string
}

// Pushed is what a push did.
type Pushed struct {
	Commit  string `json:"commit"`
	URL     string `json:"url"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
	Created bool   `json:"created"` // the repository is new
}

// Push makes a repository where there is none and adds files to it in one commit: large
// files go to the hub's store first (Git LFS, one piece or several), as its preupload
// check says. Files that the store has already are not sent again, so that a push that
// broke off goes on when it is repeated. Only Options' endpoint, token and client count.
func Push(ctx context.Context, kind Kind, name string, files []Upload, o Options, p PushOptions) (Pushed, error) {
	o.Cache = "none" // unused, and demanded by Open
	r, err := Open(kind, name, o)
	if err != nil {
		return Pushed{}, err
	}
	if !strings.Contains(name, "/") {
		return Pushed{}, fmt.Errorf("hub: %q: want owner/name", name)
	}
	if o.Token == "" {
		return Pushed{}, ErrNoToken
	}
	if err := safe(r.o.Endpoint); err != nil {
		return Pushed{}, err
	}
	p.Revision = cmp.Or(p.Revision, Main)
	if !IsRevision(p.Revision) {
		return Pushed{}, fmt.Errorf("revision %q is no branch", p.Revision)
	}
	w := &pusher{r: r, o: p, kind: kind}
	return w.push(ctx, files)
}

// safe refuses to send a token in the clear to another machine.
func safe(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("hub: endpoint %q: %w", endpoint, err)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("hub: endpoint %s: a token is sent over https only", endpoint)
}

type pusher struct {
	r    *Repo
	o    PushOptions
	kind Kind
}

// file is an upload that was looked at.
type file struct {
	Upload
	size   int64
	sum    string // SHA-256
	sample []byte // its first bytes
	lfs    bool
	ignore bool
}

func (w *pusher) push(ctx context.Context, uploads []Upload) (done Pushed, err error) {
	var files []*file
	for _, u := range uploads {
		f, err := look(u)
		if err != nil {
			return done, fmt.Errorf("push %s: %w", u.Path, err)
		}
		files = append(files, f)
	}
	done.Created, err = w.create(ctx)
	if err != nil {
		return done, fmt.Errorf("create %s: %w", w.r.name, err)
	}
	if err := w.modes(ctx, files); err != nil {
		return done, fmt.Errorf("push to %s: %w", w.r.name, err)
	}
	if err := w.store(ctx, files); err != nil {
		return done, fmt.Errorf("push to %s: %w", w.r.name, err)
	}
	for _, f := range files {
		if !f.ignore {
			done.Files++
			done.Bytes += f.size
		}
	}
	return done, w.commit(ctx, files, &done)
}

func look(u Upload) (*file, error) {
	in, err := os.Open(u.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f := &file{Upload: u, sample: make([]byte, 512)}
	n, err := io.ReadFull(in, f.sample)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	f.sample = f.sample[:n]
	h := sha256.New()
	h.Write(f.sample)
	rest, err := io.Copy(h, in)
	f.size, f.sum = int64(n)+rest, hex.EncodeToString(h.Sum(nil))
	return f, err
}

func (w *pusher) create(ctx context.Context) (created bool, err error) {
	owner, name, _ := strings.Cut(w.r.name, "/")
	err = w.post(ctx, w.r.o.Endpoint+"/api/repos/create", "application/json", map[string]any{
		"organization": owner, "name": name, "type": strings.TrimSuffix(string(w.kind), "s"), "private": w.o.Private}, nil, maxTries)
	var s *StatusError
	if errors.As(err, &s) && s.Status == http.StatusConflict {
		return false, nil
	}
	return err == nil, err
}

// modes asks which files are for the large store.
func (w *pusher) modes(ctx context.Context, files []*file) error {
	byPath := map[string]*file{}
	for i := 0; i < len(files); i += 256 {
		var ask struct {
			Files []map[string]any `json:"files"`
		}
		for _, f := range files[i:min(i+256, len(files))] {
			byPath[f.Path] = f
			ask.Files = append(ask.Files, map[string]any{"path": f.Path, "sample": base64.StdEncoding.EncodeToString(f.sample), "size": f.size})
		}
		var got struct {
			Files []struct {
				Path         string `json:"path"`
				UploadMode   string `json:"uploadMode"`
				ShouldIgnore bool   `json:"shouldIgnore"`
			} `json:"files"`
		}
		if err := w.post(ctx, w.r.o.Endpoint+w.r.api+"/preupload/"+url.PathEscape(w.o.Revision), "application/json", ask, &got, maxTries); err != nil {
			return fmt.Errorf("preupload: %w", err)
		}
		for _, g := range got.Files {
			f := byPath[g.Path]
			if f == nil || g.UploadMode != "lfs" && g.UploadMode != "regular" {
				return fmt.Errorf("preupload: the hub says %q of %q", g.UploadMode, g.Path)
			}
			f.lfs, f.ignore = g.UploadMode == "lfs", g.ShouldIgnore
			delete(byPath, g.Path)
		}
	}
	for path := range byPath {
		return fmt.Errorf("preupload: the hub says nothing of %s", path)
	}
	return nil
}

// commit adds the files in one commit.
func (w *pusher) commit(ctx context.Context, files []*file, done *Pushed) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	line := func(key string, value map[string]any) error {
		return e.Encode(map[string]any{"key": key, "value": value})
	}
	err := line("header", map[string]any{"summary": w.o.Message, "description": ""})
	for _, f := range files {
		switch {
		case f.ignore:
		case f.lfs:
			err = errors.Join(err, line("lfsFile", map[string]any{"path": f.Path, "algo": "sha256", "oid": f.sum, "size": f.size}))
		case f.size > maxJSON:
			err = errors.Join(err, fmt.Errorf("%s: the hub wants %d bytes as a regular file", f.Path, f.size))
		default:
			raw, rerr := os.ReadFile(f.File)
			err = errors.Join(err, rerr, line("file", map[string]any{"path": f.Path, "encoding": "base64", "content": base64.StdEncoding.EncodeToString(raw)}))
		}
	}
	if err != nil {
		return err
	}
	var got struct {
		OID string `json:"commitOid"`
		URL string `json:"commitUrl"`
	}
	// Asked once: an answer that was lost may stand for a commit that was made.
	if err := w.post(ctx, w.r.o.Endpoint+w.r.api+"/commit/"+url.PathEscape(w.o.Revision), "application/x-ndjson", b.Bytes(), &got, 1); err != nil {
		return fmt.Errorf("commit to %s: %w", w.r.name, err)
	}
	if got.OID == "" {
		return fmt.Errorf("commit to %s: the hub names no commit", w.r.name)
	}
	done.Commit, done.URL = got.OID, got.URL
	return nil
}

// post sends JSON, or raw bytes, and reads a JSON answer; to nil: none is read.
func (w *pusher) post(ctx context.Context, address, form string, body, to any, tries int) error {
	return w.posted(ctx, address, form, true, body, to, tries)
}

func (w *pusher) posted(ctx context.Context, address, form string, token bool, body, to any, tries int) error {
	raw, ok := body.([]byte)
	if !ok {
		var err error
		raw, err = json.Marshal(body)
		if err != nil {
			return err
		}
	}
	header := http.Header{"Content-Type": {form}}
	if form == lfsForm {
		header.Set("Accept", lfsForm)
	}
	resp, err := w.send(ctx, http.MethodPost, address, header, token, func() (io.Reader, int64, error) { return bytes.NewReader(raw), int64(len(raw)), nil }, tries)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON+1))
	switch {
	case err != nil:
		return err
	case len(got) > maxJSON:
		return fmt.Errorf("an answer of more than %d bytes", maxJSON)
	case to == nil:
		return nil
	}
	if err := json.Unmarshal(got, to); err != nil {
		return fmt.Errorf("the hub's answer: %w", err)
	}
	return nil
}

// send sends a body, again where that may help. The token goes to the endpoint alone.
func (w *pusher) send(ctx context.Context, method, address string, header http.Header, token bool, body func() (io.Reader, int64, error), tries int) (*http.Response, error) {
	u, err := url.Parse(address)
	home, herr := url.Parse(w.r.o.Endpoint)
	if err = errors.Join(err, herr); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		in, size, err := body()
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, method, address, in)
		if err != nil {
			return nil, err
		}
		req.ContentLength = size
		maps.Copy(req.Header, header)
		req.Header.Set("User-Agent", "hermes")
		if token && u.Host == home.Host && u.Scheme == home.Scheme {
			req.Header.Set("Authorization", "Bearer "+w.r.o.Token)
		}
		resp, err := w.r.http().Do(req)
		var at *url.Error
		if errors.As(err, &at) {
			at.URL, _, _ = strings.Cut(at.URL, "?") // what follows may be a signature
		}
		if err == nil && resp.StatusCode < 300 {
			return resp, nil
		}
		if err == nil {
			text := resp.Header.Get("X-Error-Message")
			text = cmp.Or(text, resp.Status)
			err = errors.Join(&StatusError{Status: resp.StatusCode, Repo: w.r.name, Text: text}, resp.Body.Close())
		}
		if try >= tries || ctx.Err() != nil || !again(err) {
			return nil, err
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}
