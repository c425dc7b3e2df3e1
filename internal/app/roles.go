package app

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/rollout/policy"
)

// RoleFlags give tasks beside the rollouts' own a model.
type RoleFlags struct {
	ModelRole     []string `name:"model-role" sep:"none" help:"judge|judge_NAME|user|summary=MODEL[@URL]: the model of a role; may repeat." placeholder:"ROLE=MODEL[@URL]"`
	RoleBudgetUSD []string `name:"role-budget-usd" sep:"none" help:"ROLE=DOLLARS: the budget of a role (default: the run's)." placeholder:"ROLE=USD"`
}

// role is one --model-role with what belongs to it.
type role struct {
	policy.RoleSpec
	policy policy.Policy
	budget *policy.Spending // its own; nil: the run's
}

// unasked says why a role that nothing asks for is refused: its model would cost nothing
// and do nothing, and the user would not notice.
func unasked(r policy.Role) string {
	switch r {
	case policy.User:
		return "no dataset row talks to a simulated user; it is for environments that do"
	case policy.Summary:
		return "nothing summarises in a batch: a context that is full ends its rollout"
	}
	return ""
}

// parseRoles reads the flags; nothing is asked yet.
func parseRoles(f RoleFlags) (map[policy.Role]*role, error) {
	roles := map[policy.Role]*role{}
	for _, text := range f.ModelRole {
		spec, err := policy.ParseRole(text)
		if err != nil {
			return nil, fmt.Errorf("--model-role: %w", err)
		}
		if why := unasked(spec.Role); why != "" {
			return nil, fmt.Errorf("--model-role %s: %s", text, why)
		}
		if roles[spec.Role] != nil {
			return nil, fmt.Errorf("--model-role %s: %s has a model already", text, spec.Role)
		}
		roles[spec.Role] = &role{RoleSpec: spec}
	}
	for _, text := range f.RoleBudgetUSD {
		name, value, _ := strings.Cut(text, "=")
		usd, err := strconv.ParseFloat(value, 64)
		if err != nil || !(usd > 0) {
			return nil, fmt.Errorf("--role-budget-usd %q: want ROLE=DOLLARS, more than 0", text)
		}
		r := roles[policy.Role(name)]
		if r == nil {
			return nil, fmt.Errorf("--role-budget-usd %q: no --model-role gives %s a model", text, name)
		}
		if r.budget, err = policy.NewBudget(policy.Limits{USD: usd}); err != nil {
			return nil, err
		}
	}
	return roles, nil
}

// openRoles asks the servers of the roles for their models, before anything is spent.
func (b *batch) openRoles(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(b.roles)) {
		r := b.roles[name]
		if r.Model == scripted && r.Base == "" && b.Model != scripted {
			return fmt.Errorf("--model-role %s=%s: the embedded model is no %s", name, r.Model, name)
		}
		var err error
		if r.policy, err = b.other(ctx, r.Model, r.Base, b.budgetOf(r), false); err != nil {
			return fmt.Errorf("--model-role %s=%s: %w", name, r.Model, err)
		}
	}
	return b.checkJudge(ctx)
}

// budgetOf is the budget that a role spends from.
func (b *batch) budgetOf(r *role) *policy.Spending {
	if r.budget != nil {
		return r.budget
	}
	return b.model.budget
}

// checkJudge refuses judges whom nobody asks, and tells when rows would need one.
func (b *batch) checkJudge(ctx context.Context) error {
	if b.Env == nil && b.words.Grader.IsZero() {
		for name := range b.judges() {
			return fmt.Errorf("--model-role judge_%s: no grader asks it; name it in one with --grader, or call it judge", name)
		}
	}
	if b.roles[policy.Judge] != nil {
		return nil
	}
	n, err := b.countRubrics(ctx)
	if n > 0 {
		fmt.Fprintf(b.host.Err, "hermes: %d rows have only a rubric to be judged by; without --model-role judge=MODEL they are kept without a score\n", n)
	}
	return err
}

// countRubrics counts the rows that only a judge can score.
func (b *batch) countRubrics(ctx context.Context) (n int64, err error) {
	if !b.words.Grader.IsZero() || b.report.Mapping.Scoring["rubric"] == 0 {
		return 0, nil
	}
	for row, err := range b.data.Rows(ctx) {
		if err == nil && onlyRubric(row.Scoring) {
			n++
		}
	}
	return n, ctx.Err()
}

func onlyRubric(s datasets.Scoring) bool {
	return len(s.Rubric) > 0 && len(s.Checker)+len(s.ExpectedTools)+len(s.Expected)+len(s.Answer)+len(s.GroundTruth)+len(s.Solution) == 0
}

// judge is the policy that graders ask; nil: none.
func (b *batch) judge() policy.Policy {
	if r := b.roles[policy.Judge]; r != nil {
		return r.policy
	}
	return nil
}

// judges are the further ones, by name.
func (b *batch) judges() map[string]policy.Policy {
	var list map[string]policy.Policy
	for name, r := range b.roles {
		if judge, ok := name.JudgeName(); ok && judge != "" {
			if list == nil {
				list = map[string]policy.Policy{}
			}
			list[judge] = r.policy
		}
	}
	return list
}

// keysFor returns the keys that may be sent to servers at bases, and the names of their variables. A name without a host
// belongs to the run's own servers, and its key goes to no other one; HOST=NAME belongs
// to that host.
func (b *parts) keysFor(bases []string, own bool) (list, names []string, _ error) {
	for _, text := range b.APIKeyEnv {
		host, name, bound := strings.Cut(text, "=")
		if !bound {
			name = text
		}
		if name == "" {
			return nil, nil, fmt.Errorf("--api-key-env %q: want NAME or HOST=NAME", text)
		}
		send := own
		if bound {
			n := 0
			for _, base := range bases {
				if u, err := url.Parse(base); err == nil && (u.Host == host || u.Hostname() == host) {
					n++
				}
			}
			if n > 0 && n < len(bases) {
				return nil, nil, fmt.Errorf("--api-key-env %s: the base URLs name other hosts too, which would get this key", text)
			}
			send = n > 0
		}
		if !send {
			continue
		}
		key := b.host.Env(name)
		if err := WantKey(name, key); err != nil {
			return nil, nil, fmt.Errorf("--api-key-env %s: %w", text, err)
		}
		if key != "" {
			list, names = append(list, key), append(names, name)
		}
	}
	return list, names, nil
}

// defaultKeyEnv may be unset: nobody asked for it, and most servers of one's own want no key.
const defaultKeyEnv = "OPENAI_API_KEY"

// WantKey objects to the variable of a key that was asked for and is not set.
func WantKey(name, key string) error {
	if key != "" || name == defaultKeyEnv {
		return nil
	}
	return fmt.Errorf("the variable %s is not set: export %s=KEY, or leave --api-key-env out for a server that wants no key", name, name)
}

// origin is scheme, host and port of an address: whom a key is sent to.
func origin(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// ours reports whether all of bases are servers of the run itself.
func (m *models) ours(bases []string) bool {
	for _, base := range bases {
		if !slices.Contains(m.origins, origin(base)) {
			return false
		}
	}
	return true
}

// prices maps model names to what they cost; "" is the run's own model.
func parsePrices(list []string) (map[string]*policy.Price, error) {
	prices := map[string]*policy.Price{}
	for _, text := range list {
		name, value := "", text
		if i := strings.LastIndexByte(text, '='); i >= 0 {
			name, value = text[:i], text[i+1:]
		}
		p, err := parsePrice(value)
		if err != nil {
			return nil, err
		}
		if prices[name] != nil {
			return nil, fmt.Errorf("--price %q: the model has a price already", text)
		}
		prices[name] = p
	}
	return prices, nil
}
