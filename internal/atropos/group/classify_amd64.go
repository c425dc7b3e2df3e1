package group

import "golang.org/x/sys/cpu"

// vectors reports whether [classify] is there.
func vectors() bool { return cpu.X86.HasAVX2 }

// classify says which of the 64 bytes at b are which. It needs AVX2.
//
//go:noescape
func classify(b *[64]byte, m *masks)
