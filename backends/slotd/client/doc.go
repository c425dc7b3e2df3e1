// Package client is hermes' end of a box with a slotd in it.
//
// A [Client] works over any byte stream that a driver can open to the server, and implements
// [hermes/backends.Sandbox] with all optional abilities but snapshots. It believes nothing of what
// the server says: all that it reads is bounded. A command whose connection breaks is joined once
// by its id and never runs twice.
//
// A Client is safe for concurrent use.
package client
