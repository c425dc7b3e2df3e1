// Package reach tries to get at the first process of a box, and at its threads, from a
// command: their limits, priority, scheduling, cores, signals, memory, descriptors and files
// in /proc.
//
// Each attempt runs as a separate program inside the box, which is the test's own program,
// put there by [Run]. So a test that uses this package calls [Main] before anything else.
package reach
