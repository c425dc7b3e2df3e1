//go:build !hftokenizers || !cgo

package hf

import "hermes/parsers/tokenizer"

// Available tells whether this build has the library.
const Available = false

// Load returns [ErrAbsent].
func Load(string) (tokenizer.Tokenizer, error) { return nil, ErrAbsent }

// FromJSON returns [ErrAbsent].
func FromJSON([]byte) (tokenizer.Tokenizer, error) { return nil, ErrAbsent }
