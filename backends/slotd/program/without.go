//go:build !slotd

package program

func bytes() []byte { return nil }
