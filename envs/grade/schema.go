package grade

import (
	"encoding/json"
	"fmt"

	"hermes/datasets"
	"hermes/internal/schema"
)

// jsonSchema wants JSON that fits a schema of the grader's own or of the row.
type jsonSchema struct {
	Field  string         `yaml:"field"`
	Schema map[string]any `yaml:"schema"`
	own    *schema.Schema
}

func (o *jsonSchema) check() error {
	if o.Schema == nil {
		return nil
	}
	raw, err := json.Marshal(o.Schema)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	o.own, err = schema.Compile(raw)
	return err
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
		s, err = schema.Compile([]byte(plain(raw)))
		if err != nil {
			return nil, fmt.Errorf("row %s: %s: %w", row.ID, name, err)
		}
	}
	return judged(func(text string) (bool, string) {
		got, err := jsonIn(text, nil)
		if err != nil {
			return false, err.Error()
		}
		if err := s.Check(got); err != nil {
			return false, short(err.Error())
		}
		return true, "fits the schema"
	}), nil
}

func (o *jsonSchema) binary() bool { return true }
