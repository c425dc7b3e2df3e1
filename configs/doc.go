// Package configs merges the layers of configuration strictly: default, preset, user
// file, run file, environment, flag. An unknown key is an error that names file, line
// and the nearest valid key.
//
// The grammar of a command is its only schema: [Load] is given the kong model of the
// application and of the chosen command, reads the files, checks every value of every
// layer against the flag that it sets, and returns [Layers], which is a kong resolver.
// The sections of a run file that are not flags ([Sections]) are kept as YAML nodes and
// decoded strictly by those who own them, see [Section.Decode].
//
// Secrets come from [Env] only. A [Redactor] built from it keeps their values out of
// logs. Values of this package do not change after they were built and are safe for
// concurrent use, except a Redactor, which locks.
package configs
