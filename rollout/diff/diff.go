// Package diff writes the difference between two versions of a file as `diff -u` does.
package diff

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// Unified is the difference between two texts with three lines of context; empty if there is
// none. An empty name means a file that does not exist.
func Unified(oldName, newName, before, after string) string {
	return udiff.Unified(label("a/", oldName), label("b/", newName), before, after)
}

func label(prefix, name string) string {
	if name == "" {
		return "/dev/null"
	}
	return prefix + strings.TrimPrefix(name, "/")
}

// Binary reports whether a file is shown by name only: it holds a NUL byte near its
// beginning, as git looks for it, or is no UTF-8.
func Binary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 || !utf8.Valid(data)
}
