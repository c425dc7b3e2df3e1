package hub

import (
	"context"
	"errors"

	"hermes/internal/hfhub"
)

// Options say where the hub and its cache are.
type Options = hfhub.Options

// ErrOffline says that the cache lacks what is needed and the hub may not be asked.
var ErrOffline = hfhub.ErrOffline

// File is one fetched data file.
type File struct {
	Name string // hf:owner/name/path, for messages
	Path string // on this machine
}

// Fetch finds the data files of r's configuration and split, downloads those that the
// cache lacks and returns them in the order of their rows.
func Fetch(ctx context.Context, r Ref, o Options) ([]File, error) {
	repo, err := hfhub.Open(hfhub.Datasets, r.Repo(), o)
	if err != nil {
		return nil, err
	}
	files, err := fetch(ctx, repo, r, r.revision())
	if !errors.Is(err, errNoData) || r.Revision != "" {
		return files, err
	}
	// A repository without files that we read often has a Parquet copy.
	converted, again := fetch(ctx, repo, r, "refs/convert/parquet")
	if again != nil {
		return nil, err
	}
	return converted, nil
}

func fetch(ctx context.Context, repo *hfhub.Repo, r Ref, revision string) ([]File, error) {
	s, err := repo.At(ctx, revision)
	if err != nil {
		return nil, err
	}
	card, err := readCard(ctx, s)
	if err != nil {
		return nil, err
	}
	paths, err := choose(s.Paths(), card, r.Config, r.Split)
	if err != nil {
		return nil, err
	}
	files := make([]File, len(paths))
	for i, path := range paths {
		local, err := s.File(ctx, path)
		if err != nil {
			return nil, err
		}
		files[i] = File{Name: "hf:" + r.Repo() + "/" + path, Path: local}
	}
	return files, nil
}
