package build

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/backends"
	"hermes/backends/docker"
	"hermes/backends/local"
	"hermes/backends/modal"
	"hermes/backends/namespace/driver"
	"hermes/backends/nomad"
	"hermes/backends/pool"
	"hermes/backends/singularity"
	"hermes/backends/ssh"
	"hermes/configs"
	"hermes/internal/nearest"
)

// poolKey is the part of the section `backends` that is about the pool in front of them.
const poolKey = "pool"

// poolOptions reads the pool's part of the section.
func poolOptions(section configs.Section) (o pool.Options, err error) {
	return o, section.Sub(poolKey).Decode(&o)
}

// AutoBackend is the name that leaves the choice to the machine.
const AutoBackend = "auto"

// Backends lists the kinds that ship with hermes, and behind them more.
func Backends(more []backends.Kind) []backends.Kind {
	return append([]backends.Kind{driver.Kind(), docker.Kind(docker.Surroundings{}), singularity.Kind(singularity.Surroundings{}), nomad.Kind(nomad.Surroundings{}), modal.Kind(modal.Surroundings{}), ssh.Kind(ssh.Surroundings{}), local.Kind}, more...)
}

// Surround gives to the kinds what they take from the environment, and tell for what
// they have to say while a person waits.
func Surround(kinds []backends.Kind, env func(string) string, tell func(string)) []backends.Kind {
	kinds = slices.Clone(kinds)
	for i, k := range kinds {
		kinds[i] = k.In(env, tell)
	}
	return kinds
}

// ChosenBackend is an open back-end with its name and a sentence about the choice.
type ChosenBackend struct {
	backends.Backend
	Kind backends.Kind
	Name string
	Why  string
}

// BackendNames lists kinds by name, in their order.
func BackendNames(kinds []backends.Kind) []string {
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

// CheckBackends objects to keys of the section `backends` that no kind has, and to
// settings that a kind does not take. Nothing is opened.
func CheckBackends(section configs.Section, kinds []backends.Kind) error {
	_, err := poolOptions(section)
	errs := []error{section.OnlyKeys(append(BackendNames(kinds), poolKey)), err}
	for _, k := range kinds {
		if s := section.Sub(k.Name); s.Node != nil {
			err := k.Check(s)
			if err != nil && slices.Contains(s.Keys(), "egress") && !k.Egress {
				err = fmt.Errorf("%w; %s", err, egressAdvice)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// egressAdvice says where boxes can have a list of hosts that they may reach.
const egressAdvice = "a list of hosts that boxes may reach works with namespace and docker (egress), ssh (egress in its key namespace) and modal (network: allow-list), and with no other back-end"

// OpenBackend opens the kind called name with its part of the section `backends`.
//
// With "auto" (or "") it is the first of the kinds with Auto that this machine can serve;
// where there is none, the error wraps [backends.ErrUnavailable] and names each cause.
// There is no fall-back to boxes without isolation: those must be asked for by name.
func OpenBackend(ctx context.Context, name string, section configs.Section, kinds []backends.Kind) (*ChosenBackend, error) {
	if err := CheckBackends(section, kinds); err != nil {
		return nil, err
	}
	if name == "" || name == AutoBackend {
		return autoBackend(ctx, section, kinds)
	}
	i := slices.IndexFunc(kinds, func(k backends.Kind) bool { return k.Name == name })
	if i < 0 {
		near := ""
		if n := nearest.Name(name, BackendNames(kinds)); n != "" {
			near = ", did you mean " + n + "?"
		}
		return nil, fmt.Errorf("no back-end %q (have %s, %s%s)", name, AutoBackend, strings.Join(BackendNames(kinds), ", "), near)
	}
	b, err := kinds[i].Open(ctx, section.Sub(name))
	if err != nil {
		return nil, fmt.Errorf("back-end %s: %w", name, err)
	}
	why := "boxes: " + name + ", as asked"
	if !b.Traits().Isolated {
		why += "; commands are not kept from this machine"
	}
	return &ChosenBackend{Backend: b, Kind: kinds[i], Name: name, Why: why}, nil
}

func autoBackend(ctx context.Context, section configs.Section, kinds []backends.Kind) (*ChosenBackend, error) {
	var causes []string
	for _, k := range slices.SortedStableFunc(slices.Values(kinds), func(a, b backends.Kind) int { return a.Auto - b.Auto }) {
		if k.Auto == 0 {
			continue
		}
		b, err := k.Open(ctx, section.Sub(k.Name))
		if err == nil && b.Traits().Isolated {
			return &ChosenBackend{Backend: b, Kind: k, Name: k.Name, Why: "boxes: " + k.Name + ", the first isolated back-end that works here"}, nil
		}
		if err == nil {
			err = errors.Join(errors.New("its boxes are not isolated"), b.Close(context.WithoutCancel(ctx)))
		}
		if ctx.Err() != nil {
			return nil, err
		}
		causes = append(causes, fmt.Sprintf("%s: %v", k.Name, err))
	}
	return nil, fmt.Errorf("%w: no isolated back-end works on this machine:\n  %s\n--backend local runs commands without isolation, for trusted work only",
		backends.ErrUnavailable, strings.Join(causes, "\n  "))
}
