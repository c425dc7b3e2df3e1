package modal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
	"hermes/internal/address"
	"hermes/internal/late"
)

// Config is the section `backends.modal` of a run file. The zero value is usable where
// MODAL_TOKEN_ID and MODAL_TOKEN_SECRET are set.
type Config struct {
	Server   string              `yaml:"server"` // URL of the service; "" means MODAL_SERVER_URL, then https://api.modal.com
	Settings `yaml:",inline"`    // of profiles that do not say otherwise
	Profiles map[string]Settings `yaml:"profiles"` // none: one named default
	Use      string              `yaml:"use"`      // profile or class of boxes that name none; needed where there are several classes
	Slotd    string              `yaml:"slotd"`    // path here of a static slotd for x86_64; "" means this program
	Linger   time.Duration       `yaml:"linger"`   // how long a box lives that hermes does not call; 0: 10 m
	Call     time.Duration       `yaml:"call"`     // most that one call to the service takes; 0: 1 m
}

// Settings are those of a profile: an account, and what its boxes are.
type Settings struct {
	TokenID     string `yaml:"token-id-env"`     // name of the variable with the token's id; "" means MODAL_TOKEN_ID
	TokenSecret string `yaml:"token-secret-env"` // and with its secret; "" means MODAL_TOKEN_SECRET
	Environment string `yaml:"environment"`      // of the workspace; "" means MODAL_ENVIRONMENT, then the workspace's default
	App         string `yaml:"app"`              // made where missing; "" means hermes
	Class       string `yaml:"class"`            // profiles of one class can stand in for each other; "" means the profile's name

	Image            string            `yaml:"image"`                 // of boxes that name none; "" means python:3.11-slim
	Setup            []string          `yaml:"setup"`                 // lines of a Dockerfile that follow FROM
	RegistryUser     string            `yaml:"registry-user-env"`     // name of the variable with the registry's user; "" means a public image
	RegistryPassword string            `yaml:"registry-password-env"` // and with the password
	Program          string            `yaml:"program"`               // path of slotd in the image; "" means that it is brought
	Home             string            `yaml:"home"`                  // of commands; "" means the image's HOME
	Env              map[string]string `yaml:"env"`                   // of every command

	GPU     string        `yaml:"gpu"`     // TYPE or TYPE:COUNT
	CPUs    float64       `yaml:"cpus"`    // cores; 0: the service's default
	Memory  int64         `yaml:"memory"`  // bytes; 0: the service's default
	Disk    int64         `yaml:"disk"`    // bytes; 0: the service's default
	Network string        `yaml:"network"` // none (the default), open, allow-list
	Allow   []string      `yaml:"allow"`   // domains and CIDR blocks of an allow-list
	Timeout time.Duration `yaml:"timeout"` // most that a box lives; 0: 1 h
	Idle    time.Duration `yaml:"idle"`    // after which the service ends a box without commands; 0: never
	Max     int           `yaml:"max"`     // boxes at once; 0: no limit of ours
	Creates int           `yaml:"creates"` // boxes being made at once; 0: 8
	Rate    float64       `yaml:"rate"`    // boxes made in a second; 0: no limit
	Weight  float64       `yaml:"weight"`  // share of the boxes among its class; 0: 1
}

// Surroundings are what the driver takes from the environment of hermes. The zero value
// is a process without any.
type Surroundings struct {
	Env  func(name string) string // variables, also those that the configuration names
	Tell func(text string)
}

func (s Surroundings) get(name string) string {
	if s.Env == nil {
		return ""
	}
	return s.Env(name)
}

func (s Surroundings) say(format string, args ...any) {
	if s.Tell != nil {
		s.Tell(fmt.Sprintf(format, args...))
	}
}

// The networks that a box can have.
const (
	networkNone  = "none"
	networkOpen  = "open"
	networkAllow = "allow-list"
)

// defaultProfile is the name of the only profile where none is configured.
const defaultProfile = "default"

// The bounds of a box's life and size. The service's own are not looked up.
const (
	maxTimeout = 24 * time.Hour
	minMemory  = 64 << 20
)

var (
	objectName  = late.Regexp(`^[a-zA-Z0-9._-]{1,64}$`)
	profileName = late.Regexp(`^[a-z0-9][a-z0-9._-]{0,30}$`)
	gpuName     = late.Regexp(`^[A-Za-z0-9-]+(:[1-9][0-9]?)?$`)
)

// complete fills in defaults, gives every profile all of its settings and refuses what
// cannot work.
func (c Config) complete(at Surroundings) (Config, error) {
	c.Server = strings.TrimSuffix(cmp.Or(c.Server, at.get("MODAL_SERVER_URL"), "https://api.modal.com"), "/")
	c.Linger, c.Call = cmp.Or(c.Linger, 10*time.Minute), cmp.Or(c.Call, time.Minute)
	if err := address.CheckURL("MODAL_SERVER_URL", c.Server); err != nil {
		return c, err
	}
	if _, _, err := target(c.Server, true); err != nil {
		return c, fmt.Errorf("server %q: %w", c.Server, err)
	}
	if c.Linger < time.Minute || c.Call < time.Second {
		return c, fmt.Errorf("linger %v, call %v: want at least 1m and 1s", c.Linger, c.Call)
	}
	given := c.Profiles
	if len(given) == 0 {
		given = map[string]Settings{defaultProfile: {}}
	}
	c.Profiles = map[string]Settings{}
	names := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !profileName.MatchString(name) {
			return c, fmt.Errorf("profile %q: want lower-case letters, digits, dots and dashes", name)
		}
		s, err := given[name].over(c.Settings).complete(name, at)
		if err != nil {
			return c, fmt.Errorf("profile %s: %w", name, err)
		}
		c.Profiles[name] = s
		names[name], names[s.Class] = true, true
	}
	return c.chooses(names)
}

// chooses settles where boxes go that name no profile.
func (c Config) chooses(names map[string]bool) (Config, error) {
	if c.Use != "" {
		if !names[c.Use] {
			return c, fmt.Errorf("use %q: no profile or class of that name (have %s)", c.Use, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
		return c, nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		class := c.Profiles[name].Class
		if c.Use != "" && c.Use != class {
			return c, fmt.Errorf("there are profiles of the classes %s and %s: say with use: which one boxes get that name none", c.Use, class)
		}
		c.Use = class
	}
	return c, nil
}

// over fills what a profile does not say from the settings that all share.
func (s Settings) over(d Settings) Settings {
	s.TokenID, s.TokenSecret = cmp.Or(s.TokenID, d.TokenID), cmp.Or(s.TokenSecret, d.TokenSecret)
	s.Environment, s.App, s.Class = cmp.Or(s.Environment, d.Environment), cmp.Or(s.App, d.App), cmp.Or(s.Class, d.Class)
	s.RegistryUser, s.RegistryPassword = cmp.Or(s.RegistryUser, d.RegistryUser), cmp.Or(s.RegistryPassword, d.RegistryPassword)
	s.Image, s.Program, s.Home = cmp.Or(s.Image, d.Image), cmp.Or(s.Program, d.Program), cmp.Or(s.Home, d.Home)
	s.GPU, s.CPUs, s.Memory, s.Disk = cmp.Or(s.GPU, d.GPU), cmp.Or(s.CPUs, d.CPUs), cmp.Or(s.Memory, d.Memory), cmp.Or(s.Disk, d.Disk)
	s.Timeout, s.Idle = cmp.Or(s.Timeout, d.Timeout), cmp.Or(s.Idle, d.Idle)
	s.Max, s.Creates = cmp.Or(s.Max, d.Max), cmp.Or(s.Creates, d.Creates)
	s.Rate, s.Weight = cmp.Or(s.Rate, d.Rate), cmp.Or(s.Weight, d.Weight)
	if s.Network == "" {
		s.Network = d.Network
		if s.Allow == nil {
			s.Allow = d.Allow
		}
	}
	if s.Setup == nil {
		s.Setup = d.Setup
	}
	env := maps.Clone(d.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, s.Env)
	s.Env = env
	return s
}

// complete fills in the defaults of a profile.
func (s Settings) complete(name string, at Surroundings) (Settings, error) {
	s.TokenID, s.TokenSecret = cmp.Or(s.TokenID, "MODAL_TOKEN_ID"), cmp.Or(s.TokenSecret, "MODAL_TOKEN_SECRET")
	s.Environment, s.App, s.Class = cmp.Or(s.Environment, at.get("MODAL_ENVIRONMENT")), cmp.Or(s.App, "hermes"), cmp.Or(s.Class, name)
	s.Image, s.Network = cmp.Or(s.Image, "python:3.11-slim"), cmp.Or(s.Network, networkNone)
	s.Timeout, s.Creates, s.Weight = cmp.Or(s.Timeout, time.Hour), cmp.Or(s.Creates, 8), cmp.Or(s.Weight, 1)
	switch {
	case !profileName.MatchString(s.Class):
		return s, fmt.Errorf("class %q: want lower-case letters, digits, dots and dashes", s.Class)
	case !objectName.MatchString(s.App):
		return s, fmt.Errorf("app %q: want at most 64 letters, digits, dots, dashes and underscores", s.App)
	case s.Network != networkNone && s.Network != networkOpen && s.Network != networkAllow:
		return s, fmt.Errorf("network %q: none of %s, %s, %s", s.Network, networkNone, networkOpen, networkAllow)
	case (s.Network == networkAllow) != (len(s.Allow) > 0):
		return s, fmt.Errorf("network %s with %d entries of allow: an allow-list needs some, and the others have none", s.Network, len(s.Allow))
	case s.GPU != "" && !gpuName.MatchString(s.GPU):
		return s, fmt.Errorf("gpu %q: want TYPE or TYPE:COUNT, such as T4 or H100:2", s.GPU)
	case (s.RegistryUser == "") != (s.RegistryPassword == ""):
		return s, errors.New("registry-user-env and registry-password-env belong together")
	case s.Timeout < time.Minute || s.Timeout > maxTimeout || s.Idle < 0:
		return s, fmt.Errorf("timeout %v, idle %v: want 1m to 24h, and no negative time", s.Timeout, s.Idle)
	case s.Max < 0 || s.Creates < 0 || s.Rate < 0 || s.Weight < 0 || math.IsNaN(s.Rate+s.Weight):
		return s, fmt.Errorf("max %d, creates %d, rate %g, weight %g: negative", s.Max, s.Creates, s.Rate, s.Weight)
	}
	for what, p := range map[string]string{"program": s.Program, "home": s.Home} {
		if p != "" && (!path.IsAbs(p) || path.Clean(p) != p || p == "/") {
			return s, fmt.Errorf("%s %q is not a clean absolute path below /", what, p)
		}
	}
	for _, line := range s.Setup {
		if verb := strings.ToUpper(first(line)); verb == "COPY" || verb == "ADD" || verb == "FROM" {
			return s, fmt.Errorf("setup %q: there is no %s, only what works without files of this machine", line, verb)
		}
	}
	_, err := s.with(backends.Limits{})
	return s, err
}

// with returns the settings with the limits that a box asks for.
func (s Settings) with(l backends.Limits) (Settings, error) {
	s.CPUs, s.Memory, s.Disk = cmp.Or(l.CPUs, s.CPUs), cmp.Or(l.Memory, s.Memory), cmp.Or(l.Disk, s.Disk)
	switch {
	case s.Memory != 0 && s.Memory < minMemory || s.Memory > math.MaxUint32<<20:
		return s, fmt.Errorf("memory limit of %d bytes: want at least %d", s.Memory, minMemory)
	case s.CPUs < 0 || s.CPUs > 1e6 || s.Disk < 0 || s.Disk > math.MaxUint32<<20:
		return s, fmt.Errorf("limits of %g cores and %d bytes of disk cannot be meant", s.CPUs, s.Disk)
	}
	return s, nil
}

// accelerator reads GPU, which was found well-formed.
func (s Settings) accelerator() (kind string, count uint32) {
	kind, n, _ := strings.Cut(s.GPU, ":")
	i, err := strconv.ParseUint(n, 10, 32)
	if err != nil {
		i = 1
	}
	return strings.ToUpper(kind), uint32(i)
}

// first is the first word of a line.
func first(line string) string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// target reads the URL of a server. Without TLS only this machine can be reached, and
// only where plain allows it: tokens do not travel in the clear.
func target(server string, plain bool) (address string, tls bool, err error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return "", false, errors.New("want https://HOST[:PORT]")
	}
	switch {
	case u.Scheme == "https":
		return hostPort(u, "443"), true, nil
	case u.Scheme == "http" && plain && loopback(u.Hostname()):
		return hostPort(u, "80"), false, nil
	}
	return "", false, errors.New("want https://HOST[:PORT]; http is for this machine's loopback only")
}
