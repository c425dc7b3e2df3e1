package datasets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"hermes/datasets/scan"
	"hermes/trajectory"
)

// takeOverride takes the key hermes and its aliases at the top level.
func takeOverride(row *Row, aliases *Overrides, f scan.Field) (bool, error) {
	switch f.Key {
	case "hermes":
		return true, hermesObject(&row.Hermes, f.Value)
	case "docker_image":
		return true, setImage(&aliases.Image, f.Value)
	case "cwd":
		return true, setText(&aliases.Cwd, f.Value)
	case "image":
		if scan.Kind(f.Value) != "text" || aliases.Image != "" {
			return false, nil
		}
		text, err := scan.Unquote(f.Value)
		if err != nil || !IsImage(text) {
			return false, nil // a picture, or anything else: metadata
		}
		aliases.Image = text
		return true, nil
	}
	return false, nil
}

// hermesObject reads the object hermes; it may also stand as JSON text, because a
// table cell cannot nest. Unknown keys are errors.
func hermesObject(h *Overrides, v []byte) error {
	if scan.Null(v) {
		return nil
	}
	if scan.Kind(v) == "text" {
		text, err := scan.Unquote(v)
		if err != nil {
			return err
		}
		v = []byte(text)
	}
	fields, err := scan.Object(v, nil, nil)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if scan.Null(f.Value) {
			continue
		}
		if err := hermesField(h, f); err != nil {
			return fmt.Errorf("%s: %w", f.Key, err)
		}
	}
	return nil
}

func hermesField(h *Overrides, f scan.Field) (err error) {
	switch f.Key {
	case "image":
		return setImage(&h.Image, f.Value)
	case "cwd":
		return setText(&h.Cwd, f.Value)
	case "files":
		h.Files, err = textMap(f.Value)
		for _, name := range sortedKeys(h.Files) {
			if err := filePath(name); err != nil {
				return err
			}
		}
		return err
	case "env":
		h.Env, err = textMap(f.Value)
		for name, value := range h.Env {
			if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(value, 0) >= 0 {
				return fmt.Errorf("%q cannot be an environment variable", name)
			}
		}
		return err
	case "toolsets":
		h.Toolsets, err = textList(f.Value)
		return err
	case "network":
		h.Network, err = network(f.Value)
		return err
	case "artifacts":
		h.Artifacts, err = textList(f.Value)
		if err != nil {
			return err
		}
		for _, name := range h.Artifacts {
			if err := filePath(name); err != nil {
				return err
			}
		}
		return nil
	case "verify":
		h.Verify, err = verify(f.Value)
		return err
	case "processes":
		if err := setText(&h.Processes, f.Value); err != nil || h.Processes != "keep" {
			return errors.Join(err, fmt.Errorf("%q: have keep", h.Processes))
		}
		return nil
	case "system":
		text, err := scan.Unquote(f.Value)
		h.System = &text
		return err
	case "prefill":
		h.Prefill, err = prefill(f.Value)
		return err
	case "script":
		if k := scan.Kind(f.Value); k != "a list" {
			return fmt.Errorf("%s, want a list of assistant turns", k)
		}
		h.Script = f.Value
		return nil
	}
	return errors.New("unknown key (have image, cwd, files, env, toolsets, network, artifacts, verify, processes, system, prefill, script)")
}

// verify reads a mode, or {mode, image, paths}.
func verify(v []byte) (out Verify, err error) {
	if scan.Kind(v) == "text" {
		out.Mode, err = scan.Unquote(v)
	} else {
		d := json.NewDecoder(bytes.NewReader(v))
		d.DisallowUnknownFields()
		err = d.Decode(&out)
	}
	if err != nil {
		return out, err
	}
	switch {
	case out.Mode != "same" && out.Mode != "fresh" && out.Mode != "separate":
		return out, fmt.Errorf("%q: have same, fresh, separate", out.Mode)
	case (out.Mode == "separate") != (out.Image != ""):
		return out, fmt.Errorf("mode %s, image %q: separate wants an image, and no other mode has one", out.Mode, out.Image)
	case out.Image != "" && !IsImage(out.Image):
		return out, fmt.Errorf("image %q is no image", out.Image)
	case len(out.Paths) > 0 && out.Mode == "same":
		return out, errors.New("paths: nothing is copied where the mode is same")
	}
	for _, name := range out.Paths {
		if err := filePath(name); err != nil {
			return out, err
		}
	}
	return out, nil
}

// prefill reads the turns that stand before the task: user and assistant only.
func prefill(v []byte) ([]trajectory.Message, error) {
	if k := scan.Kind(v); k != "a list" {
		return nil, fmt.Errorf("%s, want a list of messages", k)
	}
	all, err := conversation(v, false)
	if err != nil {
		return nil, err
	}
	for i, m := range all {
		if m.Role != trajectory.User && m.Role != trajectory.Assistant {
			return nil, fmt.Errorf("message %d: role %q, want user or assistant", i, m.Role)
		}
	}
	return all, nil
}

func setText(to *string, v []byte) error {
	if scan.Null(v) {
		return nil
	}
	text, err := scan.Unquote(v)
	if err == nil && strings.IndexByte(text, 0) >= 0 {
		err = errors.New("holds a NUL character")
	}
	if err == nil && text != "" {
		*to = text
	}
	return err
}

func setImage(to *string, v []byte) error {
	var text string
	if err := setText(&text, v); err != nil {
		return err
	}
	if text == "" {
		return nil
	}
	if strings.ContainsAny(text, " \t\r\n") || text[0] == '-' {
		return fmt.Errorf("%q is not an image reference", text)
	}
	*to = text
	return nil
}

func textMap(v []byte) (map[string]string, error) {
	fields, err := scan.Object(v, nil, nil)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(fields))
	for _, f := range fields {
		if scan.Null(f.Value) {
			continue // tables write null where another row has the key
		}
		out[f.Key], err = scan.Unquote(f.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Key, err)
		}
	}
	return out, nil
}

// textList reads a list of texts, or one text with commas.
func textList(v []byte) ([]string, error) {
	if scan.Kind(v) == "text" {
		text, err := scan.Unquote(v)
		if err != nil {
			return nil, err
		}
		var out []string
		for _, s := range strings.Split(text, ",") {
			s = strings.TrimSpace(s)
			if s != "" {
				out = append(out, s)
			}
		}
		return out, nil
	}
	items, err := scan.Array(v, nil)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(items))
	for i, item := range items {
		out[i], err = scan.Unquote(item)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return out, nil
}

// network reads "none", or a list of hosts: of what boxes may reach a row wants no more.
func network(v []byte) ([]string, error) {
	if scan.Kind(v) != "text" {
		return textList(v)
	}
	if text, err := scan.Unquote(v); err != nil || text != "none" {
		return nil, errors.Join(err, fmt.Errorf("%s, want \"none\" or a list of hosts", v))
	}
	return []string{}, nil
}

// filePath refuses names that cannot be files of a box or that climb.
func filePath(name string) error {
	switch {
	case name == "" || strings.HasSuffix(name, "/"):
		return fmt.Errorf("%q is not a file name", name)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%q holds a NUL character", name)
	case strings.HasPrefix(path.Clean(name), ".."), strings.Contains(name, "/../"):
		return fmt.Errorf("%q climbs out of its directory", name)
	}
	return nil
}

// IsImage tells whether text reads as a container image reference, such as
// "debian:12" or "ghcr.io/org/name@sha256:…": the form of the key image that is an
// override. Addresses, picture files and encoded pictures are none.
func IsImage(text string) bool {
	if text == "" || len(text) > 400 {
		return false
	}
	rest, digest, hasDigest := strings.Cut(text, "@")
	if hasDigest && !isDigest(digest) {
		return false
	}
	name, tag := rest, ""
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		name, tag = rest[:i], rest[i+1:]
		if tag == "" || len(tag) > 128 || !every(tag, tagByte) || tag[0] == '.' || tag[0] == '-' {
			return false
		}
	}
	parts := strings.Split(name, "/")
	if len(parts) > 1 && (strings.ContainsAny(parts[0], ".:") || parts[0] == "localhost") {
		if parts[0][0] == '.' || parts[0][0] == ':' || !every(parts[0], hostByte) {
			return false
		}
		parts = parts[1:]
	}
	for _, p := range parts {
		if p == "" || !every(p, nameByte) || !alnum(p[0]) || !alnum(p[len(p)-1]) {
			return false
		}
	}
	return tag != "" || hasDigest || !pictureName(name)
}

func pictureName(name string) bool {
	switch path.Ext(name) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg", ".avif", ".heic":
		return true
	}
	return false
}

func isDigest(s string) bool {
	algorithm, sum, ok := strings.Cut(s, ":")
	return ok && algorithm != "" && len(sum) >= 32 && every(sum, func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' })
}

func every(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func alnum(c byte) bool    { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
func nameByte(c byte) bool { return alnum(c) || c == '.' || c == '_' || c == '-' }
func tagByte(c byte) bool  { return nameByte(c) || c >= 'A' && c <= 'Z' }
func hostByte(c byte) bool { return tagByte(c) || c == ':' }
