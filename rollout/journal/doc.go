// Package journal is the append-only log of a run directory: the truth of which every
// other file of the run is a projection.
//
// A [Journal] takes two kinds of things. Stored model answers ([Journal.Turn]) are written
// without waiting for the disk, so that a killed process finds them again. Records
// ([Journal.Append]) are on disk when the call returns; many writers share one fsync.
// A key whose last record is final is done ([Journal.Done]) until it is reopened.
//
// The log is a row of segments of frames. A frame is a header and a payload, each with a
// CRC-32C. A full segment is sealed by a footer that repeats its headers, so that opening
// reads footers and the last segment only. Every frame holds the offset up to which the log
// was synced when the frame was written. Damage before the synced offset of a later frame
// is corruption ([CorruptError]). Any other damage at the end is a torn tail and is cut.
//
// A Journal is safe for concurrent use. Only one process may write; see package rundir.
package journal
