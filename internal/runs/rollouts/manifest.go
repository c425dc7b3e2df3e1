package rollouts

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/internal/settings"
	"hermes/rollout"
	"hermes/rollout/policy"
	"hermes/rollout/rundir"
)

// Manifest is what run.yaml will say.
func (r *Run) Manifest() (rundir.Manifest, error) {
	print, err := r.Data.Fingerprint(context.Background())
	if err != nil {
		return rundir.Manifest{}, err
	}
	m := rundir.Manifest{Version: r.Host.Version, Created: time.Now().UTC().Truncate(time.Second), Identity: r.identity(),
		Extent: rundir.Extent{Dataset: print, Rollouts: r.Rollouts, Limit: r.Limit, Shard: r.Shard, Planned: r.Report.Rows * int64(r.Rollouts)},
		Books: rundir.Books{Mode: r.Mode, Accept: r.Accept, RequireReasoning: r.RequireReasoning, Dedup: r.Dedup, Formats: r.Format,
			Parquet: r.Parquet, Preamble: r.Preamble},
		Tools: r.Tools.Names(),
	}
	if r.Model.Exact != nil {
		m.Books.LogProbs, m.Books.Sampling = r.Model.Exact.Probs(), r.Named()
	}
	config := map[string]string{"dataset": strings.Join(r.Datasets, " ")}
	if r.Env != nil {
		config["dataset"] = "env:" + r.Env.Name
	}
	for _, s := range r.Layers {
		config[s.Name] = s.Value
	}
	return m, m.Config.Encode(config)
}

// identity are the fields in which two starts of a run must agree.
func (r *Run) identity() rundir.Fields {
	number := func(v any) string {
		raw, _ := json.Marshal(v) // pointers to numbers and lists of texts
		return string(raw)
	}
	sets := strings.Join(r.Tools.Sets, ",")
	if r.Distribution != "" {
		sets = "distribution " + r.Distribution
	}
	fields := rundir.Fields{
		{Name: "env", Value: r.Env.Identity()}, {Name: "model", Value: r.Model.Name}, {Name: "mode", Value: string(r.Model.Policy.Info().Mode)},
		{Name: "tools", Value: r.Tools.Digest()}, {Name: "toolsets", Value: sets}, {Name: "image", Value: r.Image},
		{Name: "system", Value: settings.Digest(r.System)}, {Name: "ephemeral-system", Value: settings.Digest(r.EphemeralSystem)}, {Name: "prefill", Value: settings.DigestFile(r.Prefill)},
		{Name: "max-tokens", Value: number(r.MaxTokens)}, {Name: "temperature", Value: number(r.Temperature)}, {Name: "top-p", Value: number(r.TopP)},
		{Name: "top-k", Value: number(r.TopK)}, {Name: "min-p", Value: number(r.MinP)}, {Name: "stop", Value: number(r.Stop)},
		{Name: "reasoning-effort", Value: r.ReasoningEffort}, {Name: "extra-body", Value: r.ExtraBody},
		{Name: "max-turns", Value: strconv.Itoa(r.MaxTurns)}, {Name: "max-total-tokens", Value: strconv.FormatInt(r.MaxTotalTokens, 10)},
		{Name: "faults", Value: r.Faults}, {Name: "grader", Value: r.words.Grader.String()}, {Name: "seed", Value: strconv.FormatInt(r.Seed, 10)},
		{Name: "rows", Value: strings.Join(append(append([]string{}, r.Map...), r.PromptKey, strconv.FormatBool(r.Shuffle)), ",")},
		{Name: "accept", Value: r.Accept}, {Name: "require-reasoning", Value: strconv.FormatBool(r.RequireReasoning)}, {Name: "preamble", Value: settings.Digest(r.Preamble)},
	}
	if r.Verify != "" {
		fields = append(fields, rundir.Field{Name: "verify", Value: strings.TrimSpace(r.Verify + " " + r.VerifyImage)})
	}
	if r.Model.Exact != nil {
		fields = append(fields, r.Model.Exact.Identity()...)
	}
	if p := r.Roles.Policy(policy.Judge); p != nil {
		fields = append(fields, rundir.Field{Name: "judge", Value: p.Info().Model})
	}
	judges := r.Roles.Judges()
	for _, name := range slices.Sorted(maps.Keys(judges)) {
		fields = append(fields, rundir.Field{Name: "judge_" + name, Value: judges[name].Info().Model})
	}
	if r.Suite != nil {
		fields = append(fields, rundir.Field{Name: "suite", Value: r.Suite.Name}, rundir.Field{Name: "judged-by", Value: cmp.Or(r.Suite.Judge, r.words.Grader.String())})
	}
	if r.Parts.Oracle {
		fields = append(fields, rundir.Field{Name: "oracle", Value: "true"})
	}
	if r.Family != "" && (r.Model.Exact == nil || r.Model.Exact.Form == "chat") {
		fields = append(fields, rundir.Field{Name: "text-family", Value: r.Family})
	}
	if list := r.Calls.String(); list != rollout.DefaultRunCalls().String() {
		fields = append(fields, rundir.Field{Name: "run-calls", Value: list})
	}
	if r.Dedup {
		fields = append(fields, rundir.Field{Name: "dedup", Value: "true"})
	}
	return fields
}
