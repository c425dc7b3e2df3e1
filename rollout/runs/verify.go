package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hermes/rollout/sink"
	"hermes/trajectory/stats"
)

// Verification is what Verify found.
type Verification struct {
	Records    int              `json:"records"`
	Torn       int64            `json:"torn_bytes"` // behind the last intact frame: a process was killed
	Statistics stats.Statistics `json:"statistics"`
	// Stale says that the projections are behind a log that a process still writes, or was
	// killed while it wrote: the next start brings them up.
	Stale       bool              `json:"stale"`
	Differences []sink.Difference `json:"differences,omitempty"` // files that are not what the log gives
}

// Verify checks every checksum of the log, reads every record, balances the books, and
// compares statistics.json and every projection with the log. What it found is returned
// beside the error, too.
func Verify(ctx context.Context, dir string) (Verification, error) {
	var v Verification
	// Before the log: where somebody is writing, the log may only be further than this.
	have, unread := os.ReadFile(filepath.Join(dir, "statistics.json"))
	r, err := Open(dir)
	if err != nil {
		return v, err
	}
	defer r.Close()
	if err := r.Journal.Verify(ctx); err != nil {
		return v, err
	}
	st := r.Journal.Stats()
	v.Records, v.Torn = st.Attempts+st.Finals, st.Torn
	v.Statistics, err = r.Stats(ctx)
	if err != nil {
		return v, err
	}
	want, err := json.MarshalIndent(v.Statistics, "", "  ")
	if err != nil {
		return v, err
	}
	ended := st.Closed && st.Torn == 0
	stale := unread != nil || string(have) != string(want)+"\n"
	v.Stale = stale && !ended
	if err := errors.Join(v.Statistics.Balance(), behind(dir, have, v.Statistics)); err != nil {
		return v, err
	}
	v.Differences, err = sink.Check(ctx, r.Journal, dir, r.Manifest, ended)
	if err != nil {
		return v, err
	}
	if stale && !ended && unread == nil {
		was, err := sink.Behind(ctx, r.Journal, r.Manifest, have)
		if err != nil {
			return v, err
		}
		if !was {
			v.Differences = append(v.Differences, sink.Difference{File: "statistics.json", Why: "is not what the log gave at any time"})
		}
	}
	var errs []error
	for _, d := range v.Differences {
		errs = append(errs, d)
	}
	if errs != nil {
		return v, fmt.Errorf("%s: %w ('hermes runs export %s' makes it again out of the log)", dir, errors.Join(errs...), dir)
	}
	return v, nil
}

// behind objects to a log that holds fewer attempts than the statistics that were once
// counted out of it: attempts only grow, so records are lost. What cannot be read as
// statistics proves nothing.
func behind(dir string, counted []byte, now stats.Statistics) error {
	var then struct {
		Attempts int64 `json:"attempts"`
	}
	if json.Unmarshal(counted, &then) == nil && then.Attempts > now.Attempts {
		return fmt.Errorf("%s: statistics.json tells of %d attempts, the log of %d: records are lost, or that file was changed (then 'hermes runs export' makes it again)", dir, then.Attempts, now.Attempts)
	}
	return nil
}
