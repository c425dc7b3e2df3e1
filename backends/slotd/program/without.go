//go:build !slotd

package program

func packed() []byte { return nil }
