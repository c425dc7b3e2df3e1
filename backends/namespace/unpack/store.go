//go:build linux

package unpack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// In the folder of a store are, for each image, KEY/ with root/ and image.json, KEY.lock,
// KEY.tmp/ while it is being unpacked, and SOURCE.seen, which says which image a file was
// when it had that size and time.
const (
	imageFile = "image.json"
	rootDir   = "root"
	lockEnd   = ".lock"
	tempEnd   = ".tmp"
	seenEnd   = ".seen"
)

// format is part of every key: it changes when the same archive would be unpacked to
// something else.
const format = "1"

// key names what an image becomes when this user unpacks it.
func key(id string) string { return name(fmt.Sprintf("hermes %s %d %s", format, os.Geteuid(), id)) }

func name(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:20])
}

// get finds an image in the store, or unpacks it.
func (s *Store) get(ctx context.Context, r Ref, state string) (Image, error) {
	if err := s.makeDir(); err != nil {
		return Image{}, err
	}
	note := filepath.Join(s.dir, name(r.source())+seenEnd)
	var seen struct{ State, Key string }
	if raw, err := os.ReadFile(note); err == nil && json.Unmarshal(raw, &seen) == nil && seen.State == state && len(seen.Key) == len(key("")) {
		if img, err := s.load(filepath.Base(seen.Key)); err == nil {
			return img, nil
		}
	}
	p, err := s.read(ctx, r)
	if err != nil {
		return Image{}, err
	}
	defer p.close()
	seen.State, seen.Key = state, key(p.id)
	img, err := s.ensure(ctx, seen.Key, p)
	if err != nil {
		return Image{}, err
	}
	if raw, err := json.Marshal(seen); err == nil { // without it the next process reads the archive once more
		if temp := note + tempEnd; os.WriteFile(temp, raw, 0o600) == nil {
			os.Rename(temp, note)
		}
	}
	return img, nil
}

// makeDir makes the folder. What others may write to is not to be trusted.
func (s *Store) makeDir() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make the store of images (set store to another folder): %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(s.dir, &st); err != nil {
		return fmt.Errorf("store of images %s: %w", s.dir, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("store of images %s: it belongs to uid %d with mode %o: want one that only uid %d can write to; set store to another folder, or chmod go-w it", s.dir, st.Uid, st.Mode&0o7777, os.Geteuid())
	}
	return nil
}

// load reads what is known of an unpacked image.
func (s *Store) load(key string) (img Image, err error) {
	raw, err := os.ReadFile(filepath.Join(s.dir, key, imageFile))
	if err != nil {
		return Image{}, err
	}
	if err := json.Unmarshal(raw, &img); err != nil {
		return Image{}, err
	}
	img.Root = filepath.Join(s.dir, key, rootDir)
	if !isDir(img.Root) {
		return Image{}, fs.ErrNotExist
	}
	return img, nil
}

// ensure unpacks an image unless it is there. One process at a time does.
func (s *Store) ensure(ctx context.Context, key string, p *picture) (Image, error) {
	unlock, err := backends.LockFile(ctx, filepath.Join(s.dir, key+lockEnd))
	if err != nil {
		return Image{}, fmt.Errorf("wait for whoever unpacks it: %w", err)
	}
	defer unlock()
	if img, err := s.load(key); err == nil {
		return img, nil
	}
	at, temp := filepath.Join(s.dir, key), filepath.Join(s.dir, key+tempEnd)
	// Who holds the lock may remove: what is there is left from one who died.
	if err := errors.Join(os.RemoveAll(temp), os.RemoveAll(at)); err != nil {
		return Image{}, fmt.Errorf("remove a dead unpacking: %w", err)
	}
	if err := s.fill(ctx, temp, p); err != nil {
		return Image{}, errors.Join(err, os.RemoveAll(temp))
	}
	if err := os.Rename(temp, at); err != nil {
		return Image{}, errors.Join(fmt.Errorf("put the image in its place: %w", err), os.RemoveAll(temp))
	}
	return s.load(key)
}

// fill unpacks to a temporary folder, all of it on disk at the end.
func (s *Store) fill(ctx context.Context, temp string, p *picture) error {
	root := filepath.Join(temp, rootDir)
	if err := errors.Join(os.Mkdir(temp, 0o700), os.Mkdir(root, 0o755), os.Chmod(root, 0o755)); err != nil {
		return fmt.Errorf("make a folder in the store: %w", err)
	}
	if err := apply(ctx, root, p.layers, s.opt); err != nil {
		return err
	}
	raw, err := json.Marshal(p.image)
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, imageFile), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("note what the image is: %w", err)
	}
	f, err := os.Open(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil { // a crash must not leave empty files under the final name
		return fmt.Errorf("bring the image to disk: %w", err)
	}
	return nil
}

// Sweep removes what unpackings left that have died, and returns how many those were.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("sweep the store of images: %w", err)
	}
	var errs []error
	for _, e := range entries {
		key, ok := strings.CutSuffix(e.Name(), tempEnd)
		if !ok || !e.IsDir() || ctx.Err() != nil {
			continue
		}
		f, err := os.OpenFile(filepath.Join(s.dir, key+lockEnd), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if err = os.RemoveAll(filepath.Join(s.dir, e.Name())); err == nil {
				removed++
			}
			errs = append(errs, err)
		}
		f.Close()
	}
	if err := errors.Join(append(errs, context.Cause(ctx))...); err != nil {
		return removed, fmt.Errorf("sweep the store of images: %w", err)
	}
	return removed, nil
}
