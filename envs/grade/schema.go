package grade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hermes/datasets"
)

// jsonSchema wants JSON that fits a schema of the grader's own or of the row.
type jsonSchema struct {
	Field  string         `yaml:"field"`
	Schema map[string]any `yaml:"schema"`
	own    *jsonschema.Schema
}

func (o *jsonSchema) check() error {
	if o.Schema == nil {
		return nil
	}
	raw, err := json.Marshal(o.Schema)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	o.own, err = compile(raw)
	return err
}

// nowhere refuses to load: a schema refers to itself alone, never to files or the network.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref %s: a schema may refer only to itself", url)
}

func compile(raw []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

func (o *jsonSchema) bind(row datasets.Row) (Grader, error) {
	s := o.own
	if s == nil {
		names := []string{"schema", "json_schema"}
		if o.Field != "" {
			names = []string{o.Field}
		}
		raw, name, err := field(row, names...)
		if err != nil {
			return nil, err
		}
		if s, err = compile([]byte(plain(raw))); err != nil {
			return nil, fmt.Errorf("row %s: %s: %w", row.ID, name, err)
		}
	}
	return judged(func(text string) (bool, string) {
		got, err := jsonIn(text, nil)
		if err != nil {
			return false, err.Error()
		}
		if err := s.Validate(got); err != nil {
			var v *jsonschema.ValidationError
			if errors.As(err, &v) {
				return false, short(v.Error())
			}
			return false, err.Error()
		}
		return true, "fits the schema"
	}), nil
}

func (o *jsonSchema) binary() bool { return true }
