package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"hermes/trajectory"
)

// Digest names a text in run.yaml without repeating it; empty text stays empty.
func Digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// DigestFile names the text of a file; no file is no text.
func DigestFile(name string) string {
	if name == "" {
		return ""
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return Digest(string(raw))
}

// List reads a setting of run.yaml that holds several values.
func List(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// SystemText is a system prompt, read from a file where it is @FILE.
func SystemText(text string) (string, error) {
	name, ok := strings.CutPrefix(text, "@")
	if !ok {
		return text, nil
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("system prompt: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
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
