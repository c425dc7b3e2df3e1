package fakellm

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"hermes/internal/fakellm/model"
)

// names lists the models on offer, at least one.
func (s *Server) names() []string {
	if len(s.opt.Models) == 0 {
		return []string{"fake"}
	}
	return s.opt.Models
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	list := []map[string]any{}
	for _, name := range s.names() {
		list = append(list, s.entry(name))
	}
	reply(w, 200, map[string]any{"object": "list", "data": list})
}

// entry is what is said about one model.
func (s *Server) entry(name string) map[string]any {
	m := map[string]any{"id": name, "object": "model", "created": s.opt.Now().Unix()}
	if s.ways.owner != "" {
		m["owned_by"] = s.ways.owner
	}
	maps.Copy(m, s.modelExtra())
	return m
}

// oneModel describes the model of that name, which may hold slashes.
func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("id")
	if !slices.Contains(s.names(), name) {
		s.fail(w, 404, "invalid_request_error", "model_not_found", fmt.Sprintf("The model `%s` does not exist.", name))
		return
	}
	reply(w, 200, s.entry(name))
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	if s.ways.metrics[0] == "" {
		s.fail(w, 404, "invalid_request_error", "", "Invalid URL (GET /metrics)")
		return
	}
	s.log.looked()
	st := s.log.stats()
	var b strings.Builder
	one := func(name, kind, help string, v int64) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s{model_name=%q} %d\n", name, help, name, kind, name, s.names()[0], v)
	}
	one(s.ways.metrics[0], "gauge", "Number of requests in model execution batches.", s.running.Load())
	one(s.ways.metrics[1], "gauge", "Number of requests waiting to be processed.", s.waiting.Load())
	one("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", s.promptTokens.Load())
	one("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", s.outTokens.Load())
	one("vllm:request_success_total", "counter", "Count of successfully processed requests.", st.Answers)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(b.String()))
}

func (s *Server) statsPage(w http.ResponseWriter, _ *http.Request) { reply(w, 200, s.Stats()) }

// tokenize answers in the forms of vLLM ({prompt | messages}) and llama.cpp ({content}).
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Prompt, Content *string
		Messages, Tools json.RawMessage
	}
	if !s.decode(w, r, &in) {
		return
	}
	switch {
	case in.Content != nil:
		reply(w, 200, map[string]any{"tokens": s.opt.Tokenizer.Encode(*in.Content)})
		return
	case in.Messages != nil:
		if _, err := model.ReadMessages(in.Messages); err != nil {
			fail(w, 400, "invalid_request_error", "", "messages: "+err.Error())
			return
		}
		prompt := s.markup.Render(in.Messages, in.Tools)
		in.Prompt = &prompt
	case in.Prompt == nil:
		fail(w, 400, "invalid_request_error", "", "prompt: field required")
		return
	}
	ids := s.opt.Tokenizer.Encode(*in.Prompt)
	reply(w, 200, map[string]any{"count": len(ids), "max_model_len": s.opt.ContextLength, "tokens": ids, "token_strs": nil})
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var in struct{ Tokens []int32 }
	if s.decode(w, r, &in) {
		text := s.opt.Tokenizer.Decode(in.Tokens)
		reply(w, 200, map[string]any{"prompt": text, "content": text})
	}
}

func (s *Server) decode(w http.ResponseWriter, r *http.Request, v any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, s.opt.MaxBody)).Decode(v); err != nil {
		fail(w, 400, "invalid_request_error", "", "We could not parse the JSON body of your request: "+err.Error())
		return false
	}
	return true
}
