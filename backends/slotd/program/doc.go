// Package program is the slotd program as part of hermes.
//
// `make build` builds cmd/slotd, static and small, compresses it, and then builds hermes with the
// build tag slotd, which embeds it here. A box then starts the small program; without the tag
// hermes starts itself under that name, which costs a few milliseconds more.
package program
