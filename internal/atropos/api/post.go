package api

import (
	"encoding/json"
	"net/http"
	"time"

	"hermes/internal/atropos/group"
	"hermes/internal/atropos/ledger"
)

// keyHeader names a post, so that one whose answer was lost can be sent again: a key that
// is known gets its answer, and nothing is stored twice.
const keyHeader = "Idempotency-Key"

// featureHeader tells with every answer that keys are understood, so that an environment
// knows what it may repeat.
const featureHeader = "Hermes-Features"

// againHeader tells that a post with this key was carried out before, and this one was not.
const againHeader = "Idempotent-Replayed"

func (s *Server) scoredData(w http.ResponseWriter, r *http.Request) {
	s.post(w, r, func(body []byte) ([]group.Group, error) {
		g, err := group.Read(body, s.rules())
		return []group.Group{g}, err
	}, func(placed []ledger.Placed) any {
		if placed[0].Buffered {
			return struct {
				Status string `json:"status"`
				Left   int    `json:"buffer_size"`
			}{"buffered", placed[0].Left}
		}
		return map[string]string{"status": "received"}
	})
}

func (s *Server) scoredDataList(w http.ResponseWriter, r *http.Request) {
	s.post(w, r, func(body []byte) ([]group.Group, error) { return group.ReadList(body, s.rules()) }, func(placed []ledger.Placed) any {
		a := struct {
			Status    string `json:"status"`
			Processed int    `json:"groups_processed"`
			Buffered  int    `json:"buffered,omitempty"`
			Left      *int   `json:"last_buffer_size,omitempty"`
		}{Status: "received", Processed: len(placed)}
		for _, p := range placed {
			if p.Buffered {
				a.Buffered++
				a.Left = &p.Left
			}
		}
		return a
	})
}

// post takes groups: all of them or none. It answers when they are on disk.
func (s *Server) post(w http.ResponseWriter, r *http.Request, read func([]byte) ([]group.Group, error), answer func([]ledger.Placed) any) {
	key := r.Header.Get(keyHeader)
	if known := s.answered(key); known != "" {
		w.Header().Set(againHeader, "true")
		replyRaw(w, http.StatusOK, []byte(known))
		return
	}
	if err := s.waitForRoom(r.Context()); err != nil {
		s.refuse(w, err)
		return
	}
	body, done, err := s.read(r, s.opt.MaxBody)
	if err != nil {
		s.refuse(w, err)
		return
	}
	defer done()
	begin := time.Now()
	if len(body) == 0 {
		s.refuse(w, &group.Fault{Type: "missing", Msg: "Field required"})
		return
	}
	groups, err := read(body)
	if err != nil {
		s.refuse(w, notUTF8(err, body))
		return
	}
	refs, err := s.put(groups)
	if err != nil {
		s.refuse(w, err)
		return
	}
	var text []byte
	taken := false
	wait := s.change(func(st *ledger.State) {
		if key != "" {
			if known := st.Answered(key); known != "" { // the same post came twice at once
				text = []byte(known)
				return
			}
		}
		for i := range refs {
			if err = st.Check(&refs[i]); err != nil {
				return
			}
		}
		taken = true
		placed := make([]ledger.Placed, len(refs))
		now := time.Now()
		for i := range refs {
			placed[i] = st.Post(refs[i], now)
		}
		text, err = json.Marshal(answer(placed))
		if err == nil && key != "" {
			st.Answer(key, string(text))
		}
	})
	if !taken {
		s.drop(refs)
	}
	if err == nil {
		err = wait()
	}
	s.count.ingest.Add(int64(time.Since(begin)))
	if err != nil {
		s.refuse(w, err)
		return
	}
	if !taken {
		w.Header().Set(againHeader, "true")
	}
	replyRaw(w, http.StatusOK, text)
}

func (s *Server) answered(key string) string {
	if key == "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.state.Answered(key)
	if a != "" {
		s.count.duplicates.Add(1)
	}
	return a
}

// put writes the canonical form of groups to disk.
func (s *Server) put(groups []group.Group) ([]ledger.Ref, error) {
	refs := make([]ledger.Ref, 0, len(groups))
	var parts [][]byte
	for i := range groups {
		g := &groups[i]
		parts = g.Parts(parts[:0])
		at, err := s.store.Put(parts...)
		if err != nil {
			s.drop(refs)
			return nil, err
		}
		refs = append(refs, ledger.Ref{At: at, Sequences: g.Sequences, Tokens: g.Tokens, Env: g.Env, HasEnv: g.HasEnv, NonFinite: g.NonFinite})
	}
	return refs, nil
}

func (s *Server) drop(refs []ledger.Ref) {
	for _, r := range refs {
		s.store.Drop(r.At)
	}
}
