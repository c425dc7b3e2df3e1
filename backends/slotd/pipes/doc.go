// Package pipes makes, feeds and reads the streams of commands, whoever starts them: the server
// in a box, or the first process of a box of the namespace driver.
package pipes
