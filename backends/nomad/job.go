package nomad

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Names inside a job. They cannot change later.
const (
	jobPrefix   = "hermes-"
	groupName   = "sandbox"
	taskName    = "box"
	portLabel   = "slotd"
	inPort      = 7711             // of slotd in a container
	metaOwner   = "hermes_owner"   // as backends.Owner writes it
	metaBoot    = "hermes_boot"    // of the owner's machine: pids mean nothing on another
	metaExpires = "hermes_expires" // Unix seconds after which a sweep removes the job
	metaSpec    = "hermes_spec"    // digest of what a slot is
)

// shape is what tells the slots of one job from those of another.
type shape struct {
	image     string
	memory    int64
	cpu       int
	processes int // of commands; 0: not limited
}

// digest names the shape in job names.
func (s shape) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %d", s.image, s.memory, s.cpu, s.processes))
	return hex.EncodeToString(sum[:4])
}

// orphan is how long a slot lives without calls, and how long it lives when its node reaches
// no server. Boxes need no server: they go on working while all are away.
func (c Config) orphan() time.Duration { return 10 * c.TTL }

// job describes count slots of a shape. A slot that ends is not restarted in place: its
// lease would be gone without a sign. Nomad puts a new one in its stead, with another id.
// Only after a power cut the node starts the same one again.
func (c Config) job(id, token string, s shape, count int, meta map[string]string) *api.Job {
	group := &api.TaskGroup{Name: new(groupName), Count: &count,
		Update:           &api.UpdateStrategy{MaxParallel: new(0)}, // no deployments: they would block scaling
		RestartPolicy:    &api.RestartPolicy{Attempts: new(0), Mode: new("fail")},
		ReschedulePolicy: &api.ReschedulePolicy{Unlimited: new(true), DelayFunction: new("constant"), Delay: new(5 * time.Second)},
		Disconnect:       &api.DisconnectStrategy{StopOnClientAfter: new(c.orphan())},
		EphemeralDisk:    &api.EphemeralDisk{SizeMB: new(int(c.Disk >> 20))},
		Networks:         []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: portLabel}}}},
		Tasks:            []*api.Task{c.task(token, s)},
	}
	if c.Driver == driverDocker {
		group.Networks[0].DynamicPorts[0].To = inPort
	}
	j := &api.Job{ID: &id, Name: &id, Type: new("service"), Namespace: &c.Namespace, Datacenters: c.Datacenters,
		Meta: meta, TaskGroups: []*api.TaskGroup{group}}
	if c.Region != "" {
		j.Region = &c.Region
	}
	if c.NodePool != "" {
		j.NodePool = &c.NodePool
	}
	return j
}

// task is one slotd. Its token comes in a file that it reads and removes.
func (c Config) task(token string, s shape) *api.Task {
	t := &api.Task{Name: taskName, KillTimeout: new(5 * time.Second),
		Templates: []*api.Template{{EmbeddedTmpl: &token, DestPath: new("secrets/slotd"), Perms: new("0600"), ChangeMode: new("noop"), Once: new(true)}},
		Resources: &api.Resources{CPU: &s.cpu, MemoryMB: new(int(s.memory >> 20))}}
	program := c.Slotd
	if c.Artifact != "" {
		a := &api.TaskArtifact{GetterSource: &c.Artifact, RelativeDest: new("local/")}
		if c.Checksum != "" {
			a.GetterOptions = map[string]string{"checksum": c.Checksum}
		}
		t.Artifacts = []*api.TaskArtifact{a}
		program = "${NOMAD_TASK_DIR}/slotd"
	}
	listen := "tcp:${NOMAD_IP_slotd}:${NOMAD_PORT_slotd}" // a node's own address: loopback would not do
	switch c.Driver {
	case driverRaw:
		t.Driver = driverRaw
		t.Config = map[string]any{"command": program, "args": c.serve(listen, "${NOMAD_SECRETS_DIR}/slotd", "${NOMAD_ALLOC_DIR}/data", "${NOMAD_ALLOC_DIR}/tmp")}
	case driverSingularity:
		const inside = "/.hermes"
		args := []string{"exec", "--containall", "--no-home", "--cleanenv", "--no-mount", "hostfs", "--writable-tmpfs",
			"--bind", "${NOMAD_SECRETS_DIR}:" + inside + "/secrets", "--bind", "${NOMAD_ALLOC_DIR}/data:/work", "--bind", path.Dir(program) + ":" + inside + "/bin:ro",
			"--pwd", "/work", s.image, inside + "/bin/" + path.Base(program)}
		t.Driver = driverRaw // Nomad's own driver for it is not maintained
		t.Config = map[string]any{"command": c.Singularity, "args": append(args, c.serve(listen, inside+"/secrets/slotd", "/work", "/tmp")...)}
	default:
		t.Driver, t.User = driverDocker, "root"
		args := append(c.serve("tcp::"+strconv.Itoa(inPort), "/secrets/slotd", "/alloc/data", "/tmp"), "--private", "--reap")
		t.Config = map[string]any{"image": s.image, "force_pull": false, "entrypoint": []string{path.Join("/", replaceTaskDir(program))}, "args": args,
			"ports": []string{portLabel}, "cap_drop": []string{"all"}, "cap_add": []string{"chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid"},
			"security_opt": []string{"no-new-privileges"}, "pids_limit": s.processes + serverThreads, "image_pull_timeout": c.Start.String()}
	}
	return t
}

// replaceTaskDir writes the path of an artifact as it is in a container.
func replaceTaskDir(program string) string {
	if path.Dir(program) == "${NOMAD_TASK_DIR}" {
		return "/local/" + path.Base(program)
	}
	return program
}

// serve is slotd's command line. A slot without calls ends by itself: it may be on a
// node that the cluster has given up, or its hermes is gone.
func (c Config) serve(listen, token, home, scratch string) []string {
	args := []string{"serve", "--listen", listen, "--token", token, "--home", home, "--scratch", scratch, "--leases", "--orphan", c.orphan().String()}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		args = append(args, "--env", k+"="+c.Env[k])
	}
	return args
}
