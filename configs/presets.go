package configs

import (
	"embed"
	"fmt"
	"strings"

	"hermes/internal/nearest"
)

//go:embed presets/*.yaml
var presets embed.FS

// Presets lists the names of the embedded presets, sorted.
func Presets() []string {
	files, err := presets.ReadDir("presets")
	if err != nil {
		panic("embedded presets: " + err.Error())
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// Preset reads an embedded preset: a run file in which a command takes the keys that it
// has.
func Preset(name string) (*Document, error) {
	raw, err := presets.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no preset %q (have %s)%s", name, strings.Join(Presets(), ", "), nearest.Hint(name, Presets()))
	}
	return Read("preset "+name, raw)
}
