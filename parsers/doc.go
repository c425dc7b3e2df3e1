// Package parsers reads the text that a model family writes when it thinks and
// when it calls tools.
//
// A [Family] is one value in one file; families that share a grammar share the
// machinery beside them. A [Stream] collects what the model samples and reads it
// once, at the end, so how the text was cut into chunks can never matter and the
// cost of feeding is that of copying. Parsing never fails: text that cannot be read
// stays in [Parsed.Content] or under a [Fault] with its place, and every byte of the
// input is accounted for in [Parsed.Spans].
//
// [Dialect] chooses whose habits count where the known servers contradict each
// other; the zero value is ours. Families and sets hold no state and are safe for
// concurrent use; a stream belongs to one goroutine.
package parsers
