package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Options say where the hub and its cache are. The caller fills them from its flags
// and environment (HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE).
type Options struct {
	Endpoint string       // "" means https://huggingface.co
	Token    string       // sent to the endpoint only, never to where it redirects
	Cache    string       // the folder with datasets--…; required
	Offline  bool         // use what the cache has, ask nobody
	Client   *http.Client // nil means http.DefaultClient's transport
	Log      func(string) // told of each download; may be nil
}

// File is one fetched data file.
type File struct {
	Name string // hf:owner/name/path, for messages
	Path string // on this machine
}

// ErrOffline says that the cache lacks what is needed and nobody may be asked.
var ErrOffline = errors.New("not in the cache, and offline")

// Fetch finds the data files of r's configuration and split, downloads those that the
// cache lacks and returns them in the order of their rows.
func Fetch(ctx context.Context, r Ref, o Options) ([]File, error) {
	if o.Cache == "" {
		return nil, errors.New("hub: no cache folder given")
	}
	if o.Endpoint == "" {
		o.Endpoint = "https://huggingface.co"
	}
	o.Endpoint = strings.TrimRight(o.Endpoint, "/")
	c := &client{o: o, ref: r, dir: filepath.Join(o.Cache, "datasets--"+strings.ReplaceAll(r.Repo(), "/", "--"))}
	files, err := c.fetch(ctx, r.revision())
	if !errors.Is(err, errNoData) || r.Revision != "" {
		return files, err
	}
	// A repository without files that we read often has a Parquet copy.
	converted, again := c.fetch(ctx, "refs/convert/parquet")
	if again != nil {
		return nil, err
	}
	return converted, nil
}

func (c *client) fetch(ctx context.Context, revision string) ([]File, error) {
	commit, tree, err := c.list(ctx, revision)
	if err != nil {
		return nil, fmt.Errorf("revision %s: %w", revision, err)
	}
	card, err := c.card(ctx, commit, tree)
	if err != nil {
		return nil, err
	}
	paths, err := choose(tree, card, c.ref.Config, c.ref.Split)
	if err != nil {
		return nil, err
	}
	files := make([]File, len(paths))
	for i, path := range paths {
		local, err := c.file(ctx, commit, tree[path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		files[i] = File{Name: "hf:" + c.ref.Repo() + "/" + path, Path: local}
	}
	return files, nil
}

// list returns the commit of a revision and its files, from the hub or the cache.
func (c *client) list(ctx context.Context, revision string) (string, map[string]entry, error) {
	if c.o.Offline {
		commit, err := c.cachedCommit(revision)
		if err != nil {
			return "", nil, err
		}
		tree, err := c.cachedTree(commit)
		return commit, tree, err
	}
	commit, err := c.commit(ctx, revision)
	if err != nil {
		return "", nil, err
	}
	tree, err := c.tree(ctx, commit)
	if err != nil {
		return "", nil, err
	}
	if revision == commit {
		return commit, tree, nil
	}
	return commit, tree, replaceFile(filepath.Join(c.dir, "refs", filepath.FromSlash(revision)), []byte(commit))
}

// cachedCommit reads refs/REVISION; a whole commit id stands for itself.
func (c *client) cachedCommit(revision string) (string, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "refs", filepath.FromSlash(revision)))
	if err == nil && isCommit(strings.TrimSpace(string(text))) {
		return strings.TrimSpace(string(text)), nil
	}
	if isCommit(revision) {
		return revision, nil
	}
	return "", fmt.Errorf("%s of %s: %w", revision, c.ref.Repo(), ErrOffline)
}

// cachedTree lists the files of a snapshot.
func (c *client) cachedTree(commit string) (map[string]entry, error) {
	root := filepath.Join(c.dir, "snapshots", commit)
	tree := map[string]entry{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		tree[filepath.ToSlash(rel)] = entry{Path: filepath.ToSlash(rel)}
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("commit %s of %s: %w", commit, c.ref.Repo(), ErrOffline)
	}
	return tree, err
}

func isCommit(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

// file returns the local path of one file, downloading it when the cache lacks it.
func (c *client) file(ctx context.Context, commit string, e entry) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(e.Path)) {
		return "", fmt.Errorf("the path leaves its repository")
	}
	link := filepath.Join(c.dir, "snapshots", commit, filepath.FromSlash(e.Path))
	if _, err := os.Stat(link); err == nil {
		return link, nil
	}
	if c.o.Offline {
		return "", ErrOffline
	}
	blob, err := c.download(ctx, commit, e)
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
