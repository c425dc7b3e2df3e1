package chat

// safe is what may be shown of a piece of the answer's reasoning (0) or content (1): never a
// key. What may be the beginning of one waits for the next piece.
func (a *answer) safe(which int, text string) string {
	switch {
	case a.leaks == nil:
		return text
	case a.leak != nil:
		return ""
	}
	text = a.held[which] + text
	a.leak = a.leaks.Check(text)
	if a.leak != nil {
		return ""
	}
	keep := len(text) - a.leaks.Tail(text)
	a.held[which] = text[keep:]
	return text[:keep]
}

// leaked says whether the whole answer holds a key of ours, put together from its pieces.
func (a *answer) leaked() error {
	if a.leaks == nil || a.leak != nil {
		return a.leak
	}
	texts := []string{a.content.String(), a.thoughts.String(), a.model}
	for _, c := range a.calls {
		texts = append(texts, c.id, c.name, c.args.String(), string(c.extra))
	}
	for _, d := range a.details {
		for _, raw := range d {
			texts = append(texts, string(raw))
		}
	}
	return a.leaks.Check(texts...)
}
