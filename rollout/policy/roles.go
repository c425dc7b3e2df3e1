package policy

import (
	"fmt"
	"regexp"
	"strings"
)

// Role is a task beside the rollout's own for which a model may be asked.
type Role string

// The roles of --model-role.
const (
	Judge   Role = "judge"
	User    Role = "user"
	Summary Role = "summary"
)

// judgeName is the name of one of several judges.
var judgeName = regexp.MustCompile(`^judge_([A-Za-z0-9][A-Za-z0-9-]{0,31})$`)

// JudgeRole is the role of the judge of a name; "" is that of the only one.
func JudgeRole(name string) Role {
	if name == "" {
		return Judge
	}
	return Judge + "_" + Role(name)
}

// JudgeName is the name of a judge's role: "" of judge, a of judge_a.
func (r Role) JudgeName() (name string, ok bool) {
	if r == Judge {
		return "", true
	}
	m := judgeName.FindStringSubmatch(string(r))
	if m == nil {
		return "", false
	}
	return m[1], true
}

// RoleSpec is one --model-role: ROLE=MODEL[@URL].
type RoleSpec struct {
	Role  Role
	Model string
	Base  string // empty: the run's own server
}

// ParseRole reads ROLE=MODEL[@URL], see [SplitModel].
func ParseRole(s string) (RoleSpec, error) {
	name, rest, ok := strings.Cut(s, "=")
	r := RoleSpec{Role: Role(name)}
	_, known := r.Role.JudgeName()
	known = known || r.Role == User || r.Role == Summary
	var err error
	r.Model, r.Base, err = SplitModel(rest)
	if !ok || err != nil || !known {
		return RoleSpec{}, fmt.Errorf("model role %q: want judge|judge_NAME|user|summary=MODEL[@URL]", s)
	}
	return r, nil
}

// SplitModel reads MODEL[@URL]. A model's name may hold an @ itself: only what begins
// with http:// or https:// is an address.
func SplitModel(s string) (model, base string, err error) {
	model = s
	for _, scheme := range []string{"@http://", "@https://"} {
		if i := strings.LastIndex(s, scheme); i >= 0 {
			model, base = s[:i], s[i+1:]
		}
	}
	if model == "" {
		return "", "", fmt.Errorf("model %q: want MODEL[@URL]", s)
	}
	return model, base, nil
}
