package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
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
