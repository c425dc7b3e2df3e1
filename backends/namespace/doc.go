// Package namespace makes boxes from Linux namespaces: the isolated default that needs
// no daemon, no root and no image.
//
// The first process of a box has new user, mount, pid, network, ipc, uts and cgroup
// namespaces. It is a copy of a small helper and executes nothing: it builds a private root
// (the host's programs read-only, or an overlay over a directory, or over what [unpack] made of an image), leaves
// the host's behind, and starts commands, all from lists of system calls that hermes writes
// (see [pid1]). It has small files read and written in the same way. At the first call that
// is more, such as a search or a terminal, and when a command has to be ended, it executes slotd in its own place, which then serves
// the box. Commands run as uid 0 of the box, which is an id without any right on
// the host: no capabilities, no new privileges, a seccomp filter, no network or only the
// proxy of [egress], bounded memory, processes and disk. There is never a fall-back to less: a machine that cannot
// do this gets [backends.ErrUnavailable] with the cause.
//
// The only tie between hermes and a box is one inherited socket. Lists, and connections to
// slotd as descriptors, are passed through it, so there is no path to find, and when it closes, because
// hermes closed the box or died, pid 1 ends and the kernel ends everything in the box.
//
// A program that opens boxes must call [Main] before anything else.
//
// A [Backend] and its boxes are safe for concurrent use.
package namespace
