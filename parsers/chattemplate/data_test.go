package chattemplate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/internal/realdata"
	"hermes/parsers/chattemplate"
)

// source is one template of the data folder.
type source struct{ name, text string }

func sources(t testing.TB) []source {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(realdata.Path(t, "chat-templates", "templates"), "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	var out []source
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, source{strings.TrimSuffix(filepath.Base(f), ".jinja"), string(raw)})
	}
	return out
}

func open(t testing.TB, s source) *chattemplate.Template {
	t.Helper()
	tmpl, err := chattemplate.New(options(s))
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return tmpl
}

func options(s source) chattemplate.Options {
	return chattemplate.Options{Source: s.text, BOS: "<s>", EOS: "</s>", PAD: "<pad>", UNK: "<unk>", Now: frozen}
}
