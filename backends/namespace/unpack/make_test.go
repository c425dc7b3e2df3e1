//go:build linux

package unpack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// then is when the files of the tests' archives were made.
var then = time.Date(2020, 2, 2, 2, 2, 2, 0, time.UTC)

// tarOf makes a tar. What an entry does not say is that of an ordinary file.
func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.text)), ModTime: then, Format: tar.FormatPAX}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		w.Write([]byte(e.text))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type entry struct {
	name, text, link string
	kind             byte
	mode             int64
}

func file(name, text string) entry { return entry{name: name, text: text, mode: 0o644} }
func dir(name string) entry        { return entry{name: name, kind: tar.TypeDir} }
func symlink(name, to string) entry {
	return entry{name: name, link: to, kind: tar.TypeSymlink}
}
func hardlink(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeLink} }

func zipped(raw []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(raw)
	w.Close()
	return out.Bytes()
}

func zstandard(raw []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(raw, nil)
}

func sum(raw []byte) string {
	s := sha256.Sum256(raw)
	return hex.EncodeToString(s[:])
}

// made is an image in parts, by their names.
type made map[string][]byte

// blob adds a part of a layout, and describes it.
func (m made) blob(kind string, raw []byte) map[string]any {
	m["blobs/sha256/"+sum(raw)] = raw
	return map[string]any{"mediaType": kind, "digest": "sha256:" + sum(raw), "size": len(raw)}
}

func encoded(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// picture is an image to be made.
type picture struct {
	layers [][]byte // as they are compressed, or not
	plain  [][]byte // the same without compression
	arch   string
	env    []string
	dir    string
}

func (p picture) config() []byte {
	diffs := []string{}
	for _, l := range p.plain {
		diffs = append(diffs, "sha256:"+sum(l))
	}
	if p.arch == "" {
		p.arch = runtime.GOARCH
	}
	return encoded(map[string]any{
		"os":           "linux",
		"architecture": p.arch,
		"config":       map[string]any{"Env": p.env, "WorkingDir": p.dir, "User": "nobody", "Cmd": []string{"sleep"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": diffs},
	})
}

// manifest adds an image to a layout.
func (m made) manifest(p picture) map[string]any {
	layers := []any{}
	for _, l := range p.layers {
		layers = append(layers, m.blob("application/vnd.oci.image.layer.v1.tar+gzip", l))
	}
	d := m.blob("application/vnd.oci.image.manifest.v1+json", encoded(map[string]any{"schemaVersion": 2,
		"config": m.blob("application/vnd.oci.image.config.v1+json", p.config()), "layers": layers}))
	arch := p.arch
	if arch == "" {
		arch = runtime.GOARCH
	}
	d["platform"] = map[string]any{"os": "linux", "architecture": arch}
	return d
}

func tagged(d map[string]any, tag string) map[string]any {
	d = maps.Clone(d)
	d["annotations"] = map[string]string{"org.opencontainers.image.ref.name": tag}
	return d
}

// index makes a layout of what it is to name.
func (m made) index(manifests ...map[string]any) made {
	m["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	m["index.json"] = encoded(map[string]any{"schemaVersion": 2, "manifests": manifests})
	return m
}

// saved makes what `docker save` wrote before it wrote layouts.
func saved(p picture, tags ...string) made {
	m := made{}
	names := []string{}
	for i, l := range p.plain {
		name := sum([]byte{byte(i)}) + "/layer.tar"
		m[name] = l
		names = append(names, name)
	}
	m[sum(p.config())+".json"] = p.config()
	m["manifest.json"] = encoded([]any{map[string]any{"Config": sum(p.config()) + ".json", "RepoTags": tags, "Layers": names}})
	return m
}

// tar puts the parts into one.
func (m made) tar(t testing.TB) []byte {
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(m)) {
		entries = append(entries, file(name, string(m[name])))
	}
	return tarOf(t, entries...)
}

// folder puts the parts into one.
func (m made) folder(t testing.TB) string {
	t.Helper()
	at := t.TempDir()
	for name, raw := range m {
		to := filepath.Join(at, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

func write(t testing.TB, name string, raw []byte) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(at, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

// listing is a tree as text: kind, mode and content by path.
func listing(t testing.TB, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			all[rel] = "-> " + to
			return err
		case d.IsDir():
			all[rel] = "dir"
		case d.Type().IsRegular():
			raw, err := os.ReadFile(p)
			all[rel] = string(raw)
			return err
		default:
			all[rel] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
