package cmd

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"
	"syscall"

	"hermes/datasets"
	"hermes/datasets/hub"
	"hermes/internal/app"
)

// rowOptions turns the flags about rows and the environment into options of datasets.
func (h *host) rowOptions(f app.RowFlags, seed int64) (datasets.Options, error) {
	o := datasets.Options{PromptKey: f.PromptKey, Shuffle: f.Shuffle, Seed: uint64(seed), Limit: f.Limit, Stdin: h.stdin(), Hub: h.hubOptions(f.Offline)}
	if f.Limit < 0 {
		return o, Usage("--limit %d: want 0 (all) or more", f.Limit)
	}
	if len(f.Map) > 0 {
		m, err := datasets.ParseMap(strings.Join(f.Map, ","))
		if err != nil {
			return o, Usage("--map: %w", err)
		}
		o.Map = m
	}
	if f.Shard != "" {
		s, err := datasets.ParseShard(f.Shard)
		if err != nil {
			return o, Usage("--shard: %w", err)
		}
		o.Shard = s
	}
	return o, nil
}

// hubOptions says where the hub and its cache are, by the variables that Python's
// huggingface_hub reads.
func (h *host) hubOptions(offline bool) hub.Options {
	o := hub.Options{Endpoint: h.Env.Get("HF_ENDPOINT"), Token: h.Env.Get("HF_TOKEN"), Offline: offline || truth(h.Env.Get("HF_HUB_OFFLINE"))}
	o.Log = func(text string) { h.Log.Info(text) }
	base := h.Env.Get("HF_HOME")
	if base == "" {
		if cache := h.Env.Get("XDG_CACHE_HOME"); cache != "" {
			base = filepath.Join(cache, "huggingface")
		} else if home := h.Env.Get("HOME"); home != "" {
			base = filepath.Join(home, ".cache", "huggingface")
		}
	}
	if base != "" {
		base = filepath.Join(base, "hub")
	}
	o.Cache = cmp.Or(h.Env.Get("HF_HUB_CACHE"), base)
	return o
}

// truth reads a switch as huggingface_hub does.
func truth(v string) bool {
	switch strings.ToLower(v) {
	case "1", "on", "yes", "true":
		return true
	}
	return false
}

// inputError gives exit code 2 to what is wrong with data or places that the user
// named; a disk that is full or broken stays an error of ours.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	for _, ours := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, ours) {
			return err
		}
	}
	return &Exit{Code: ExitUsage, Err: err}
}
