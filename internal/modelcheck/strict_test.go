package modelcheck_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hermes/internal/modelcheck"
)

// TestStrictServer: a server like transformers serve refuses fields that it does not know
// and ends a stream with the reason alone; it streams all the same. Of a door that is
// closed, the note says what the server says.
func TestStrictServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" && !r.Close { // the server may close it at any time, and a POST is not sent again
			t.Errorf("%s: the connection is kept for another question", r.URL.Path)
		}
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		switch {
		case r.URL.Path == "/inference/v1/generate":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":{"message":"Scale-out endpoints are disabled. Restart with --enable-scale-out"}}`)
		case r.URL.Path == "/v1/completions":
			fmt.Fprint(w, `{"choices":[{"text":"a","token_ids":[1,2]}]}`)
		case r.URL.Path != "/v1/chat/completions":
			w.WriteHeader(http.StatusNotFound)
		case body["return_token_ids"] != nil:
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"detail":"Unexpected fields in the request: {'return_token_ids'}"}`)
		case body["stream"] == true:
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
		default:
			fmt.Fprint(w, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`)
		}
	}))
	defer s.Close()
	r, err := modelcheck.Run(t.Context(), modelcheck.Options{Base: s.URL + "/v1", Model: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]modelcheck.Ability{}
	for _, a := range r.Abilities {
		got[a.Name] = a
	}
	for name, want := range map[string]bool{
		"chat":                   true,
		"streaming":              true,
		"tools":                  true,
		"token ids":              false,
		"/inference/v1/generate": false,
		"/v1/completions":        true,
		"/generate":              false,
	} {
		if got[name].OK != want {
			t.Errorf("%s: %+v, want %v", name, got[name], want)
		}
	}
	if note := got["/inference/v1/generate"].Note; !strings.HasPrefix(note, "closed: Scale-out endpoints are disabled. Restart with") {
		t.Errorf("note %q", note)
	}
	if r.Wire != "vllm-completions" {
		t.Errorf("wire %q: a run file with it would ask a door that is closed", r.Wire)
	}
}
