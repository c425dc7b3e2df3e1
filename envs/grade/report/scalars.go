package report

// Scalars are the figures under the names that trainers log them by.
func (r *Report) Scalars() map[string]float64 {
	m := map[string]float64{"completions/mean_length": r.Each.Completion, "turns/mean": r.Each.Turns, "seconds/mean": r.Each.Seconds,
		"samples/planned": float64(r.Samples.Planned), "samples/scored": float64(r.Samples.Scored)}
	for name, e := range r.Metrics {
		if name == "reward" {
			m["reward/mean"] = e.Value
		}
		m["eval/"+r.Suite+"/"+name] = e.Value
	}
	for name, t := range r.Tools {
		m["tools/"+name+"/error_rate"], m["tools/"+name+"/count"] = t.ErrorRate, float64(t.Count)
	}
	for cause, n := range r.Samples.Failed {
		m["void/"+cause] = float64(n)
	}
	if r.CostUSD != nil {
		m["cost_usd"] = *r.CostUSD
	}
	return m
}
