// Package local makes boxes of plain processes on this machine: trusted work only.
//
// A box is a fresh directory with HOME and TMPDIR in it; commands run as the user of
// hermes itself, with their own environment. Nothing keeps them from the rest of
// the machine, which [backends.Traits] say (Isolated is false). Close ends every
// process that the box started and removes the directory; when hermes was killed, the
// next one does, or `hermes sandbox gc`.
package local
