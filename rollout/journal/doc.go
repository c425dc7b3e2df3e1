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
// reads footers and the last segment only. Every frame also tells up to where the log was
// synced when it was written: a damaged place behind which such a frame stands is
// corruption ([CorruptError]); any other damage at the end is a torn tail and is cut.
//
// A Journal is safe for concurrent use. Only one process may write; see package rundir.
package journal
