//go:build linux

package unpack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// picture is an image that can be unpacked.
type picture struct {
	id     string // names its content
	image  Image
	layers []layer
	closed []io.Closer
}

func (p *picture) close() {
	for _, c := range p.closed {
		c.Close()
	}
}

// layer is a tar of which a root file system is made, the first below all others.
type layer struct {
	name   string
	open   func() (io.ReadCloser, int64, error)
	digest string // of it as it is; empty: not known
	size   int64  // of it as it is; -1: not known
	diff   string // digest without compression; empty: not known
	hides  bool   // its whiteouts remove what is below
}

// read finds out what a Ref leads to.
func (s *Store) read(ctx context.Context, r Ref) (*picture, error) {
	if r.Kind == Layout {
		return readLayout(folder(r.Path), r.Tag)
	}
	if r.Kind != Tar {
		return nil, fault("%s is no archive", r.Path)
	}
	f, size, err := openFile(r.Path)
	if err != nil {
		return nil, fault("%w", err)
	}
	sc, err := scanTar(ctx, f, size, s.opt)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if inParts := sc.has(layoutFile) && sc.has(indexFile) || sc.has(manifestFile); !inParts {
		return plainTar(r, f, sc)
	}
	p, err := s.readParts(ctx, r, &archive{file: f, parts: sc.parts}, sc)
	if err == nil || !errors.Is(err, errNotParts) {
		if err != nil {
			f.Close()
		}
		return p, err
	}
	return plainTar(r, f, sc)
}

// errNotParts says that a file called manifest.json is something else.
var errNotParts = errors.New("not an image in parts")

// plainTar is an image whose tar is the root file system itself.
func plainTar(r Ref, f io.Closer, sc scan) (*picture, error) {
	if r.Tag != "" {
		return nil, errors.Join(fault("%s is a tar of one root file system: it has no tag %q", r.Path, r.Tag), f.Close())
	}
	return &picture{id: "tar " + sc.digest, image: Image{Digest: sc.digest}, closed: []io.Closer{f}, layers: []layer{{
		name: r.Path, digest: sc.digest, size: sc.size, open: func() (io.ReadCloser, int64, error) {
			f, size, err := openFile(r.Path)
			return f, size, err
		}}}}, nil
}

// readParts reads an image of a tar that holds its parts.
func (s *Store) readParts(ctx context.Context, r Ref, a *archive, sc scan) (*picture, error) {
	original := a.file
	if sc.packed {
		f, err := s.expand(ctx, a.file, sc)
		if err != nil {
			return nil, err
		}
		a.file = f
	}
	read := readSaved
	if sc.has(layoutFile) && sc.has(indexFile) {
		read = readLayout
	}
	p, err := read(a, r.Tag)
	if err != nil {
		if a.file != original {
			a.file.Close()
		}
		return nil, err
	}
	p.closed = []io.Closer{original, a.file}
	return p, nil
}

// descriptor names a part of an OCI image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform"`
	Annotations map[string]string `json:"annotations"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

func (p platform) String() string { return p.OS + "/" + p.Architecture }

// ours reports whether boxes of this machine run it. What says nothing may.
func (p platform) ours() bool {
	return (p.OS == "" || p.OS == "linux") && (p.Architecture == "" || p.Architecture == runtime.GOARCH)
}

// document is an index or a manifest.
type document struct {
	Schema    int          `json:"schemaVersion"`
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

// config is what an image says of itself, as far as boxes look at it.
type config struct {
	platform
	Config struct {
		Env        []string
		WorkingDir string
	} `json:"config"`
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Names that are looked for.
const (
	refName    = "org.opencontainers.image.ref.name"
	fullName   = "io.containerd.image.name"
	mostLayers = 1024
	mostNested = 4 // indexes within indexes
)

var (
	isDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	hexName  = regexp.MustCompile(`[0-9a-f]{64}`)
)

// blobName is where a layout has a part.
func (d descriptor) blobName() (string, error) {
	if !isDigest.MatchString(d.Digest) {
		return "", fault("the digest %q: hermes reads sha256 digests only", d.Digest)
	}
	if d.Size < 0 {
		return "", fault("part %s has a size of %d bytes", d.Digest, d.Size)
	}
	return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:"), nil
}

// whole reads a small part of a layout, verified.
func (d descriptor) whole(b blobs, what string) ([]byte, error) {
	name, err := d.blobName()
	if err != nil {
		return nil, err
	}
	r, _, err := b.open(name)
	if err != nil {
		return nil, missing(what+" "+d.Digest, err)
	}
	defer r.Close()
	raw, err := short(verify(r, what+" "+d.Digest, d.Digest, d.Size), what)
	if err != nil {
		return nil, blame(context.Background(), what, err)
	}
	return raw, nil
}

func missing(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault("%s is missing: copy the image again, whole", what)
	}
	return fault("%s: %w", what, err)
}

func decode(raw []byte, what string, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fault("%s is not the JSON that it should be: %w", what, err)
	}
	return nil
}

// readLayout reads an OCI image layout.
func readLayout(b blobs, tag string) (*picture, error) {
	r, _, err := b.open(indexFile)
	if err != nil {
		return nil, missing(indexFile, err)
	}
	defer r.Close()
	raw, err := short(r, indexFile)
	if err != nil {
		return nil, blame(context.Background(), indexFile, err)
	}
	var index document
	if err := decode(raw, indexFile, &index); err != nil {
		return nil, err
	}
	list, err := tagged(index.Manifests, tag)
	if err != nil {
		return nil, err
	}
	d, err := choose(b, list, mostNested)
	if err != nil {
		return nil, err
	}
	return readManifest(b, d)
}

// tagged keeps the images that a tag means. Without a tag it is all.
func tagged(all []descriptor, tag string) (list []descriptor, err error) {
	var have []string
	for _, d := range all {
		short, full := d.Annotations[refName], d.Annotations[fullName]
		if name := cmp.Or(full, short); name != "" {
			have = append(have, name)
		}
		if tag == "" || short == tag || full == tag || strings.HasSuffix(full, "/"+tag) {
			list = append(list, d)
		}
	}
	if len(list) == 0 && tag != "" {
		return nil, fault("it has no image with the tag %q (%s): it has %s", tag, refName, listed(have))
	}
	return list, nil
}

func listed(names []string) string {
	if slices.Sort(names); len(names) == 0 {
		return "none with a tag"
	}
	return strings.Join(slices.Compact(names), ", ")
}

// choose finds the one manifest for this machine.
func choose(b blobs, list []descriptor, nested int) (descriptor, error) {
	var fits []descriptor
	var other, names []string
	for _, d := range list {
		switch {
		case d.Annotations["vnd.docker.reference.type"] != "", d.Platform != nil && d.Platform.Architecture == "unknown":
			continue // says something about an image
		case d.Platform != nil && !d.Platform.ours():
			other = append(other, d.Platform.String())
			continue
		case slices.ContainsFunc(fits, func(f descriptor) bool { return f.Digest == d.Digest }):
			continue // one image with two tags
		}
		fits = append(fits, d)
		names = append(names, cmp.Or(d.Annotations[fullName], d.Annotations[refName], d.Digest))
	}
	if len(fits) == 0 {
		if len(other) == 0 {
			return descriptor{}, fault("its index names no image")
		}
		return descriptor{}, fault("it is for %s, and this machine runs linux/%s: get the image for this platform", listed(other), runtime.GOARCH)
	}
	if len(fits) > 1 {
		return descriptor{}, fault("it holds %d images (%s): say which, as oci:PATH:TAG or tar:PATH:TAG", len(fits), listed(names))
	}
	d := fits[0]
	raw, err := d.whole(b, "manifest")
	if err != nil {
		return d, err
	}
	var doc document
	if err := decode(raw, "manifest "+d.Digest, &doc); err != nil {
		return d, err
	}
	if len(doc.Manifests) == 0 {
		return d, nil
	}
	if nested == 0 {
		return d, fault("its indexes are nested more than %d deep", mostNested)
	}
	return choose(b, doc.Manifests, nested-1)
}

// readManifest reads the image of a manifest.
func readManifest(b blobs, d descriptor) (*picture, error) {
	raw, err := d.whole(b, "manifest")
	if err != nil {
		return nil, err
	}
	var m document
	if err := decode(raw, "manifest "+d.Digest, &m); err != nil {
		return nil, err
	}
	switch m.Config.MediaType {
	case "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json":
	default:
		return nil, fault("manifest %s (version %d) has a configuration of type %q: it is not an image of OCI or Docker", d.Digest, m.Schema, m.Config.MediaType)
	}
	raw, err = m.Config.whole(b, "configuration")
	if err != nil {
		return nil, err
	}
	p := &picture{id: "manifest " + d.Digest, image: Image{Digest: d.Digest}}
	diffs, err := p.configure(raw, len(m.Layers))
	if err != nil {
		return nil, err
	}
	for i, l := range m.Layers {
		name, err := l.blobName()
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(l.MediaType, "application/vnd.oci.image.layer.") && !strings.HasPrefix(l.MediaType, "application/vnd.docker.image.rootfs.") || strings.Contains(l.MediaType, "encrypted") {
			return nil, fault("layer %s is of type %q, which is no tar that hermes can read", l.Digest, l.MediaType)
		}
		p.layers = append(p.layers, layer{name: "layer " + l.Digest, digest: l.Digest, size: l.Size, diff: diffs[i], hides: true,
			open: func() (io.ReadCloser, int64, error) { return b.open(name) }})
	}
	return p, nil
}

// configure takes what the configuration of an image says.
func (p *picture) configure(raw []byte, layers int) (diffs []string, err error) {
	var c config
	if err := decode(raw, "the image's configuration", &c); err != nil {
		return nil, err
	}
	if !c.ours() {
		return nil, fault("it is for %s, and this machine runs linux/%s: get the image for this platform", c.platform, runtime.GOARCH)
	}
	diffs = c.RootFS.DiffIDs
	if layers != len(diffs) || layers > mostLayers {
		return nil, fault("it has %d layers and %d digests of layers (at most %d can be)", layers, len(diffs), mostLayers)
	}
	for _, d := range diffs {
		if !isDigest.MatchString(d) {
			return nil, fault("the digest of a layer %q: hermes reads sha256 digests only", d)
		}
	}
	for _, v := range c.Config.Env {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" || strings.Contains(v, "\x00") || len(v) > longestVariable {
			return nil, fault("its environment has %.60q, which is no variable", v)
		}
		if p.image.Env == nil {
			p.image.Env = map[string]string{}
		}
		p.image.Env[name] = value
	}
	if dir := c.Config.WorkingDir; dir != "" {
		if strings.Contains(dir, "\x00") || len(dir) > longestPath {
			return nil, fault("its working directory %.60q is no path", dir)
		}
		p.image.Dir = path.Clean("/" + dir)
	}
	return diffs, nil
}

// longestVariable is what the kernel takes as one string.
const longestVariable = 128<<10 - 1

// saved is an image in the manifest of `docker save`.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// readSaved reads what `docker save` wrote before it wrote layouts, and podman still does.
func readSaved(b blobs, tag string) (*picture, error) {
	r, _, err := b.open(manifestFile)
	if err != nil {
		return nil, missing(manifestFile, err)
	}
	defer r.Close()
	raw, err := short(r, manifestFile)
	if err != nil {
		return nil, blame(context.Background(), manifestFile, err)
	}
	var all []saved
	if json.Unmarshal(raw, &all) != nil || len(all) == 0 || slices.ContainsFunc(all, func(s saved) bool { return s.Config == "" }) {
		return nil, errNotParts
	}
	fits, have := map[string]saved{}, []string(nil)
	for _, s := range all {
		have = append(have, s.RepoTags...)
		if tag == "" || slices.ContainsFunc(s.RepoTags, func(t string) bool { return t == tag || strings.HasSuffix(t, ":"+tag) }) {
			fits[s.Config] = s
		}
	}
	switch {
	case len(fits) == 0:
		return nil, fault("it has no image with the tag %q: it has %s", tag, listed(have))
	case len(fits) > 1:
		return nil, fault("it holds %d images (%s): say which, as tar:PATH:TAG", len(fits), listed(have))
	}
	s := fits[slices.Collect(maps.Keys(fits))[0]]
	c, _, err := b.open(s.Config)
	if err != nil {
		return nil, missing("configuration "+s.Config, err)
	}
	defer c.Close()
	raw, err = short(c, s.Config)
	if err != nil {
		return nil, blame(context.Background(), s.Config, err)
	}
	sum := sha256.Sum256(raw)
	digest := hex.EncodeToString(sum[:])
	if want := hexName.FindString(path.Base(s.Config)); want != "" && want != digest {
		return nil, fault("configuration %s has the digest sha256:%s: it is damaged, save the image again", s.Config, digest)
	}
	p := &picture{id: "config sha256:" + digest, image: Image{Digest: "sha256:" + digest}}
	diffs, err := p.configure(bytes.TrimSpace(raw), len(s.Layers))
	if err != nil {
		return nil, err
	}
	for i, name := range s.Layers {
		p.layers = append(p.layers, layer{name: fmt.Sprintf("layer %s (%s)", name, diffs[i]), size: -1, diff: diffs[i], hides: true,
			open: func() (io.ReadCloser, int64, error) { return b.open(name) }})
	}
	return p, nil
}
