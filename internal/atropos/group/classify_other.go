//go:build !amd64

package group

func vectors() bool { return false }

func classify(b *[64]byte, m *masks) { classifySlowly(b, m) }
