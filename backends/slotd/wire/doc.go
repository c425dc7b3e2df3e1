// Package wire is the protocol between slotd, the server in a box, and its client: versions,
// bounds, requests, frames, faults, and the control socket by which hermes reaches a box that it
// made. docs/slotd.md describes it for other programs.
//
// It holds no state. Values from the other end are bounded when they are read; nothing else of
// them is believed.
package wire
