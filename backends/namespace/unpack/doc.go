// Package unpack turns the archive of an image into a directory that boxes can be made of.
//
// A [Ref] names a tar of a root file system, a tar as `docker save` writes it, or an OCI
// image layout, tar or directory. A [Store] unpacks each once, below one folder, under a name made of
// its content: to a temporary name first, which is renamed when all is there, verified and
// on disk. What is in the store is never changed, and never removed by this package.
//
// An archive is hostile until proven otherwise: whatever its names and links say, nothing
// outside of the folder that is being filled is written, read or removed, sizes and
// numbers are bounded, and what ends in an error leaves nothing. Such errors wrap
// [backends.ErrImage]. Devices and pipes are left out, set-id bits and owners are dropped:
// all files are the unpacking user's, who may read them.
//
// A [Store] is safe for concurrent use, by many processes too.
package unpack
