package policy

// Counts is what a sampler did, in bytes: Rendered and Tokenized as text where the tokens are
// exact, Encoded as JSON by hermes, Sent as bodies. A turn encodes what it adds; the whole
// prompt is sent each time.
type Counts struct{ Rendered, Tokenized, Encoded, Sent int64 }

// Counting is a sampler that counts.
type Counting interface{ Counts() Counts }
