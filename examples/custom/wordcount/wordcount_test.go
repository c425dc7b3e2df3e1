package wordcount_test

import (
	"context"
	"testing"

	"custom/wordcount"
	"hermes/backends"
	"hermes/backends/local"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func TestWordCount(t *testing.T) {
	b, err := local.New(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	box, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.WriteFile(t.Context(), "notes.txt", []byte("one two\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	scope := &tool.Scope{Box: func(context.Context) (backends.Sandbox, error) { return box, nil }}
	set, err := tool.NewSet([]tool.Def{wordcount.Tool()}, scope, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		arguments string
		want      string
		failed    bool
	}{
		{arguments: `{"path": "notes.txt"}`, want: `{"words":3}`},
		{arguments: `{"path": "other.txt"}`, want: `{"error":"no file other.txt"}`, failed: true},
	} {
		r, err := set.Call(t.Context(), trajectory.Call{ID: "1", Name: "word_count", Arguments: tt.arguments})
		if err != nil || r.Text != tt.want || r.Failed != tt.failed {
			t.Errorf("%s: %q, failed %v, %v; want %q, failed %v", tt.arguments, r.Text, r.Failed, err, tt.want, tt.failed)
		}
	}
}
