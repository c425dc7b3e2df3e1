package hfhub

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hermes/internal/late"
)

// Bounds of what a hub may send beside data files.
const (
	maxJSON  = 64 << 20
	maxPages = 1000
	maxTries = 4
)

// entry is one file of a repository.
type entry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"` // Git's SHA-1 of the blob
	LFS  *struct {
		OID  string `json:"oid"` // SHA-256
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// commit asks which commit a revision is.
func (r *Repo) commit(ctx context.Context, revision string) (string, error) {
	var info struct {
		SHA string `json:"sha"`
	}
	_, err := r.json(ctx, r.api+"/revision/"+url.PathEscape(revision), &info)
	if err == nil && !isCommit(info.SHA) {
		err = fmt.Errorf("the hub names no commit (%q)", info.SHA)
	}
	return info.SHA, err
}

var nextLink = late.Regexp(`<([^>]+)>;\s*rel="next"`)

// tree lists all files of a commit, page by page.
func (r *Repo) tree(ctx context.Context, commit string) (map[string]entry, error) {
	out := map[string]entry{}
	at := r.api + "/tree/" + commit + "?recursive=true&expand=false"
	for range maxPages {
		var page []entry
		header, err := r.json(ctx, at, &page)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if e.Type == "file" || e.Type == "" {
				out[e.Path] = e
			}
		}
		m := nextLink.FindStringSubmatch(header.Get("Link"))
		if m == nil {
			return out, nil
		}
		u, err := url.Parse(m[1])
		if err != nil {
			return nil, fmt.Errorf("next page %q: %w", m[1], err)
		}
		at = u.RequestURI() // only the endpoint itself is asked
	}
	return nil, fmt.Errorf("more than %d pages of files", maxPages)
}

func (r *Repo) json(ctx context.Context, path string, to any) (http.Header, error) {
	resp, err := r.get(ctx, r.o.Endpoint+path, 0)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxJSON {
		return nil, fmt.Errorf("an answer of more than %d bytes", maxJSON)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return nil, fmt.Errorf("the hub's answer: %w", err)
	}
	return resp.Header, nil
}

// StatusError is an answer that is no success.
type StatusError struct {
	Status int
	Repo   string
	Text   string // X-Error-Message, or the status line
}

func (e *StatusError) Error() string {
	hint := ""
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = " (private or gated? HF_TOKEN needs access)"
	case http.StatusNotFound:
		hint = " (is the name or revision right?)"
	}
	return fmt.Sprintf("hub: %s: %s%s", e.Repo, e.Text, hint)
}

// get asks once and follows redirects; the token goes to the endpoint's host alone.
// from > 0 asks for the bytes behind from.
func (r *Repo) get(ctx context.Context, address string, from int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "hermes")
	if r.o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.o.Token)
	}
	if from > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	resp, err := r.http().Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		return resp, nil
	}
	defer resp.Body.Close()
	text := resp.Header.Get("X-Error-Message")
	text = cmp.Or(text, resp.Status)
	return nil, &StatusError{Status: resp.StatusCode, Repo: r.name, Text: text}
}

// http returns a client that drops the token when a redirect leaves the endpoint.
func (r *Repo) http() *http.Client {
	home := ""
	if u, err := url.Parse(r.o.Endpoint); err == nil {
		home = u.Host
	}
	return &http.Client{CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > 10 {
			return errors.New("more than 10 redirects")
		}
		if req.URL.Host != home {
			req.Header.Del("Authorization")
		}
		return nil
	}}
}

// download brings one file into blobs/ and returns its path there.
func (r *Repo) download(ctx context.Context, commit string, e entry) (string, error) {
	name := e.OID
	size := e.Size
	sum := gitSum(e.Size)
	if e.LFS != nil {
		name = e.LFS.OID
		size = e.LFS.Size
		sum = sha256.New
	}
	if name == "" || strings.Trim(name, "0123456789abcdef") != "" {
		return "", fmt.Errorf("the hub gives no checksum (%q)", name)
	}
	blob := filepath.Join(r.dir, "blobs", name)
	if info, err := os.Stat(blob); err == nil && info.Size() == size {
		return blob, nil
	}
	if err := os.MkdirAll(filepath.Dir(blob), 0o755); err != nil {
		return "", err
	}
	if r.o.Log != nil {
		r.o.Log(fmt.Sprintf("fetching %s/%s (%d bytes)", r.name, e.Path, size))
	}
	address := r.o.Endpoint + r.page + "/resolve/" + commit + "/" + escapePath(e.Path)
	part := blob + ".incomplete"
	var err error
	for try := 1; try <= maxTries; try++ {
		if err = r.append(ctx, address, part, size); err == nil || !again(err) || ctx.Err() != nil {
			break
		}
		if err := pause(ctx, try); err != nil {
			return "", err
		}
	}
	if err != nil {
		return "", err
	}
	if err := check(part, name, sum); err != nil {
		return "", errors.Join(err, os.Remove(part)) // a damaged start must not be resumed
	}
	return blob, os.Rename(part, blob)
}

// again tells whether a failed download is worth another try.
func again(err error) bool {
	var s *StatusError
	if errors.As(err, &s) {
		return s.Status == http.StatusTooManyRequests || s.Status >= 500
	}
	return !errors.Is(err, errTooMuch) && !errors.Is(err, os.ErrPermission)
}

func pause(ctx context.Context, try int) error {
	t := time.NewTimer(time.Duration(try*try) * 50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

var errTooMuch = errors.New("the hub sends more bytes than it announced")

// append asks for what part still lacks of size bytes and writes it.
func (r *Repo) append(ctx context.Context, address, part string, size int64) error {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have > size {
		have = 0
	}
	if have == size && size > 0 {
		return nil
	}
	resp, err := r.get(ctx, address, have)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent {
		have = 0 // the server sends all of it
	}
	if err := f.Truncate(have); err != nil {
		return err
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(resp.Body, size-have+1))
	switch {
	case err != nil:
		return err
	case have+n > size:
		return errors.Join(errTooMuch, f.Truncate(0))
	case have+n < size:
		return fmt.Errorf("cut off after %d of %d bytes: %w", have+n, size, io.ErrUnexpectedEOF)
	}
	return f.Sync()
}

// gitSum is Git's hash of a blob of that size.
func gitSum(size int64) func() hash.Hash {
	return func() hash.Hash {
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	}
}

func check(path, want string, sum func() hash.Hash) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sum()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("checksum %s, the hub says %s", got, want)
	}
	return nil
}

func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
