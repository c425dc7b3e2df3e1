package jinja_test

import (
	"errors"
	"strings"
	"testing"

	"hermes/internal/jinja"
)

// TestUnsupported: what would give another text than Python's, or another each time, is an
// error that names the construct.
func TestUnsupported(t *testing.T) {
	for source, says := range map[string]string{
		"{{ [1, 2] | random }}":                                    "the filter random",
		"{{ lipsum() }}":                                           "lipsum()",
		"{{ 'a'.encode('utf-8') }}":                                "str.encode()",
		"{% block x %}{% endblock %}{{ self.x() }}":                "self.x()",
		"{% for i in l %}{% block x %}{% endblock %}{% endfor %}":  "block x scoped",
		"{% with a = 1 %}{% block x %}{% endblock %}{% endwith %}": "block x scoped",
		"{% block x required %}{% endblock %}":                     "required",
		"{% extends 'base' %}":                                     "the tag 'extends'",
		"{% include 'more' %}":                                     "the tag 'include'",
		"{% from 'more' import x %}":                               "the tag 'from'",
		"{% for i in [1] %}{% block x scoped %}{% break %}{% endblock %}{% endfor %}": "outside loop",
	} {
		tmpl, err := jinja.Parse(source, jinja.Options{})
		if err == nil {
			_, err = tmpl.Render(jinja.NewDict().Set("l", nil), jinja.RenderOptions{})
		}
		var e *jinja.Error
		if !errors.As(err, &e) || !strings.Contains(e.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", source, err, says)
		}
	}
}
