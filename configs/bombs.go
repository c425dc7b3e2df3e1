package configs

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// CheckYAML refuses YAML that costs much more to read than to write: more than 1 MiB, nested
// deeper than 64, or of more than 100,000 values once aliases are followed; also keys twice in a
// mapping. It is for YAML of others that is then decoded: a task's, a dataset's. name is what
// messages call the file.
func CheckYAML(name string, raw []byte) error {
	if err := plainText(name, raw); err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	w := walker{file: name, open: map[*yaml.Node]bool{}}
	for {
		var doc yaml.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return syntaxError(name, raw, err)
		}
		if err := w.walk(&doc, 0); err != nil {
			return err
		}
	}
}
