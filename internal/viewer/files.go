package viewer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"hermes/rollout/artifact"
	"hermes/rollout/diff"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

// file is one artifact of a sample.
type file struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

const (
	mostFiles = 1000    // of one sample, on the page
	mostFile  = 4 << 20 // bytes of one file
)

func unified(name, text [2]string) string { return diff.Unified(name[0], name[1], text[0], text[1]) }

// root opens the folder of a sample's artifacts; nothing outside of it can be reached.
func (s *opened) root(rec *trajectory.Record) (*os.Root, error) {
	return os.OpenRoot(artifact.Dir(filepath.Join(s.Dir, "artifacts"), rec.Row, rec.Sample))
}

func (s *opened) artifacts(rec *trajectory.Record) (list []file, err error) {
	root, err := s.root(rec)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		list = append(list, file{path, info.Size()})
		if len(list) >= mostFiles {
			return fs.SkipAll
		}
		return nil
	})
	return list, err
}

// artifact serves one file of a sample as plain text.
func (v *Viewer) artifact(w http.ResponseWriter, r *http.Request) {
	s, _, rec, err := v.find(r.FormValue("run"), r.FormValue("key"), "")
	var data []byte
	if err == nil {
		data, err = s.readArtifact(rec, r.FormValue("name"))
	}
	if err != nil {
		refuse(w, err)
		return
	}
	if diff.Binary(data) {
		data = fmt.Appendf(nil, "(%d bytes that are no text)\n", len(data))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write(data)
}

func (s *opened) readArtifact(rec *trajectory.Record, name string) ([]byte, error) {
	root, err := s.root(rec)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q: %w", name, fs.ErrNotExist)
	}
	data, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if len(data) > mostFile {
		data = append(data[:mostFile], "\n(the rest is too long to be shown)\n"...)
	}
	return data, err
}

// refuse answers a request for a file that cannot be had.
func refuse(w http.ResponseWriter, err error) {
	var known *apiError
	switch {
	case errors.As(err, &known):
		http.Error(w, known.text, known.status)
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "no such file", http.StatusNotFound)
	default:
		http.Error(w, "the file cannot be read", http.StatusBadRequest) // a name that leaves the folder
	}
}

// blob serves an image of a message. What is no image that browsers draw without running
// anything is refused.
func (v *Viewer) blob(w http.ResponseWriter, r *http.Request) {
	s, err := v.run(r.FormValue("run"))
	var data []byte
	if err == nil {
		data, err = rundir.NewBlobs(nil, s.Dir).Get(r.FormValue("name"))
	}
	if err != nil {
		refuse(w, err)
		return
	}
	kind := imageKind(data)
	if kind == "" {
		http.Error(w, "no image", http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(data)
}

// imageKind is the media type of an image that browsers draw without running anything; empty:
// it is none.
func imageKind(data []byte) string {
	kind := http.DetectContentType(data)
	if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		return ""
	}
	return kind
}
