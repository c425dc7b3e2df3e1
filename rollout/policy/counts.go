package policy

// Counts tells what a sampler did, in bytes: Encoded as JSON by hermes, Sent as bodies.
// A turn encodes what it adds; the whole prompt is sent each time.
type Counts struct{ Encoded, Sent int64 }

// Counting is a sampler that counts.
type Counting interface{ Counts() Counts }
