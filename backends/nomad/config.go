package nomad

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"hermes/backends"
	"hermes/internal/address"
)

// Config is the section backends.nomad of a run file. Either Slotd or Artifact is needed.
type Config struct {
	Address     string            `yaml:"address"`    // of an agent; "" means NOMAD_ADDR, else http://127.0.0.1:4646
	Region      string            `yaml:"region"`     // "" means NOMAD_REGION, else the agent's
	Namespace   string            `yaml:"namespace"`  // "" means NOMAD_NAMESPACE, else default
	TokenFile   string            `yaml:"token-file"` // holds the ACL token; "" means NOMAD_TOKEN
	TLS         TLS               `yaml:"tls"`
	Datacenters []string          `yaml:"datacenters"` // none means all
	NodePool    string            `yaml:"node-pool"`   // "" means the cluster's default
	Driver      string            `yaml:"driver"`      // docker (the default), raw_exec, singularity
	Image       string            `yaml:"image"`       // of slots whose Spec names none; "" means python:3.11-slim
	Singularity string            `yaml:"singularity"` // program on the nodes; "" means apptainer
	Slotd       string            `yaml:"slotd"`       // path of slotd on the nodes, or in the image with driver docker
	Artifact    string            `yaml:"artifact"`    // URL of a tar.gz with the program slotd, from which nodes fetch it
	Checksum    string            `yaml:"checksum"`    // of the artifact, such as sha256:…
	Min         int               `yaml:"min"`         // slots of Image that are kept although no caller needs them
	Max         int               `yaml:"max"`         // slots at once, of all images; 0 means 16
	Rootless    bool              `yaml:"rootless"`    // agents of the nodes do not run as root, so neither do commands of raw_exec
	CPU         int               `yaml:"cpu"`         // MHz of a slot; 0 means 500
	Memory      int64             `yaml:"memory"`      // bytes of a slot; 0 means 1 GiB
	Disk        int64             `yaml:"disk"`        // bytes of its ephemeral disk; 0 means 1 GiB
	TTL         time.Duration     `yaml:"ttl"`         // of leases, which are renewed three times as often; 0 means 2m
	Idle        time.Duration     `yaml:"idle"`        // how long more slots than needed are kept; 0 means 1m
	Start       time.Duration     `yaml:"start"`       // how long a slot may take to answer, pull included; 0 means 10m
	Poll        time.Duration     `yaml:"poll"`        // between looks at nodes and evaluations; 0 means 2s
	Away        time.Duration     `yaml:"away"`        // how long servers that are away are waited for before the end of a slot counts as ours; 0 means 30s
	Reset       string            `yaml:"reset"`       // of a slot after its use: files, full or replace; "" means full, with raw_exec files
	Env         map[string]string `yaml:"env"`         // of every command
}

// TLS is how connections to the agent are secured. Empty fields mean NOMAD_CACERT and its like.
type TLS struct {
	CACert     string `yaml:"ca-cert"`     // file with the certificates of the authorities of the servers
	ClientCert string `yaml:"client-cert"` // file with the certificate that we show
	ClientKey  string `yaml:"client-key"`  // file with its key
	ServerName string `yaml:"server-name"` // name in the certificate of the servers
}

// Surroundings are what the driver takes from the environment of hermes. The zero value
// is a machine without any.
type Surroundings struct {
	Address, Region, Namespace, Token string // NOMAD_ADDR, NOMAD_REGION, NOMAD_NAMESPACE, NOMAD_TOKEN
	TLS                               TLS    // NOMAD_CACERT, NOMAD_CLIENT_CERT, NOMAD_CLIENT_KEY, NOMAD_TLS_SERVER_NAME
	Tell                              func(text string)
	// Dial opens connections to slots; nil means directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (s Surroundings) say(format string, args ...any) {
	if s.Tell != nil {
		s.Tell(fmt.Sprintf("nomad: "+format, args...))
	}
}

// The drivers of Nomad that slots are made of.
const (
	driverDocker      = "docker"
	driverRaw         = "raw_exec"
	driverSingularity = "singularity"
)

// resetReplace says that a used slot is stopped and another one takes its place.
const resetReplace = "replace"

// complete fills in defaults and refuses what cannot work.
func (c Config) complete(at Surroundings) (Config, error) {
	c.Address = cmp.Or(c.Address, at.Address, "http://127.0.0.1:4646")
	c.Region, c.Namespace = cmp.Or(c.Region, at.Region), cmp.Or(c.Namespace, at.Namespace, "default")
	c.TLS = TLS{cmp.Or(c.TLS.CACert, at.TLS.CACert), cmp.Or(c.TLS.ClientCert, at.TLS.ClientCert),
		cmp.Or(c.TLS.ClientKey, at.TLS.ClientKey), cmp.Or(c.TLS.ServerName, at.TLS.ServerName)}
	c.Driver, c.Singularity = cmp.Or(c.Driver, driverDocker), cmp.Or(c.Singularity, "apptainer")
	if len(c.Datacenters) == 0 {
		c.Datacenters = []string{"*"}
	}
	reset := string(backends.ResetFull)
	if c.Driver == driverRaw {
		reset = string(backends.ResetFiles)
	} else {
		c.Image = cmp.Or(c.Image, "python:3.11-slim")
	}
	c.Reset = cmp.Or(c.Reset, reset)
	c.Max, c.CPU = cmp.Or(c.Max, max(16, c.Min)), cmp.Or(c.CPU, 500)
	c.Memory, c.Disk = cmp.Or(c.Memory, 1<<30), cmp.Or(c.Disk, 1<<30)
	c.TTL, c.Idle = cmp.Or(c.TTL, 2*time.Minute), cmp.Or(c.Idle, time.Minute)
	c.Start, c.Poll, c.Away = cmp.Or(c.Start, 10*time.Minute), cmp.Or(c.Poll, 2*time.Second), cmp.Or(c.Away, 30*time.Second)
	return c, c.check()
}

func (c Config) check() error {
	switch {
	case !slices.Contains([]string{driverDocker, driverRaw, driverSingularity}, c.Driver):
		return fmt.Errorf("driver %q: none of docker, raw_exec, singularity", c.Driver)
	case c.Driver == driverRaw && c.Image != "":
		return fmt.Errorf("image %q: slots of driver raw_exec have no images", c.Image)
	case !slices.Contains([]string{string(backends.ResetFiles), string(backends.ResetFull), resetReplace}, c.Reset):
		return fmt.Errorf("reset %q: none of files, full, replace", c.Reset)
	case (c.Slotd == "") == (c.Artifact == ""):
		return fmt.Errorf("slotd %q, artifact %q: name exactly one, the program's path on the nodes (in the image with driver docker) or a URL from which nodes fetch it (`make build` makes the program)", c.Slotd, c.Artifact)
	case c.Slotd != "" && !path.IsAbs(c.Slotd):
		return fmt.Errorf("slotd %q is not an absolute path", c.Slotd)
	case strings.Contains(c.Slotd, "${"):
		return fmt.Errorf("slotd %q: variables are not replaced", c.Slotd)
	case c.Min < 0 || c.Max < 1 || c.Min > c.Max:
		return fmt.Errorf("min %d, max %d: want 0 ≤ min ≤ max and max of 1 or more", c.Min, c.Max)
	case c.CPU < 1 || c.Memory < minMemory || c.Disk < 110<<20:
		return fmt.Errorf("cpu %d, memory %d, disk %d: want at least 1 MHz, 64 MiB, and 110 MiB for Nomad's logs", c.CPU, c.Memory, c.Disk)
	case c.TTL < 3*time.Second || c.TTL > 24*time.Hour:
		return fmt.Errorf("ttl %v: want 3s to 24h", c.TTL)
	case c.Idle < 0 || c.Start < 0 || c.Poll < 0 || c.Away < 0:
		return fmt.Errorf("idle %v, start %v, poll %v, away %v: negative", c.Idle, c.Start, c.Poll, c.Away)
	}
	return address.CheckFetched("artifact", c.Artifact)
}
