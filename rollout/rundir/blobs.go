package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"hermes/rollout/journal"
)

// Blobs keeps the large parts of records in the folder blobs/, each under the SHA-256 of
// its content. It is safe for concurrent use, also by several processes.
type Blobs struct {
	dir string
	fs  journal.FS
}

// NewBlobs is the blob store of a run directory; nil fsys means the real file system.
func NewBlobs(fsys journal.FS, dir string) *Blobs {
	if fsys == nil {
		fsys = journal.OS{}
	}
	return &Blobs{dir: filepath.Join(dir, "blobs"), fs: fsys}
}

func (b *Blobs) path(name string) (string, error) {
	if raw, err := hex.DecodeString(name); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != name {
		return "", fmt.Errorf("blob %q: no SHA-256 in hexadecimal digits", name)
	}
	return filepath.Join(b.dir, name[:2], name), nil
}

// Put stores data and returns its name. When it returns the data is on disk.
func (b *Blobs) Put(data []byte) (string, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	path, err := b.path(name)
	if err != nil {
		return "", err
	}
	if have, err := b.Get(name); err == nil && len(have) == len(data) {
		return name, nil
	}
	dir := filepath.Dir(path)
	if err := b.fs.MkdirAll(dir); err != nil {
		return "", fmt.Errorf("blob %s: %w", name, err)
	}
	for _, d := range []string{b.dir, filepath.Dir(b.dir)} {
		if err := b.fs.SyncDir(d); err != nil {
			return "", fmt.Errorf("blob %s: %w", name, err)
		}
	}
	// Writers of the same blob write the same bytes, each to a separate file.
	tmp := path + "." + newID()
	if err := b.write(tmp, path, data); err != nil {
		return "", fmt.Errorf("blob %s: %w", name, err)
	}
	return name, nil
}

func (b *Blobs) write(tmp, path string, data []byte) error {
	f, err := b.fs.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = b.fs.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, b.fs.Remove(tmp))
	}
	return b.fs.SyncDir(filepath.Dir(path))
}

// Get returns a blob; damage is an error, a missing one is fs.ErrNotExist.
func (b *Blobs) Get(name string) ([]byte, error) {
	path, err := b.path(name)
	if err != nil {
		return nil, err
	}
	data, err := journal.ReadFile(b.fs, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("blob %s is damaged: its content has another SHA-256", name)
	}
	return data, nil
}
