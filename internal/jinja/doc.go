// Package jinja renders the chat templates of language models exactly as
// Python's Jinja2 does in its immutable sandbox, with trim_blocks and
// lstrip_blocks on, loop controls, and the generation tag of Transformers.
//
// A source is parsed once into a tree of closures ([Parse]); rendering
// ([Template.Render]) keeps all its state to itself, so one [Template] may be
// used by any number of goroutines. Values that go in are never changed.
//
// A template is foreign code: rendering is bounded in nesting, in size of any
// text or list, and in steps (see [RenderOptions]). Every failure is an [*Error]
// whose class says whether the template refused the input, could not be read, or
// ran into a limit.
//
// Not known: template inheritance and includes (there is no loader), and the
// filters random, urlize and pprint.
package jinja
