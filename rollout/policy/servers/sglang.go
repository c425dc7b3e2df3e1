package servers

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"hermes/rollout/policy"
	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/finish"
	"hermes/rollout/policy/loose"
	"hermes/rollout/policy/scan"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// sglangForm is SGLang's POST /generate beside the OpenAI routes. Its default of
// new tokens is 128, so that a limit is always sent; an unknown sampling option fails
// the request, so that no seed is. Log-probs are those of the distribution after the
// temperature.
func sglangForm() *form {
	return &form{
		name: SGLang, path: "//generate", prompt: "input_ids", limit: "max_new_tokens", nested: true,
		stops: "stop_token_ids", salt: "extra_key",
		fixed:    `"return_logprob":true,"return_text_in_logprobs":false`,
		sampling: `"skip_special_tokens":false,"no_stop_trim":true`, neutral: Neutral,
		capture: func(c Capture, body, _ *encode.Object) error {
			if c.TopK > 0 {
				if err := body.Set("top_logprobs_num", c.TopK); err != nil {
					return err
				}
			}
			if !c.Experts {
				return nil
			}
			return body.Set("return_routed_experts", true)
		},
		read:  readSGLang,
		start: "ask a server that knows return_logprob",
	}
}

type sglangAnswer struct {
	IDs  IDs `json:"output_ids"`
	Meta struct {
		Finish   json.RawMessage `json:"finish_reason"`
		Prompt   *int            `json:"prompt_tokens"`
		Cached   loose.Count     `json:"cached_tokens"`
		LogProbs triples         `json:"output_token_logprobs"`
		Top      []triples       `json:"output_top_logprobs"`
		Version  json.RawMessage `json:"weight_version"`
		Versions json.RawMessage `json:"weight_versions"`
		Experts  string          `json:"routed_experts"`
	} `json:"meta_info"`
}

// scanSGLang reads the usual answer in one walk; what else there is, is not ok.
func scanSGLang(raw []byte) (a sglangAnswer, ok bool) {
	s := scan.New(raw)
	ok = s.Object([]string{"output_ids", "meta_info"}, func(i int) (ok bool) {
		if i == 0 && s.Null() {
			return true
		}
		if i == 0 {
			a.IDs, ok = s.Tokens(128)
			return ok
		}
		m := &a.Meta
		return s.Object([]string{"finish_reason", "prompt_tokens", "cached_tokens", "output_token_logprobs", "output_top_logprobs", "weight_version", "weight_versions", "routed_experts"}, func(i int) (ok bool) {
			switch i {
			case 0:
				m.Finish, ok = s.Raw()
			case 1:
				var n int64
				n, ok = s.Int()
				m.Prompt = new(int(n))
			case 2:
				var n int64
				n, ok = s.Int()
				m.Cached = loose.Count(max(0, n))
			case 3:
				m.LogProbs, ok = readTriples(&s, len(a.IDs))
			case 5:
				m.Version, ok = s.Raw()
			case 6:
				m.Versions, ok = s.Raw()
			default:
				ok = s.Null()
			}
			return ok
		})
	})
	return a, ok && s.End()
}

// readTriples reads a list of [log-prob, id, text or null, …]; room is about how many they are.
func readTriples(s *scan.Scanner, room int) (t triples, ok bool) {
	t.ids, t.logProbs = make([]trajectory.Token, 0, room), make([]float32, 0, room)
	if !s.Next('[') {
		return triples{}, false
	}
	if s.Next(']') {
		return triples{}, true
	}
	for {
		if !s.Next('[') {
			return t, false
		}
		v, ok := s.LogProb()
		if !ok || !s.Next(',') {
			return t, false
		}
		id, ok := s.Token()
		if !ok {
			return t, false
		}
		t.ids, t.logProbs = append(t.ids, id), append(t.logProbs, v)
		for s.Next(',') {
			if _, ok := s.Raw(); !ok {
				return t, false
			}
		}
		if !s.Next(']') {
			return t, false
		}
		if !s.Next(',') {
			return t, s.Next(']')
		}
	}
}

func readSGLang(raw []byte, want Capture) (Completion, error) {
	if raw[0] == '[' { // what n above 1 gives, and some gateways for n = 1
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
			return Completion{}, policy.Malformedf("sglang: a list of %d answers, want one", len(list))
		}
		raw = list[0]
	}
	a, ok := scanSGLang(raw)
	if !ok {
		a = sglangAnswer{}
		if err := json.Unmarshal(raw, &a); err != nil {
			return Completion{}, policy.Malformedf("sglang: %v", err)
		}
	}
	c := Completion{Prompt: -1, Cached: int64(a.Meta.Cached), Version: loose.Plain(a.Meta.Version), LogProbs: a.Meta.LogProbs.logProbs, Tokens: a.Meta.LogProbs.ids}
	if a.Meta.Prompt != nil {
		c.Prompt = *a.Meta.Prompt
	}
	var err error
	c.Finish, err = sglangFinish(a.Meta.Finish)
	if err != nil {
		return c, err
	}
	switch {
	case a.IDs == nil && c.Tokens == nil && c.Finish != trajectory.FinishAborted:
		return c, policy.Inexactf("sglang: the answer has neither output_ids nor output_token_logprobs: is this a server that speaks SGLang's /generate?")
	case len(a.IDs) > 0 && len(c.Tokens) == 0:
		return c, policy.Inexactf("sglang: the answer has %d tokens but no output_token_logprobs; the server must honour return_logprob", len(a.IDs))
	case a.IDs != nil && (len(a.IDs) != len(c.Tokens) || FirstDifference(a.IDs, c.Tokens) < len(a.IDs)):
		return c, policy.Inexactf("sglang: output_ids and output_token_logprobs differ at token %d", FirstDifference(a.IDs, c.Tokens))
	}
	c.Versions, err = ReadVersions(a.Meta.Versions, len(c.Tokens))
	if err != nil {
		return c, err
	}
	for _, t := range a.Meta.Top {
		for i := range t.ids[:min(want.TopK, len(t.ids))] {
			c.Top = append(c.Top, top{t.ids[i], t.logProbs[i]})
		}
	}
	if want.Experts && a.Meta.Experts != "" {
		b, err := base64.StdEncoding.DecodeString(a.Meta.Experts)
		if err != nil {
			return c, policy.Inexactf("sglang: routed_experts is not base64: %v", err)
		}
		c.Experts = experts{raw: b, dtype: "int32"}
	}
	return c, nil
}

// sglangFinish reads {"type": …}, or the bare word that some servers give.
func sglangFinish(raw json.RawMessage) (trajectory.Finish, error) {
	if word, ok := scanFinish(raw); ok {
		return finish.Parse(word)
	}
	var f struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Status  int    `json:"status_code"`
	}
	if json.Unmarshal(raw, &f) != nil {
		f.Type = loose.Plain(raw)
	}
	if f.Type == "abort" && f.Status >= 400 { // an error of this request, not of a weight sync
		return "", wire.Classify(f.Status, nil, []byte(f.Message), time.Time{})
	}
	return finish.Parse(f.Type)
}

// scanFinish reads the usual {"type":"stop","matched":…}; an abort, which may tell more, is
// not ok.
func scanFinish(raw []byte) (word string, ok bool) {
	s := scan.New(raw)
	ok = s.Object([]string{"type", "message", "status_code"}, func(i int) (ok bool) {
		v, ok := s.Raw()
		ok = ok && i == 0
		if ok {
			word, ok = loose.ASCII(v)
		}
		return ok && word != "abort"
	})
	return word, ok && s.End()
}

// IDs is a list of token ids.
type IDs []trajectory.Token

// UnmarshalJSON reads the list without a value for each number.
func (l *IDs) UnmarshalJSON(b []byte) error {
	s := scan.New(b)
	if s.Null() {
		return nil
	}
	list, ok := s.Tokens(len(b) / 5)
	if !ok || !s.End() {
		return fmt.Errorf("a list holds what is not a token id: %.80q", b)
	}
	*l = list
	return nil
}

// triples is a list of [log-prob, id, text or null].
type triples struct {
	ids      []trajectory.Token
	logProbs []float32
}

// UnmarshalJSON reads the list. A log-prob of null is one that is not finite. It becomes NaN,
// which the check of every answer refuses.
func (t *triples) UnmarshalJSON(b []byte) error {
	s := scan.New(b)
	if s.Null() {
		return nil
	}
	list, ok := readTriples(&s, len(b)/20)
	if !ok || !s.End() {
		return fmt.Errorf("a list holds what is not a log-prob with its token id: %.80q", b)
	}
	*t = list
	return nil
}
