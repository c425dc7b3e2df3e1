package build

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"hermes/datasets"
	"hermes/datasets/hub"
	"hermes/datasets/samples"
)

// OpenRows opens datasets; samples:tasks are the built-in tasks, samples:shell those of
// them that need no python3.
func OpenRows(ctx context.Context, o datasets.Options, specs ...string) (*datasets.Dataset, error) {
	name, sample := strings.CutPrefix(specs[0], "samples:")
	if !sample {
		return datasets.Open(ctx, o, specs...)
	}
	if len(specs) > 1 {
		return nil, errors.New("samples cannot be read together with other datasets")
	}
	switch name {
	case "tasks":
		return datasets.Inline("samples:tasks", string(samples.Tasks()), o)
	case "shell":
		return datasets.Inline("samples:shell", string(samples.WithoutCode()), o)
	}
	return nil, fmt.Errorf("dataset samples:%s: have samples:tasks and samples:shell (without code execution)", name)
}

// Hub finds the dataset hub's settings where Python's tools find them.
func Hub(env func(string) string, offline bool) hub.Options {
	cache := env("HF_HUB_CACHE")
	if cache == "" && env("HF_HOME") != "" {
		cache = filepath.Join(env("HF_HOME"), "hub")
	}
	if cache == "" && env("HOME") != "" {
		cache = filepath.Join(env("HOME"), ".cache", "huggingface", "hub")
	}
	switch env("HF_HUB_OFFLINE") {
	case "1", "true", "TRUE", "yes", "on":
		offline = true
	}
	return hub.Options{Endpoint: env("HF_ENDPOINT"), Token: env("HF_TOKEN"), Cache: cache, Offline: offline}
}
