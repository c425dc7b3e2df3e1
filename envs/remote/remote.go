// Package remote makes a program in any language an environment: JSON-RPC 2.0, one
// message a line, over the stdin and stdout of child processes, or over HTTP. The
// protocol is written down in docs/environments-remote.md; python/hermes_env.py speaks it.
//
// A program keeps nothing between two requests: what belongs to a task travels in its
// `hidden` value and what belongs to a rollout in its `state`, both kept here. So any
// worker answers any request, and a worker that crashes takes nothing with it: it is
// started again, and what it was asked is asked again where that is safe. A request that
// fails voids the rollout and is never a reward of zero.
//
// A reward alone is simpler still ([Config.Checker]): a program that reads an episode on
// stdin and prints a number.
package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"hermes/envs"
	"hermes/envs/rows"
)

// Name is the name of the kind.
const Name = "remote"

// Protocol is the version of the protocol that this package speaks.
const Protocol = 1

// Config is the section envs.remote of a run file. One of Command, URL and Checker is
// needed.
type Config struct {
	Command    []string       `yaml:"command" help:"the program and its arguments; it reads requests on stdin and answers on stdout"`
	URL        string         `yaml:"url" help:"where a program answers over HTTP: https, or http on the loopback"`
	Checker    []string       `yaml:"checker" help:"a program that reads one episode on stdin and prints its reward; needs dataset"`
	Dataset    string         `yaml:"dataset" help:"rows of a dataset instead of the program's"`
	Eval       string         `yaml:"eval" help:"the same for the evaluation split"`
	Workers    int            `yaml:"workers" help:"processes of the program (default: one a CPU)"`
	Timeout    time.Duration  `yaml:"timeout" help:"of one request, waiting for the box and the judge left out (default: 2m)"`
	MaxMessage int            `yaml:"max-message" help:"bytes of one message (default: 16777216)"`
	Settings   map[string]any `yaml:"settings" help:"what the program gets at its start"`

	Env     map[string]string `yaml:"env" json:",omitempty" help:"environment variables of the program, beside PATH, HOME and the like"`
	PassEnv []string          `yaml:"pass-env" json:",omitempty" help:"names of variables of hermes that the program gets too, such as an API key"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind(Name, "a program in any language: JSON-RPC over stdin and stdout or HTTP, or a reward alone", Open)

func (c Config) checked() (Config, error) {
	given := 0
	for _, is := range []bool{len(c.Command) > 0, c.URL != "", len(c.Checker) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return c, fmt.Errorf("%d of command, url and checker are set: want exactly one, for example command: [python3, my_env.py]", given)
	case c.Workers < 0 || c.Workers > 256:
		return c, fmt.Errorf("workers %d: want 1 to 256, or 0 for one a CPU", c.Workers)
	case c.Timeout < 0:
		return c, fmt.Errorf("timeout %v is negative", c.Timeout)
	case c.MaxMessage < 0 || c.MaxMessage > 0 && c.MaxMessage < 4096:
		return c, fmt.Errorf("max-message %d: want at least 4096 bytes", c.MaxMessage)
	case len(c.Checker) > 0 && c.Dataset == "":
		return c, errors.New("checker: a reward alone has no rows: set dataset")
	}
	if err := c.stored().Check(); err != nil {
		return c, err
	}
	if err := c.checkNames(); err != nil {
		return c, err
	}
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	c.Timeout = cmp.Or(c.Timeout, 2*time.Minute)
	c.MaxMessage = cmp.Or(c.MaxMessage, 16<<20)
	return c, nil
}

func (c Config) stored() envs.Stored { return envs.Stored{Train: c.Dataset, Eval: c.Eval} }

// link carries requests to the program. It is safe for concurrent use.
type link interface {
	// call returns the result of a method; the scene is what the program may use meanwhile.
	call(ctx context.Context, method string, params any, s *scene) (json.RawMessage, error)
	// begin opens the way and returns the answer to initialize.
	begin(ctx context.Context) (greeting, error)
	close() error
}

// Env is a program as an environment. It is safe for concurrent use. Close it.
type Env struct {
	c        Config
	link     link
	hello    greeting
	plain    *rows.Env // makes the tasks of a program that makes none
	log      *console
	episodes atomic.Int64
}

// withOracle, withHidden and withBoth are environments that have what their names say:
// where a program lacks it, the caller must be able to see that.
type (
	withOracle struct{ *Env }
	withHidden struct{ *Env }
	withBoth   struct{ *Env }
)

// Open starts the program, or the first of its workers, and asks it what it can do. The
// result is an [*Env], or a wrapper of one that has the optional abilities Oracle and
// Hider of package envs, or an environment made of a dataset and a checker. All of them
// are an io.Closer.
func Open(ctx context.Context, c Config) (envs.Bundled, error) {
	c, err := c.checked()
	if err != nil {
		return nil, err
	}
	if c.URL == "" {
		Sweep(context.Background()) // what a hermes that was killed has left
	}
	if len(c.Checker) > 0 {
		return newChecker(c)
	}
	e := &Env{c: c, log: &console{}}
	if c.URL != "" {
		e.link, err = newWeb(c)
	} else {
		e.link, err = newPool(c, e.log)
	}
	if err != nil {
		return nil, err
	}
	e.plain, err = plainRows()
	if err != nil {
		return nil, err
	}
	e.hello, err = e.link.begin(ctx)
	if err != nil {
		return nil, errors.Join(err, e.link.close())
	}
	return e.dressed(), nil
}

func (e *Env) dressed() envs.Bundled {
	switch oracle, hides := e.hello.can("oracle"), e.hello.can("hidden"); {
	case oracle && hides:
		return withBoth{e}
	case oracle:
		return withOracle{e}
	case hides:
		return withHidden{e}
	}
	return e
}

// Close ends the program: its workers see the end of their stdin and are killed, with
// their children, when they do not end soon.
func (e *Env) Close() error { return e.link.close() }

// LogTo has what the program writes to stderr logged, also what it has written before.
func (e *Env) LogTo(l *slog.Logger) { e.log.logTo(l) }

// Identity is the program's name and version with a hash of the config, for run.yaml. The
// number of workers, their time limit and the limit of a message do not change it.
func (e *Env) Identity() string { return identity(e.hello.Name, e.hello.Version, e.c) }

func identity(name, version string, c Config) string {
	c.Workers = 0
	c.Timeout = 0
	c.MaxMessage = 0
	raw, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("remote: settings read from YAML cannot be written as JSON: %v", err)) // maps with keys that are no text are refused on opening
	}
	sum := sha256.Sum256(raw)
	return fmt.Sprintf("%s %s %s %s", Name, name, version, hex.EncodeToString(sum[:8]))
}

// greeting is what a program answers to initialize.
type greeting struct {
	Protocol    int      `json:"protocol"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Abilities   []string `json:"abilities"`
	Toolsets    []string `json:"toolsets"`
	Concurrency int      `json:"concurrency"`
	NeedsBox    bool     `json:"needs_box"`
}

// abilities lists the methods that a program may have beside rows and score.
func abilities() []string {
	return []string{"task", "prepare", "tools", "respond", "score_group", "oracle", "hidden"}
}

func (g greeting) can(ability string) bool { return slices.Contains(g.Abilities, ability) }

// checked refuses what this side cannot speak.
func (g greeting) checked() error {
	switch {
	case g.Protocol != Protocol:
		return fmt.Errorf("the program speaks version %d of the protocol, this hermes version %d: bring the older of the two up to date (hermes env new writes a matching hermes_env.py)", g.Protocol, Protocol)
	case g.Name == "":
		return errors.New("the program's answer to initialize has no name")
	case g.Concurrency < 0 || g.Concurrency > 1024:
		return fmt.Errorf("initialize: concurrency %d: want 1 to 1024 requests at once", g.Concurrency)
	}
	for _, a := range g.Abilities {
		if !slices.Contains(abilities(), a) {
			return fmt.Errorf("initialize: unknown ability %q (have %v)", a, abilities())
		}
	}
	return nil
}
