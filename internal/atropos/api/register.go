package api

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"hermes/internal/atropos/group"
	"hermes/internal/atropos/ledger"
)

func (s *Server) root(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]string{"message": "AtroposLib API"})
}

// uuid4 is a random UUID of version 4 as the integer that Atropos' server gives.
func uuid4() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return new(big.Int).SetBytes(b[:])
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	m, err := s.object(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	f := fields{m: m}
	reg := ledger.Registration{Group: f.text("wandb_group"), Project: f.text("wandb_project"), Batch: f.int("batch_size"), MaxTokens: f.int("max_token_len"),
		Checkpoint: f.text("checkpoint_dir"), Interval: f.int("save_checkpoint_interval"), Start: f.int("starting_step"), Steps: f.int("num_steps")}
	if f.err != nil {
		s.refuse(w, f.err)
		return
	}
	var known error
	wait := s.change(func(st *ledger.State) { known = st.Register(reg) })
	if r, ok := known.(*ledger.Refused); ok {
		s.count.refused.Add(1)
		s.opt.Log.Warn("trainer refused", "reason", r.Text)
		detail(w, http.StatusConflict, r.Text)
		return
	}
	if err := wait(); err != nil {
		s.broken(w, err)
		return
	}
	s.opt.Log.Info("trainer registered", "batch", reg.Batch, "project", reg.Project)
	if at := s.look().Step; at != reg.Start {
		s.opt.Log.Warn("the trainer says that it begins at another step than the server is at, and goes on here; to go back, GET /reset_data comes before POST /register", "starting_step", reg.Start, "step", at)
	}
	reply(w, http.StatusOK, map[string]json.RawMessage{"uuid": json.RawMessage(uuid4().String())})
}

// Environments are kept until the next reset: so many, with names of so many bytes.
const (
	maxEnvs = 1 << 14
	maxName = 1024
)

func (s *Server) registerEnv(w http.ResponseWriter, r *http.Request) {
	m, err := s.object(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	f := fields{m: m}
	e := ledger.Env{MaxContext: f.int("max_token_length"), Desired: f.text("desired_name"), Weight: f.float("weight"), GroupSize: f.int("group_size")}
	if m["min_batch_allocation"] != nil {
		x := f.float("min_batch_allocation")
		e.Minimum = &x
	}
	if m["instance"] != nil {
		e.Instance = f.text("instance")
	}
	f.short("desired_name", e.Desired)
	f.short("instance", e.Instance)
	if f.err == nil && len(s.seen.Load().Envs) >= maxEnvs {
		f.err = &ledger.Refused{Text: fmt.Sprintf("%d environments have registered since the trainer did, and all are kept; GET /reset_data starts again", maxEnvs)}
	}
	if f.err != nil {
		s.refuse(w, f.err)
		return
	}
	var id int64
	var env *ledger.Env
	var ok bool
	var info ledger.Info
	wait := s.change(func(st *ledger.State) {
		id, env, ok, err = st.Join(e, time.Now())
		if ok {
			info = st.Info(time.Now())
		}
	})
	if err = errors.Join(err, wait()); err != nil {
		s.refuse(w, err)
		return
	}
	if !ok {
		reply(w, http.StatusOK, map[string]string{"status": "wait for trainer to start"})
		return
	}
	s.opt.Log.Info("environment registered", "env", env.Name, "group_size", env.GroupSize, "weight", env.Weight)
	reply(w, http.StatusOK, map[string]any{"status": "success", "env_id": id, "wandb_name": env.Name, "checkpoint_dir": info.Reg.Checkpoint,
		"starting_step": info.Step, "checkpoint_interval": info.Reg.Interval, "num_steps": info.Reg.Steps})
}

// envID reads {"env_id": int}.
func (s *Server) envID(r *http.Request) (int64, error) {
	if q := r.URL.Query().Get("env_id"); q != "" && !s.opt.Strict && r.ContentLength <= 0 {
		n, err := group.Integer(q) // for proxies that drop the body of a GET
		if err != nil || !n.IsInt64() {
			return 0, fmt.Errorf("env_id %q: %w", q, err)
		}
		return n.Int64(), nil
	}
	m, err := s.object(r)
	if err != nil {
		return 0, err
	}
	f := fields{m: m}
	id := f.int("env_id")
	return id, f.err
}

func (s *Server) disconnectEnv(w http.ResponseWriter, r *http.Request) {
	id, err := s.envID(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	var unknown error
	wait := s.change(func(st *ledger.State) { unknown = st.Leave(id) })
	if unknown != nil {
		reply(w, http.StatusOK, map[string]string{"status": "failure", "error": unknown.Error()})
		return
	}
	if err := wait(); err != nil {
		s.broken(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]string{"status": "success"})
}

func (s *Server) wandbInfo(w http.ResponseWriter, _ *http.Request) {
	i := s.look()
	reply(w, http.StatusOK, map[string]*string{"group": i.Group, "project": i.Project})
}

func (s *Server) info(w http.ResponseWriter, _ *http.Request) {
	i := s.look()
	reply(w, http.StatusOK, map[string]int64{"batch_size": i.Reg.Batch, "max_token_len": i.Reg.MaxTokens})
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	i := s.look()
	reply(w, http.StatusOK, map[string]int64{"current_step": i.Step, "queue_size": int64(i.Queue)})
}

func (s *Server) statusEnv(w http.ResponseWriter, r *http.Request) {
	id, err := s.envID(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	var st ledger.EnvStatus
	wait := s.change(func(state *ledger.State) { st, err = state.Status(id, time.Now()) })
	if errors.Is(err, ledger.ErrState) && !s.opt.Strict {
		detail(w, http.StatusNotFound, err.Error()+"; POST /register-env first, again after /reset_data")
		return
	}
	if err = errors.Join(err, wait()); err != nil {
		s.broken(w, err)
		return
	}
	reply(w, http.StatusOK, st)
}

func (s *Server) reset(w http.ResponseWriter, _ *http.Request) {
	if err := s.change(func(st *ledger.State) { st.Reset() })(); err != nil {
		s.broken(w, err)
		return
	}
	s.opt.Log.Info("reset")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "Reset successful")
}
