// Package hfhub brings files of repositories from a Hugging Face hub into the cache that
// Python's huggingface_hub keeps, and shares it in both directions:
//
//	KIND--OWNER--NAME/{blobs/ETAG, refs/REVISION, snapshots/COMMIT/PATH → ../../blobs/ETAG}
//
// Downloads resume where they were cut and are checked against the hub's SHA-256 (or
// Git's SHA-1). Nothing is read from the environment: address, token, cache and the
// offline switch are [Options]. Several processes may fetch at the same time: files
// appear by rename.
package hfhub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/internal/address"
	"hermes/internal/late"
)

// Options say where the hub and its cache are. The caller fills them from its flags
// and environment (HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE).
type Options struct {
	Endpoint string       // "" means https://huggingface.co
	Token    string       // sent to the endpoint only, never to where it redirects
	Cache    string       // the folder with datasets--… and models--…; required
	Offline  bool         // use what the cache has, send no request
	Log      func(string) // called with a line for each download and upload; may be nil
}

// Kind is a kind of repositories: its name in the cache and in the hub's API.
type Kind string

// The kinds.
const (
	Datasets Kind = "datasets"
	Models   Kind = "models"
)

// ErrOffline says that the cache lacks what is needed and the hub may not be asked.
var ErrOffline = errors.New("not in the cache, and offline")

// Main is the revision of those who name none.
const Main = "main"

// Repo is one repository. It is safe for concurrent use.
type Repo struct {
	o    Options
	name string // "owner/name", or a name at the root
	dir  string // in the cache
	api  string // path of its API
	page string // path of its files
}

var part = late.Regexp(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}$`)

// IsName tells whether s may name an owner, a repository or a configuration.
func IsName(s string) bool { return part.MatchString(s) && !strings.Contains(s, "..") }

// IsRevision tells whether s may name a branch, a tag or a commit.
func IsRevision(s string) bool {
	return s != "" && !strings.Contains(s, "..") && !strings.HasPrefix(s, "/")
}

// Open checks names; it sends no request.
func Open(kind Kind, name string, o Options) (*Repo, error) {
	if o.Cache == "" {
		return nil, errors.New("hub: no cache folder given")
	}
	for _, p := range strings.Split(name, "/") {
		if !IsName(p) || strings.Count(name, "/") > 1 {
			return nil, fmt.Errorf("hub: %q is no repository (want owner/name)", name)
		}
	}
	o.Endpoint = cmp.Or(o.Endpoint, "https://huggingface.co")
	o.Endpoint = strings.TrimRight(o.Endpoint, "/")
	if err := address.CheckURL("HF_ENDPOINT", o.Endpoint); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	r := &Repo{o: o, name: name, api: "/api/" + string(kind) + "/" + name, page: "/" + name,
		dir: filepath.Join(o.Cache, string(kind)+"--"+strings.ReplaceAll(name, "/", "--"))}
	if kind != Models {
		r.page = "/" + string(kind) + "/" + name
	}
	return r, nil
}

// Snapshot is a repository at one commit.
type Snapshot struct {
	Commit string
	repo   *Repo
	tree   map[string]entry
}

// At finds the commit of a revision and its files, from the hub or, offline, from the
// cache: then the files are those that were fetched before.
func (r *Repo) At(ctx context.Context, revision string) (*Snapshot, error) {
	commit, tree, err := r.list(ctx, revision)
	if err != nil {
		return nil, fmt.Errorf("revision %s: %w", revision, err)
	}
	return &Snapshot{Commit: commit, repo: r, tree: tree}, nil
}

// Paths lists the files, sorted.
func (s *Snapshot) Paths() []string { return slices.Sorted(maps.Keys(s.tree)) }

// Size is the size of a file in bytes; false where there is none.
func (s *Snapshot) Size(path string) (int64, bool) {
	e, ok := s.tree[path]
	return e.Size, ok
}

// File returns the place of one file on this machine, downloading it when the cache
// lacks it.
func (s *Snapshot) File(ctx context.Context, path string) (string, error) {
	e, ok := s.tree[path]
	if !ok {
		return "", fmt.Errorf("%s: %w", path, os.ErrNotExist)
	}
	local, err := s.repo.file(ctx, s.Commit, e)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return local, nil
}

// list returns the commit of a revision and its files, from the hub or the cache.
func (r *Repo) list(ctx context.Context, revision string) (string, map[string]entry, error) {
	if r.o.Offline {
		commit, err := r.cachedCommit(revision)
		if err != nil {
			return "", nil, err
		}
		tree, err := r.cachedTree(commit)
		return commit, tree, err
	}
	commit, err := r.commit(ctx, revision)
	if err != nil {
		return "", nil, err
	}
	tree, err := r.tree(ctx, commit)
	if err != nil {
		return "", nil, err
	}
	if revision == commit {
		return commit, tree, nil
	}
	return commit, tree, replaceFile(filepath.Join(r.dir, "refs", filepath.FromSlash(revision)), []byte(commit))
}

// cachedCommit reads refs/REVISION; a whole commit id needs no such file.
func (r *Repo) cachedCommit(revision string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.dir, "refs", filepath.FromSlash(revision)))
	if err == nil && isCommit(strings.TrimSpace(string(text))) {
		return strings.TrimSpace(string(text)), nil
	}
	if isCommit(revision) {
		return revision, nil
	}
	return "", fmt.Errorf("%s of %s: %w", revision, r.name, ErrOffline)
}

// cachedTree lists the files of a snapshot.
func (r *Repo) cachedTree(commit string) (map[string]entry, error) {
	root := filepath.Join(r.dir, "snapshots", commit)
	tree := map[string]entry{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		tree[filepath.ToSlash(rel)] = entry{Path: filepath.ToSlash(rel), Size: info.Size()}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("commit %s of %s: %w", commit, r.name, ErrOffline)
	}
	return tree, err
}

func isCommit(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

// file returns the local path of one file, downloading it when the cache lacks it.
func (r *Repo) file(ctx context.Context, commit string, e entry) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(e.Path)) {
		return "", fmt.Errorf("the path leaves its repository")
	}
	link := filepath.Join(r.dir, "snapshots", commit, filepath.FromSlash(e.Path))
	if _, err := os.Stat(link); err == nil {
		return link, nil
	}
	if r.o.Offline {
		return "", ErrOffline
	}
	blob, err := r.download(ctx, commit, e)
	if err != nil {
		return "", err
	}
	return link, symlink(blob, link)
}

// symlink makes link point at blob by a relative path, atomically.
func symlink(blob, link string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	rel, err := filepath.Rel(filepath.Dir(link), blob)
	if err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.hermes-%d", link, os.Getpid())
	if err := os.Symlink(rel, tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, link); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// replaceFile writes a small file atomically.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".hermes-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
