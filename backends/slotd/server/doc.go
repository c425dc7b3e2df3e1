// Package server is the program in a box: a [host.Host] behind HTTP ([Serve]), and its command
// line ([Main]).
//
// An exec has an id; asking again with the same id never runs it twice. Leases give the box to
// one caller at a time and reset it in between.
//
// It is built for Linux alone; on other systems [Main] says so and fails.
package server
