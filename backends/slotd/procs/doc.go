// Package procs finds processes in /proc, and the tree of those that a command has started.
package procs
