// Package hf is Hugging Face's own tokenizer library behind the interface of
// [tokenizer.Tokenizer]: for components that the pure Go reader refuses (WordPiece,
// Unigram), and as its oracle. It is the only cgo of hermes and follows the build tag
// hftokenizers:
//
//	make tokenizers
//	CGO_ENABLED=1 go build -tags hftokenizers ./cmd/...
//
// `make tokenizers` builds the library from its sources with cargo into
// build/hftokenizers. Without the tag [Load] says that the build has no such library.
package hf

import "errors"

// ErrAbsent says that this build is without the library.
var ErrAbsent = errors.New("built without the tag hftokenizers: run make tokenizers, then build with CGO_ENABLED=1 and -tags hftokenizers")
