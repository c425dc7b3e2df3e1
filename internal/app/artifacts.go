package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hermes/backends"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/trajectory"
)

// artifacts keeps what the scorer saw of a sample under dir/ROW/SAMPLE: score.json,
// answer.txt, and the task's files as the model left them, where they changed.
type artifacts struct {
	dir   string
	which string // all, failed, zero, none
}

// maxArtifact bounds one file, in bytes.
const maxArtifact = 4 << 20

func (a artifacts) wants(r *trajectory.Record) bool {
	switch a.which {
	case "all":
		return true
	case "zero":
		return r.Score != nil && r.Score.Reward == 0
	case "failed":
		return r.Outcome != trajectory.Answered || r.Score != nil && r.Score.Reward < 1
	}
	return false
}

func (a artifacts) keep(ctx context.Context, r *trajectory.Record, t envs.Task, box backends.Sandbox) error {
	if !a.wants(r) {
		return nil
	}
	dir := filepath.Join(a.dir, folder(r.Row), strconv.Itoa(r.Sample))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	verdict, err := json.MarshalIndent(map[string]any{"outcome": r.Outcome, "stop": r.Stop, "score": r.Score}, "", "  ")
	if err != nil {
		return err
	}
	answer := grade.Answer(envs.Episode{Trace: r.Trace})
	errs := []error{os.WriteFile(filepath.Join(dir, "score.json"), append(verdict, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "answer.txt"), []byte(answer+"\n"), 0o644)}
	if box == nil {
		return errors.Join(errs...)
	}
	for _, path := range slices.Sorted(maps.Keys(t.Files)) {
		errs = append(errs, keepFile(ctx, dir, path, t.Files[path], box))
	}
	return errors.Join(errs...)
}

// keepFile stores a file of the task that is no longer what it was.
func keepFile(ctx context.Context, dir, path, before string, box backends.Sandbox) error {
	now, err := box.ReadFile(ctx, path, maxArtifact)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(filepath.Join(dir, folder(path)+".removed"), nil, 0o644)
	}
	if errors.Is(err, backends.ErrTooLarge) {
		return fmt.Errorf("%s is larger than %d bytes", path, maxArtifact)
	}
	if err != nil || string(now) == before {
		return err
	}
	return os.WriteFile(filepath.Join(dir, folder(path)), now, 0o644)
}

// folder makes a name safe as one element of a path. What it changes it marks with a
// hash, so that different names stay different.
func folder(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '_'
	}, name)
	if safe == name && !strings.HasPrefix(name, ".") && len(name) <= 100 && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "_" + safe[:min(len(safe), 80)] + "-" + hex.EncodeToString(sum[:4])
}
