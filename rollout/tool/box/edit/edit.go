// Package edit changes the text of files as language models ask for it: a text is replaced by
// another ([Replace]), or a V4A patch is applied ([Parse], [Section.Apply]).
//
// What a model quotes is rarely exact. Both ways forgive white space, indentation, escapes and
// typographic characters, from exact to vague, and nothing else. Bytes outside of what was found
// never change, line ends and indentation of the file stay, and an error says where the file has
// something alike.
//
// Files that are not UTF-8 are shown to the model with U+FFFD in the place of what cannot be
// shown. Nothing here turns that character back into the file unasked: the bytes stay.
//
// The package works on strings and needs no box. Its functions are safe for concurrent use.
package edit

import "strings"

// Clip shortens a text to n characters and marks that with an ellipsis.
func Clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// Lines are the lines of a text without their line feeds; none of an empty text.
func Lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
