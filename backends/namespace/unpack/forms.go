package unpack

import (
	"path/filepath"
	"strings"
)

// Kind says what a [Ref] leads to.
type Kind int

// The kinds of images.
const (
	Dir    Kind = iota + 1 // a directory that is a root file system: nothing to unpack
	Tar                    // a file
	Layout                 // a directory that is an OCI image layout
)

// Forms are what [Find] reads, for messages.
const Forms = `an absolute path of a directory, of a tar (of a root file system, or from "docker save") or of an OCI image layout, also as dir:PATH, tar:PATH[:TAG], oci:PATH[:TAG]`

// IsRef reports whether a text has the form of a Ref.
func IsRef(text string) bool {
	_, rest := cutKind(text)
	return filepath.IsAbs(rest)
}

func cutKind(text string) (Kind, string) {
	for prefix, kind := range map[string]Kind{"dir:": Dir, "tar:": Tar, "oci:": Layout} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			return kind, rest
		}
	}
	return 0, text
}
