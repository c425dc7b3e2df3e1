// Package configs merges the layers of configuration strictly: default, preset, user
// file, run file, environment, flag. An unknown key is an error that names file, line
// and the nearest valid key.
package configs
