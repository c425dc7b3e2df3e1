package servers

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hermes/rollout/policy"
	"hermes/trajectory"
)

// Capture is what to keep of an answer beside its tokens and their log-probs.
type Capture struct {
	Experts bool // the experts to which each token was routed
	TopK    int  // the likeliest tokens at each place; 0: none
}

// maxTopK bounds what is asked for at each place.
const maxTopK = 1024

// ParseCapture reads a list such as routed_experts,topk=20.
func ParseCapture(text string) (Capture, error) {
	var c Capture
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		k, isTop := strings.CutPrefix(item, "topk=")
		n, err := strconv.Atoi(k)
		switch {
		case item == "":
		case item == "routed_experts":
			c.Experts = true
		case isTop && err == nil && n > 0 && n <= maxTopK:
			c.TopK = n
		default:
			return c, fmt.Errorf("capture %q: want routed_experts, topk=K with K from 1 to %d", item, maxTopK)
		}
	}
	return c, nil
}

// Empty reports whether nothing is captured.
func (c Capture) Empty() bool { return c == Capture{} }

// String is what ParseCapture reads.
func (c Capture) String() string {
	var list []string
	if c.Experts {
		list = append(list, "routed_experts")
	}
	if c.TopK > 0 {
		list = append(list, "topk="+strconv.Itoa(c.TopK))
	}
	return strings.Join(list, ",")
}

// Blocks stores what was captured of a turn. before is the number of tokens before the
// turn, total that of all tokens with the answer.
//
// topk_ids and topk_logprobs have the shape (sampled tokens, K). Row i of
// routed_experts belongs to the token before + i - 1 of the sequence: the last token of
// an answer is routed only when the next turn is asked, so that the rows of all turns
// together cover the sequence, each token once.
func (c Capture) Blocks(a Completion, before, total int, put func([]byte) (string, error)) ([]trajectory.Block, error) {
	if put == nil {
		put = func(b []byte) (string, error) {
			sum := sha256.Sum256(b)
			return hex.EncodeToString(sum[:]), nil
		}
	}
	var list []trajectory.Block
	add := func(name, dtype string, shape []int, data []byte) error {
		blob, err := put(data)
		if err != nil {
			return fmt.Errorf("store the captured %s: %w", name, err)
		}
		list = append(list, trajectory.Block{Name: name, Dtype: dtype, Shape: shape, Blob: blob})
		return nil
	}
	if c.TopK > 0 {
		ids, lps := make([]byte, 0, 4*len(a.Top)), make([]byte, 0, 4*len(a.Top))
		for _, t := range a.Top {
			ids = binary.LittleEndian.AppendUint32(ids, uint32(t.id))
			lps = binary.LittleEndian.AppendUint32(lps, math.Float32bits(t.logProb))
		}
		shape := []int{len(a.Tokens), c.TopK}
		if err := add("topk_ids", "int32", shape, ids); err != nil {
			return nil, err
		}
		if err := add("topk_logprobs", "float32", shape, lps); err != nil {
			return nil, err
		}
	}
	if !c.Experts {
		return list, nil
	}
	data, shape, err := a.Experts.since(max(0, before-1), total-1)
	if err != nil {
		return nil, err
	}
	return list, add("routed_experts", a.Experts.dtype, shape, data)
}

// since are the rows from a token on; there are rows for the first n tokens.
func (e experts) since(from, n int) ([]byte, []int, error) {
	if n <= 0 || len(e.raw)%n != 0 || from > n {
		return nil, nil, policy.Inexactf("routed_experts: %d bytes are no rows for %d tokens", len(e.raw), n)
	}
	width := len(e.raw) / n
	shape := e.row
	if shape == nil {
		shape = []int{width / 4}
	}
	return e.raw[from*width:], append([]int{n - from}, slices.Clone(shape)...), nil
}
