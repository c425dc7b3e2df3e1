package policy

// finished takes a finish reason.
func (a *answer) finished(word string) {
	if endingOf(word).gravity() > endingOf(a.finish).gravity() {
		a.finish = word
	}
}

// native takes the finish reason of the provider behind a router. The router's own may
// hide a failure; a word that is not known, or says that the answer goes on, says nothing.
func (a *answer) native(word string) {
	switch endingOf(word) {
	case endLength, endFilter, endAborted, endFailed:
		if plain := plainWord(word); plain != "in_progress" && plain != "queued" {
			a.finished(word)
		}
	}
}
