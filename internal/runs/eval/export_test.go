package eval

// AxisNames are the names of the axes that a matrix can set.
func AxisNames() []string {
	var names []string
	for _, a := range axes() {
		names = append(names, a.name)
	}
	return names
}
