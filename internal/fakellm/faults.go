package fakellm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The faults that a server can have.
const (
	Fault429        = "429"
	Fault500        = "500"
	Fault502        = "502" // with an HTML body, as a proxy answers
	Fault503        = "503"
	FaultReset      = "reset"          // the connection is reset before any answer
	FaultStall      = "stall"          // headers, then silence until the client gives up
	FaultTruncated  = "truncated_json" // a complete HTTP answer whose JSON is cut
	FaultInvalid    = "invalid_json"   // a complete HTTP answer that is no JSON
	FaultErrorIn200 = "error_in_200"   // {"error": …} under status 200
	FaultFinish     = "finish_error"   // finish_reason "error"
	FaultEmpty      = "empty"          // neither text nor calls
	FaultCut        = "stream_cut"     // the connection ends in the middle of the answer
	FaultSlow       = "slow_stream"    // a good answer in pieces with pauses

	// Of the forms with tokens only; the others answer well.
	FaultAbort   = "abort"        // the first half of the tokens, ended as by a change of the weights
	FaultWrapped = "wrapped"      // a good answer as a JSON string in a JSON string
	FaultNoIDs   = "no_ids"       // without token ids
	FaultNaN     = "nan_logprob"  // a log-prob that is not finite
	FaultBadID   = "bad_id"       // an id outside the vocabulary
	FaultPrompt  = "other_prompt" // the answer to a prompt with one token more
)

// FaultNames lists the faults in the order in which shares are laid out.
func FaultNames() []string {
	return []string{Fault429, Fault500, Fault502, Fault503, FaultReset, FaultStall, FaultTruncated,
		FaultInvalid, FaultErrorIn200, FaultFinish, FaultEmpty, FaultCut, FaultSlow}
}

// TokenFaultNames lists those of the forms with tokens. They stand behind the others.
func TokenFaultNames() []string {
	return []string{FaultAbort, FaultWrapped, FaultNoIDs, FaultNaN, FaultBadID, FaultPrompt}
}

func allFaults() []string { return append(FaultNames(), TokenFaultNames()...) }

// harmless reports whether an answer with a fault is a good one all the same.
func harmless(name string) bool {
	return name == "" || name == FaultSlow || name == FaultAbort || name == FaultWrapped
}

func knownFault(name string) bool { return slices.Contains(allFaults(), name) }

// ParseFaults reads "429=0.05,reset=0.01".
func ParseFaults(s string) (map[string]float64, error) {
	out := map[string]float64{}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, val, _ := strings.Cut(part, "=")
		share, err := strconv.ParseFloat(val, 64)
		if err != nil {
			return nil, fmt.Errorf("fault %q: want NAME=SHARE: %w", part, err)
		}
		out[name] = share
	}
	_, err := newFaultTable(out)
	return out, err
}

// faultTable holds the faults with their cumulated shares.
type faultTable []struct {
	name string
	upto float64
}

func newFaultTable(shares map[string]float64) (faultTable, error) {
	var t faultTable
	sum := 0.0
	for _, name := range allFaults() {
		share, ok := shares[name]
		if !ok {
			continue
		}
		if !(share >= 0 && share <= 1) {
			return nil, fmt.Errorf("fault %s: share %v is not between 0 and 1", name, share)
		}
		sum += share
		t = append(t, struct {
			name string
			upto float64
		}{name, sum})
	}
	for name := range shares {
		if !knownFault(name) {
			return nil, fmt.Errorf("unknown fault %q (have %s)", name, strings.Join(allFaults(), ", "))
		}
	}
	if sum > 1+1e-9 {
		return nil, fmt.Errorf("the shares of the faults sum to %g, more than 1", sum)
	}
	return t, nil
}

// draw returns the fault for a number in [0, 1), or "".
func (t faultTable) draw(u float64) string {
	for _, f := range t {
		if u < f.upto {
			return f.name
		}
	}
	return ""
}
