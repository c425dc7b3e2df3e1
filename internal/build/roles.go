package build

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

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

// keysFor returns the keys that may be sent to servers at bases, and the names of their variables. A name without a host
// belongs to the run's own servers, and its key goes to no other one; HOST=NAME belongs
// to that host.
func (m *Model) keysFor(bases []string, own bool) (list, names []string, _ error) {
	for _, text := range m.from.APIKeyEnv {
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
		key := m.host.Env(name)
		if err := settings.WantKey(name, key); err != nil {
			return nil, nil, fmt.Errorf("--api-key-env %s: %w", text, err)
		}
		if key != "" {
			list, names = append(list, key), append(names, name)
		}
	}
	return list, names, nil
}

// Origin is scheme, host and port of an address: whom a key is sent to.
func Origin(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// ours reports whether all of bases are servers of the run itself.
func (m *Model) ours(bases []string) bool {
	return !slices.ContainsFunc(bases, func(base string) bool { return !slices.Contains(m.origins, Origin(base)) })
}
