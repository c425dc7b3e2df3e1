// Package trees opens, walks and removes folders whose content is hostile.
//
// Nothing here waits for anybody: a FIFO, a socket or a device is an error, also where it takes
// the place of a file between the look and the open. A walk works with descriptors of folders,
// never with long paths, so its cost is linear in a tree of any depth, and it keeps few of them
// open. What lies beyond its [Bounds] is reported, not silently left out.
//
// All functions are safe for concurrent use.
package trees
