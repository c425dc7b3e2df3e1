package codedebug

import "hermes/envs"

// Wrong are the modules with a mistake, and those that hidden tests call.
func Wrong(t envs.Task) (wrong []string, tested map[string]bool) {
	x := t.Hidden.(program)
	for _, m := range x.modules {
		if m.bug != "" {
			wrong = append(wrong, m.name)
		}
	}
	tested = map[string]bool{}
	for _, c := range x.hidden {
		tested[c.name] = true
	}
	return wrong, tested
}
