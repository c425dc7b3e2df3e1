package chat

import "hermes/rollout/policy/finish"

// finished takes a finish reason.
func (a *answer) finished(word string) {
	if finish.Of(word).Gravity() > finish.Of(a.finish).Gravity() {
		a.finish = word
	}
}

// native takes the finish reason of the provider behind a router. The router's own may
// hide a failure; a word that is not known, or says that the answer goes on, says nothing.
func (a *answer) native(word string) {
	switch finish.Of(word) {
	case finish.Length, finish.Filter, finish.Aborted, finish.Failed:
		if plain := finish.Plain(word); plain != "in_progress" && plain != "queued" {
			a.finished(word)
		}
	}
}
