package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"hermes/datasets"
	"hermes/datasets/hub"
	"hermes/datasets/samples"
	"hermes/trajectory"
)

// openData opens and validates the rows, and says how they are read.
func (b *batch) openData(ctx context.Context) error {
	o := datasets.Options{PromptKey: b.PromptKey, Shuffle: b.Shuffle, Seed: uint64(b.Seed), Limit: b.Limit, Stdin: b.host.In, Hub: Hub(b.host.Env, b.Offline)}
	var err error
	if o.Map, err = datasets.ParseMap(strings.Join(b.Map, ",")); err != nil {
		return err
	}
	if b.Shard != "" {
		if o.Shard, err = datasets.ParseShard(b.Shard); err != nil {
			return err
		}
	}
	if b.Env != nil {
		b.data, err = b.Env.Rows(ctx, b.Env.Split, o)
	} else {
		b.data, err = OpenRows(ctx, o, b.Datasets...)
	}
	if err != nil {
		return err
	}
	b.later(b.data.Close)
	if b.report, err = b.data.Validate(ctx); err != nil {
		return err
	}
	if err := b.report.Err(datasets.BadRows(b.BadRows)); err != nil {
		return err
	}
	fmt.Fprint(b.host.Err, b.report.Mapping.String())
	for _, e := range b.report.Errors {
		fmt.Fprintf(b.host.Err, "left out: %v\n", e)
	}
	if b.Env != nil {
		return b.checkTasks(ctx)
	}
	return b.openGrader(ctx)
}

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

// skipBad leaves out the rows that validation has reported already.
func (b *batch) skipBad(ctx context.Context) iter.Seq2[datasets.Row, error] {
	return func(yield func(datasets.Row, error) bool) {
		for row, err := range b.data.Rows(ctx) {
			var bad *datasets.RowError
			if errors.As(err, &bad) && datasets.BadRows(b.BadRows) == datasets.Skip {
				continue
			}
			if was, ok := b.moved[row.ID]; ok {
				row.ID = was
			}
			if err == nil && b.oracle != nil {
				row.Hermes.Script, err = b.oracleScript(row)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func readPrefill(name string) ([]trajectory.Message, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--prefill: %w", err)
	}
	var list []struct {
		Role    trajectory.Role `json:"role"`
		Content string          `json:"content"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("--prefill %s: want a list of {role, content}: %w", name, err)
	}
	var out []trajectory.Message
	for i, m := range list {
		if m.Role != trajectory.User && m.Role != trajectory.Assistant {
			return nil, fmt.Errorf("--prefill %s: message %d: role %q is neither user nor assistant", name, i, m.Role)
		}
		out = append(out, trajectory.Text(m.Role, m.Content))
	}
	return out, nil
}

// digest names a text in run.yaml without repeating it; empty text stays empty.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func digestFile(name string) string {
	if name == "" {
		return ""
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return digest(string(raw))
}
