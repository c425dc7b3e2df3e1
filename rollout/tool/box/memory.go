package box

import "crypto/sha256"

type digest [32]byte

// reading is one page of a file as it was shown.
type reading struct {
	path          string
	offset, limit int
}

// memory is what the model has been shown: to say "unchanged" instead of repeating a page,
// and to warn when a file was changed behind its back. The session's lock guards it.
type memory struct {
	pages  map[reading]digest
	stubs  map[reading]int
	seen   map[string]digest // whole files as last read or written
	search string            // the last search, and how often it came in a row
	times  int
}

func newMemory() memory {
	return memory{pages: map[reading]digest{}, stubs: map[reading]int{}, seen: map[string]digest{}}
}

// other is called when another tool runs: pages may be asked for again.
func (m *memory) other(x *session) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(m.pages)
	clear(m.stubs)
	m.search, m.times = "", 0
}

// shown reports how often in a row a page with these bytes was asked for before.
func (x *session) shown(r reading, data []byte) int {
	d := digest(sha256.Sum256(data))
	x.mu.Lock()
	defer x.mu.Unlock()
	m := &x.files
	m.search, m.times = "", 0
	m.seen[r.path] = d
	if m.pages[r] != d {
		m.pages[r] = d
		m.stubs[r] = 0
		return 0
	}
	m.stubs[r]++
	return m.stubs[r]
}

// wrote remembers the new content and reports whether the old one was not what was last seen.
func (x *session) wrote(path string, before, after []byte, existed bool) (foreign bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := &x.files
	last, known := m.seen[path]
	foreign = known && existed && last != digest(sha256.Sum256(before))
	m.seen[path] = sha256.Sum256(after)
	clear(m.pages)
	clear(m.stubs)
	m.search, m.times = "", 0
	return foreign
}

// again counts the same search in a row.
func (x *session) again(key string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := &x.files
	if m.search != key {
		m.search, m.times = key, 0
	}
	m.times++
	return m.times
}
