// Package slotd is the server that works inside a box and the client that talks to it.
//
// A [Host] is the core: it runs commands, keeps background processes, reads and writes
// files and searches them, on the machine it lives on. [Serve] puts it behind HTTP for
// a driver that made a box around it; a [Client] over any byte stream is then that box.
// The local driver uses a Host in process. So every ability is written once.
//
// A command and everything it starts is one tree. Its members are found by a variable
// in their environment ([MarkEnv]), by session and by ancestry, and are ended together:
// TERM, grace, KILL. Resource limits are in force before the first instruction of a
// command runs. An exec has an id; asking again with the same id never runs it twice.
//
// Host and Client are safe for concurrent use. The client believes nothing of what the
// server says: all that it reads is bounded.
package slotd
