package build

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"hermes/internal/settings"
	"hermes/rollout/policy"
)

// Roles are the models of tasks beside the rollouts' own.
type Roles struct {
	list map[policy.Role]role
	all  *policy.Spending // the run's budget
}

// role is one --model-role with what belongs to it.
type role struct {
	policy policy.Policy
	budget *policy.Spending // its own; nil: the run's
}

// OpenRoles asks the servers of the roles for their models, before anything is spent. m
// closes them.
func OpenRoles(ctx context.Context, m *Model, want map[policy.Role]settings.Role) (*Roles, error) {
	r := &Roles{list: map[policy.Role]role{}, all: m.Budget}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w, one := want[name], role{}
		if w.Model == settings.Scripted && w.Base == "" && !m.from.Embedded && m.from.Model != "" {
			return nil, fmt.Errorf("--model-role %s=%s: the embedded model is no %s", name, w.Model, name)
		}
		var err error
		if w.USD > 0 {
			if one.budget, err = policy.NewBudget(policy.Limits{USD: w.USD}); err != nil {
				return nil, err
			}
		}
		if one.policy, err = m.Other(ctx, w.Model, w.Base, cmp.Or(one.budget, m.Budget)); err != nil {
			return nil, fmt.Errorf("--model-role %s=%s: %w", name, w.Model, err)
		}
		r.list[name] = one
	}
	return r, nil
}

// Budget is what a role spends from; nil: there is no such role, or no budget.
func (r *Roles) Budget(name policy.Role) *policy.Spending {
	one, ok := r.list[name]
	if !ok {
		return nil
	}
	return cmp.Or(one.budget, r.all)
}

// Policy is the model of a role; nil: it has none.
func (r *Roles) Policy(name policy.Role) policy.Policy { return r.list[name].policy }

// Judges are the models of the roles judge_NAME, by NAME.
func (r *Roles) Judges() map[string]policy.Policy {
	var list map[string]policy.Policy
	for name, one := range r.list {
		if judge, ok := name.JudgeName(); ok && judge != "" {
			if list == nil {
				list = map[string]policy.Policy{}
			}
			list[judge] = one.policy
		}
	}
	return list
}
