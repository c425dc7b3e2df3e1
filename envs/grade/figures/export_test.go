package figures

// TQuantile is tested on its own: its error would hide in an interval.
func TQuantile(p, freedom float64) float64 { return tQuantile(p, freedom) }
