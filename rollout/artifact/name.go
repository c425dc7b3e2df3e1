package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// FileName is how a name of the scorer's is called among the artifacts of a sample.
func FileName(name string) string { return folder(name) }

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
