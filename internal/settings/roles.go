package settings

import (
	"fmt"
	"strconv"
	"strings"

	"hermes/rollout/policy"
)

// RoleFlags give tasks beside the rollouts' own a model.
type RoleFlags struct {
	ModelRole     []string `name:"model-role" sep:"none" help:"judge|judge_NAME|user|summary=MODEL[@URL]: the model of a role; may repeat." placeholder:"ROLE=MODEL[@URL]"`
	RoleBudgetUSD []string `name:"role-budget-usd" sep:"none" help:"ROLE=DOLLARS: the budget of a role (default: the run's)." placeholder:"ROLE=USD"`
}

// Role is one --model-role.
type Role struct {
	policy.RoleSpec
	USD float64 // its own budget, in dollars; 0: the run's
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

// Roles reads the flags; nothing is asked yet.
func (f RoleFlags) Roles() (map[policy.Role]Role, error) {
	roles := map[policy.Role]Role{}
	for _, text := range f.ModelRole {
		spec, err := policy.ParseRole(text)
		if err != nil {
			return nil, fmt.Errorf("--model-role: %w", err)
		}
		if why := unasked(spec.Role); why != "" {
			return nil, fmt.Errorf("--model-role %s: %s", text, why)
		}
		if _, twice := roles[spec.Role]; twice {
			return nil, fmt.Errorf("--model-role %s: %s has a model already", text, spec.Role)
		}
		roles[spec.Role] = Role{RoleSpec: spec}
	}
	for _, text := range f.RoleBudgetUSD {
		name, value, _ := strings.Cut(text, "=")
		usd, err := strconv.ParseFloat(value, 64)
		if err != nil || !(usd > 0) {
			return nil, fmt.Errorf("--role-budget-usd %q: want ROLE=DOLLARS, more than 0", text)
		}
		r, ok := roles[policy.Role(name)]
		if !ok {
			return nil, fmt.Errorf("--role-budget-usd %q: no --model-role gives %s a model", text, name)
		}
		r.USD = usd
		roles[r.Role] = r
	}
	return roles, nil
}

// DefaultKeyEnv may be unset: nobody asked for it, and most servers of one's own want no key.
const DefaultKeyEnv = "OPENAI_API_KEY"

// WantKey objects to the variable of a key that was asked for and is not set.
func WantKey(name, key string) error {
	if key != "" || name == DefaultKeyEnv {
		return nil
	}
	return fmt.Errorf("the variable %s is not set: export %s=KEY, or leave --api-key-env out for a server that wants no key", name, name)
}
