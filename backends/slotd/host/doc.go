// Package host runs commands and handles files on the machine where it is: the core of slotd, and
// the whole of a box of the local driver.
//
// A command and everything that it starts is one tree. Its members are found by a variable in
// their environment ([wire.MarkEnv]), by session and by ancestry, and are ended together: TERM,
// grace, KILL. Resource limits are in force before the first instruction of a command runs.
//
// No call waits for what a command of the box put in its way: every file is opened in open.go, and
// every call has a bound (bounds.go).
//
// A [Host] is safe for concurrent use.
package host
