package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"hermes/envs"
	"hermes/internal/build"
	"hermes/internal/settings"
	"hermes/rollout"
	"hermes/rollout/policy"
	"hermes/trajectory"
)

// judges are the models that a re-scoring asks, with the answers that are kept beside its
// scores: what was bought is not bought again.
type judges struct {
	model *build.Model
	all   map[string]policy.Policy // by name
	tape  *answersFile

	mu   sync.Mutex
	used map[string]*trajectory.Judged
}

// openJudges asks the servers of the roles for their models.
func openJudges(ctx context.Context, h build.Host, f settings.JudgeFlags, file string) (*judges, error) {
	j := &judges{all: map[string]policy.Policy{}, used: map[string]*trajectory.Judged{}}
	roles, err := f.RoleFlags.Roles()
	if err != nil {
		return nil, err
	}
	for role, r := range roles {
		if r.Base == "" && len(f.BaseURL) == 0 {
			return nil, fmt.Errorf("--model-role %s=%s: no server: write MODEL@URL, or give --base-url", role, r.Model)
		}
	}
	parts, err := f.Parts()
	if err != nil {
		return nil, err
	}
	j.model, err = build.NewModel(h, parts)
	if err != nil {
		return nil, err
	}
	asked, err := build.OpenRoles(ctx, j.model, roles)
	if err != nil {
		return nil, errors.Join(err, j.model.Close())
	}
	for role := range roles {
		name, _ := role.JudgeName()
		j.all[name] = asked.Policy(role)
	}
	if len(j.all) > 0 {
		j.tape, err = openAnswers(file)
		if err != nil {
			return nil, errors.Join(err, j.model.Close())
		}
	}
	return j, nil
}

func (j *judges) close() error {
	err := j.model.Close()
	if j.tape != nil {
		err = errors.Join(err, j.tape.f.Close())
	}
	return err
}

// names are those of the judges that are there; "" is the one without.
func (j *judges) names() []string { return slices.Sorted(maps.Keys(j.all)) }

// models names the judges' models, for the head of the scores.
func (j *judges) models() map[string]string {
	if len(j.all) == 0 {
		return nil
	}
	m := map[string]string{}
	for name, p := range j.all {
		m[string(policy.JudgeRole(name))] = p.Info().Model
	}
	return m
}

// bench is the judges of one sample.
type bench struct {
	from *judges
	tape *sampleTape
	used map[string]*trajectory.Judged
}

// sit lets a scorer ask the judges about one sample.
func (j *judges) sit(w *envs.World, rec *trajectory.Record, seed uint64) *bench {
	b := &bench{from: j, used: map[string]*trajectory.Judged{}}
	if len(j.all) == 0 {
		return b
	}
	b.tape = &sampleTape{kept: j.tape}
	for name, p := range j.all {
		b.used[name] = &trajectory.Judged{}
		ask := rollout.NewJudge(p, policy.Options{Key: rec.Key, Group: rec.Group, Attempt: 1, Seed: &seed, Tape: b.tape}, b.used[name])
		if name == "" {
			w.Judge = ask
			continue
		}
		if w.Judges == nil {
			w.Judges = map[string]envs.Judge{}
		}
		w.Judges[name] = ask
	}
	return b
}

// rise adds up what the sample's judges did, and keeps their answers where they came to a
// verdict: those that could not be read are asked for again next time.
func (b *bench) rise(err error) error {
	j := b.from
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, u := range b.used {
		j.add(name, u)
	}
	if b.tape == nil || err != nil {
		return nil
	}
	return j.tape.keep(b.tape.fresh)
}

// count adds what judges did in a sample that was played again.
func (j *judges) count(by *trajectory.Judged) {
	if by == nil {
		return
	}
	members := by.Members
	if len(members) == 0 {
		members = []trajectory.Judged{*by}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, u := range members {
		j.add(u.Name, &u)
	}
}

// add counts what a judge did. The lock is held.
func (j *judges) add(name string, u *trajectory.Judged) {
	if j.used[name] == nil {
		j.used[name] = &trajectory.Judged{Model: u.Model, Name: name}
	}
	j.used[name].Asked += u.Asked
	j.used[name].Usage = j.used[name].Usage.Add(u.Usage)
}

// spent tells whether a scorer ended because a budget did.
func spent(err error) bool {
	var e *policy.Error
	return errors.As(err, &e) && e.Kind == policy.Budget
}
