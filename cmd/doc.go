// Package cmd is the command line: one file a command, each a struct that is flags, run
// file keys and documentation at once, with a Run that wires parts and hands over to a
// library.
//
// [Main] is the only place that touches the standard streams, the environment and the
// signals of the process; everything behind it gets them as values. Results go to
// stdout, sentences for people to stderr, exit codes are those of [Exit].
package cmd
