package fakellm

import "hermes/internal/fakellm/model"

// logprob is the log-probability of the token at pos: made up, but the same every time.
func logprob(dig digest, pos int) float64 {
	return -float64(model.Mix(dig.low()+uint64(pos)*0x9e3779b97f4a7c15)%3000)/1000 - 0.001
}

// logProb is the log-probability of the k-th token of the answer.
func (x *exchange) logProb(k int) float64 {
	if x.s.opt.Score == nil {
		return logprob(x.dig, k)
	}
	if x.line == nil {
		x.line = append(append(x.line, x.a.PromptIDs...), x.a.IDs...)
	}
	n := len(x.a.PromptIDs) + k
	return x.s.opt.Score(x.line[:n:n], x.line[n])
}

// appendLogProb writes it; the one in the middle is null with [FaultNaN].
func (x *exchange) appendLogProb(b []byte, k int) []byte {
	if x.entry.Fault == FaultNaN && k == len(x.a.IDs)/2 {
		return append(b, "null"...)
	}
	return appendFloat(b, x.logProb(k))
}
