package group

import "runtime"

// ReadNarrow is Read as machines without vectors do it.
func ReadNarrow(body []byte, r Rules) (Group, error) {
	s := scan{b: body, rules: r}
	return s.one()
}

// Wide reports whether this machine can do ReadWide: not an amd64 of before 2013.
func Wide() bool { return vectors() || runtime.GOARCH != "amd64" }

// ReadWide is Read by masks.
func ReadWide(body []byte, r Rules) (Group, error) {
	s := scan{b: body, rules: r, wide: true}
	return s.one()
}

// SameMasks reports whether vectors find what a look at each byte finds.
func SameMasks(b *[64]byte) bool {
	var fast, slow masks
	classify(b, &fast)
	classifySlowly(b, &slow)
	return fast == slow
}
