package api

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"sync/atomic"
	"time"

	"hermes/internal/atropos/ledger"
	"hermes/internal/atropos/store"
)

//go:embed dashboard.html
var dashboardText string

// view is what the status page shows.
type view struct {
	ledger.Info
	Store    store.Usage
	Bytes    int64
	MaxQueue int64
	Err      error
	Now      string
	Strict   bool
}

func (s *Server) view() view {
	v := view{Info: s.look(), Store: s.store.Usage(), MaxQueue: s.opt.MaxQueue, Err: s.store.Err(), Now: time.Now().UTC().Format(time.RFC3339), Strict: s.opt.Strict}
	v.Bytes = s.seen.Load().bytes
	return v
}

// dashboard is the page for people.
func (s *Server) dashboard(w http.ResponseWriter, _ *http.Request) {
	t, err := template.New("dashboard").Parse(dashboardText)
	if err != nil {
		s.broken(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := t.Execute(w, s.view()); err != nil {
		s.opt.Log.Warn("status page", "err", err)
	}
}

// metrics writes Prometheus' text form.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	v := s.view()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	line := func(kind, name, help string, value any) {
		fmt.Fprintf(w, "# HELP hermes_run_api_%s %s\n# TYPE hermes_run_api_%s %s\nhermes_run_api_%s %v\n", name, help, name, kind, name, value)
	}
	gauge := func(name, help string, value any) { line("gauge", name, help, value) }
	count := func(name, help string, value any) { line("counter", name, help, value) }
	gauge("step", "Current step.", v.Step)
	gauge("batch_size", "Sequences of a batch; -1 without a trainer.", v.Reg.Batch)
	gauge("queue_groups", "Groups in the queue.", v.Queue)
	gauge("queue_sequences", "Sequences in the queue.", v.Queued)
	gauge("buffered_groups", "Groups that wait for others of their environment.", v.Buffered)
	gauge("batches_ready", "Batches that were formed and not handed out.", v.Ready)
	gauge("batches_leased", "Batches that are on their way or not acknowledged.", v.Leased)
	gauge("kept_bytes", "Bytes of groups that are kept.", v.Bytes)
	gauge("segment_bytes", "Bytes of segment files.", v.Store.Bytes)
	gauge("log_bytes", "Bytes of the log of events.", v.Store.Log)
	stall := 0
	if v.Stall != "" {
		stall = 1
	}
	gauge("stalled", "1 when no batch will come unless something is changed; the status page says what.", stall)
	count("groups_total", "Groups accepted.", v.Totals.Groups)
	count("sequences_total", "Sequences accepted.", v.Totals.Sequences)
	count("tokens_total", "Tokens accepted.", v.Totals.Tokens)
	count("batches_total", "Batches delivered.", v.Totals.Batches)
	count("delivered_sequences_total", "Sequences of them.", v.Totals.Delivered)
	count("redelivered_total", "Batches that were sent again.", v.Totals.Again)
	count("lost_batches_total", "Batches that may be lost: a trainer without acknowledgements had them in hand when it, or its successor, registered or reset the server. One each time at most.", v.Totals.Lost)
	count("discarded_groups_total", "Groups dropped by resets or for damage.", v.Totals.Discarded)
	c := &s.count
	for _, m := range []struct {
		name, help string
		value      *atomic.Int64
	}{
		{"requests_total", "Requests.", &c.requests}, {"faults_total", "Bodies refused as not valid.", &c.faults},
		{"refused_total", "Requests refused because they would stall the training.", &c.refused},
		{"duplicates_total", "Posts whose key was known.", &c.duplicates}, {"waited_total", "Posts that waited for room.", &c.waited},
		{"damaged_total", "Groups found damaged.", &c.damaged}, {"body_bytes_total", "Bytes of bodies, inflated.", &c.bodyBytes},
		{"sent_bytes_total", "Bytes of answers with groups, before compression.", &c.deliveredBytes},
	} {
		count(m.name, m.help, m.value.Load())
	}
	count("ingest_seconds_total", "Time from a body to its answer, the disk included.", float64(c.ingest.Load())/1e9)
	count("syncs_total", "Group commits.", v.Store.Syncs)
	if len(v.Envs) > 0 {
		fmt.Fprintf(w, "# HELP hermes_run_api_env_queue_sequences Sequences in the queue by environment.\n# TYPE hermes_run_api_env_queue_sequences gauge\n")
	}
	for _, e := range v.Envs {
		fmt.Fprintf(w, "hermes_run_api_env_queue_sequences{env=%q} %d\n", e.Name, e.Queued)
	}
}
