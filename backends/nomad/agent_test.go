//go:build linux

package nomad_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends/nomad"
)

// agents is a real Nomad cluster on loopback: a server and two nodes, each a process of
// the program that HERMES_TEST_NOMAD names, with its own folder. CONTRIBUTING.md says how to
// use it.
type agents struct {
	t       testing.TB
	program string
	dir     string
	conf    nomad.Config // how to reach it: address, token, certificates
	web     *api.Client
	nodes   map[string]string // ids, by the name of the process
	running map[string]*exec.Cmd
	cut     []string // nodes that Crash ended
	groups  []int    // of the processes that were ever started, with their helpers
	o       agentOptions
	http    int
	rpc     int
}

type agentOptions struct {
	secure bool   // ACLs and TLS
	docker string // the engine that the nodes use; "" means none
}

// realAgents starts a cluster, or skips the test.
func realAgents(t testing.TB, o agentOptions) *agents {
	t.Helper()
	a := &agents{t: t, program: os.Getenv("HERMES_TEST_NOMAD"), o: o, nodes: map[string]string{}, running: map[string]*exec.Cmd{}}
	if a.program == "" {
		t.Skip("HERMES_TEST_NOMAD names no program nomad")
	}
	dir, err := os.MkdirTemp("", "hn") // sockets need short names
	if err != nil {
		t.Fatal(err)
	}
	a.dir = dir
	t.Cleanup(a.end)
	ports := freePorts(t, 6)
	a.http, a.rpc = ports[0], ports[1]
	a.conf.Address = fmt.Sprintf("http://127.0.0.1:%d", a.http)
	secured, client := "", api.Config{Address: a.conf.Address}
	if o.secure {
		a.conf.Address = fmt.Sprintf("https://127.0.0.1:%d", a.http)
		a.conf.TLS = certificates(t, dir)
		secured = fmt.Sprintf("acl { enabled = true }\ntls {\n http = true\n rpc = true\n verify_server_hostname = true\n verify_https_client = true\n ca_file = %q\n cert_file = %q\n key_file = %q\n}\n",
			a.conf.TLS.CACert, a.conf.TLS.ClientCert, a.conf.TLS.ClientKey)
		client = api.Config{
			Address:   a.conf.Address,
			TLSConfig: &api.TLSConfig{CACert: a.conf.TLS.CACert, ClientCert: a.conf.TLS.ClientCert, ClientKey: a.conf.TLS.ClientKey},
		}
	}
	a.web, err = api.NewClient(&client)
	if err != nil {
		t.Fatal(err)
	}
	a.write("server", `server {
 enabled = true
 bootstrap_expect = 1
 heartbeat_grace = "4s"
 min_heartbeat_ttl = "2s"
 default_scheduler_config { scheduler_algorithm = "spread" }
}
`+secured, a.http, a.rpc, ports[2])
	a.start("server")
	a.await("a key ring of the server", func() bool {
		var keys struct{ Keys []any }
		_, err := a.web.Raw().Query("/.well-known/jwks.json", &keys, nil)
		return err == nil && len(keys.Keys) > 0
	})
	if o.secure {
		a.admit()
	}
	for i, name := range []string{"a", "b"} {
		plugins := "plugin \"raw_exec\" {\n config { enabled = true }\n}\n"
		if o.docker != "" {
			plugins += fmt.Sprintf("plugin \"docker\" {\n config {\n  endpoint = %q\n  gc {\n   image = false\n   dangling_containers { enabled = false }\n  }\n }\n}\n",
				o.docker)
		}
		a.write(name, fmt.Sprintf(`client {
 enabled = true
 servers = ["127.0.0.1:%d"]
 network_interface = "lo"
 min_dynamic_port = %d
 max_dynamic_port = %d
 options = { "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean" }
}
%s`, a.rpc, 21000+5000*i, 25999+5000*i, plugins)+secured, ports[3+i], 0, 0)
		a.start(name)
	}
	a.await("two ready nodes", func() bool {
		all, _, err := a.web.Nodes().List(nil)
		for _, n := range all {
			if n.Status == api.NodeStatusReady && (o.docker == "" || n.Drivers["docker"] != nil && n.Drivers["docker"].Healthy) {
				a.nodes[n.Name] = n.ID
			}
		}
		return err == nil && len(a.nodes) == 2
	})
	return a
}

// write writes the configuration of one process.
func (a *agents) write(name, section string, http, rpc, serf int) {
	a.t.Helper()
	text := fmt.Sprintf("name = %q\ndisable_update_check = true\nbind_addr = \"127.0.0.1\"\ndata_dir = %q\nconsul {\n auto_advertise = false\n server_auto_join = false\n client_auto_join = false\n}\n"+
		"advertise {\n http = \"127.0.0.1\"\n rpc = \"127.0.0.1\"\n serf = \"127.0.0.1\"\n}\nports {\n http = %d\n", name, filepath.Join(a.dir, name), http)
	if rpc > 0 {
		text += fmt.Sprintf(" rpc = %d\n serf = %d\n", rpc, serf)
	}
	if err := os.WriteFile(filepath.Join(a.dir, name+".hcl"), []byte(text+"}\n"+section), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// start starts one process; its log is in the cluster's folder.
func (a *agents) start(name string) {
	a.t.Helper()
	log, err := os.OpenFile(filepath.Join(a.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(a.program, "agent", "-config", filepath.Join(a.dir, name+".hcl"))
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + a.dir}
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.running[name] = c
	a.groups = append(a.groups, c.Process.Pid)
}

// kill ends one process as a crash does. What runs on its node goes on.
func (a *agents) kill(name string) {
	if c := a.running[name]; c != nil {
		c.Process.Kill()
		c.Wait()
		delete(a.running, name)
	}
}

// end removes everything that the cluster made.
func (a *agents) end() {
	if a.running["server"] != nil {
		q := &api.QueryOptions{Namespace: "*"}
		jobs, _, err := a.web.Jobs().List(q)
		if err != nil {
			a.t.Errorf("list jobs: %v", err)
		}
		for _, j := range jobs {
			a.web.Jobs().Deregister(j.ID, true, &api.WriteOptions{Namespace: j.Namespace})
		}
		for _, name := range []string{"a", "b"} {
			if a.nodes[name] != "" && a.running[name] == nil {
				a.start(name)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if !a.Until(ctx.Done(), func() bool { return len(a.Running()) == 0 }) {
			a.t.Errorf("processes left: %v", a.Running())
		}
	}
	for name := range a.running {
		a.kill(name)
	}
	for _, g := range a.groups { // what collects logs outlives its agent
		syscall.Kill(-g, syscall.SIGKILL)
	}
	for _, p := range a.processes() {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], a.dir+"/") {
			syscall.Unmount(f[4], syscall.MNT_DETACH)
		}
	}
	if a.t.Failed() {
		a.t.Logf("logs of the agents: %s", a.dir)
		return
	}
	if err := os.RemoveAll(a.dir); err != nil {
		a.t.Error(err)
	}
}

// await waits for something that comes by itself.
func (a *agents) await(what string, ok func() bool) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	if !a.Until(ctx.Done(), ok) {
		a.t.Fatalf("%s: not within %v (logs in %s)", what, patience, a.dir)
	}
}

// Until implements [stage]. There is no event for the end of a process that is no child.
func (a *agents) Until(done <-chan struct{}, ok func() bool) bool {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-done:
			return false
		}
	}
	return true
}

// process is one of a slot.
type process struct {
	pid   int
	alloc string
}

// processes lists those of slots of this cluster.
func (a *agents) processes() (all []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		p, ours := process{}, false
		fmt.Sscanf(file, "/proc/%d/", &p.pid)
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if id, ok := bytes.CutPrefix(v, []byte("NOMAD_ALLOC_ID=")); ok {
				p.alloc = string(id)
			}
			ours = ours || bytes.Contains(v, []byte(a.dir+"/")) || a.o.docker != "" && string(v) == "NOMAD_TASK_DIR=/local"
		}
		if ours && p.alloc != "" {
			all = append(all, p)
		}
	}
	return all
}

// Running implements [stage].
func (a *agents) Running() (ids []string) {
	for _, p := range a.processes() {
		ids = append(ids, p.alloc)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (a *agents) Address() string { return a.conf.Address }

// reach fills in how slots are asked for here: small ones, that many fit.
func (a *agents) reach(c nomad.Config) nomad.Config {
	c.Address, c.Namespace, c.TokenFile, c.TLS = a.conf.Address, a.conf.Namespace, cmp.Or(c.TokenFile, a.conf.TokenFile), a.conf.TLS
	c.CPU, c.Memory, c.Disk = cmp.Or(c.CPU, 10), cmp.Or(c.Memory, 64<<20), cmp.Or(c.Disk, 120<<20)
	if c.Driver == "docker" && c.Slotd == "" && c.Artifact == "" {
		c.Artifact = artifact(a.t)
	}
	return c
}

// artifact serves slotd as nodes fetch it.
func artifact(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, c := range []*exec.Cmd{
		exec.Command("go", "build", "-o", filepath.Join(dir, "slotd"), "hermes/cmd/slotd"),
		exec.Command("tar", "-C", dir, "-czf", filepath.Join(dir, "slotd.tar.gz"), "slotd"),
	} {
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c, err, out)
		}
	}
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(web.Close)
	return web.URL + "/slotd.tar.gz"
}

func (a *agents) query() *api.QueryOptions { return &api.QueryOptions{Namespace: a.conf.Namespace} }

func (a *agents) Jobs() (ids []string) {
	all, _, _ := a.web.Jobs().List(a.query())
	for _, j := range all {
		ids = append(ids, j.ID)
	}
	return ids
}

func (a *agents) Count(id string) int {
	j, _, err := a.web.Jobs().Info(id, a.query())
	if err != nil {
		return 0
	}
	return *j.TaskGroups[0].Count
}

func (a *agents) NodeOf(id string) string {
	x, _, err := a.web.Allocations().Info(id, a.query())
	if err != nil {
		return ""
	}
	return x.NodeID
}

func (a *agents) name(node string) string {
	for name, id := range a.nodes {
		if id == node {
			return name
		}
	}
	return ""
}

// LoseNode kills the agent of a node and waits until the server has noticed.
func (a *agents) LoseNode(id string) error {
	a.kill(a.name(id))
	return a.status(id, api.NodeStatusDown)
}

// ReturnNode starts it again.
func (a *agents) ReturnNode(id string) error {
	a.start(a.name(id))
	return a.status(id, api.NodeStatusReady)
}

func (a *agents) status(id, want string) error {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	if !a.Until(ctx.Done(), func() bool {
		n, _, err := a.web.Nodes().Info(id, nil)
		return err == nil && n.Status == want
	}) {
		return fmt.Errorf("node %s is not %s within %v", id, want, patience)
	}
	return nil
}

func (a *agents) DrainNode(id string) error {
	_, err := a.web.Nodes().UpdateDrain(id, &api.DrainSpec{Deadline: time.Hour}, false, nil)
	return err
}

// DrainDeadline makes the deadline of a drain be now.
func (a *agents) DrainDeadline(id string) {
	if _, err := a.web.Nodes().UpdateDrain(id, &api.DrainSpec{Deadline: -1}, false, nil); err != nil {
		a.t.Error(err)
	}
}

// Stop ends an allocation as an operator does, and returns when its processes are gone.
func (a *agents) Stop(id string) error {
	if _, err := a.web.Allocations().Stop(&api.Allocation{ID: id}, a.query()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !a.Until(ctx.Done(), func() bool { return !slices.Contains(a.Running(), id) }) {
		return errors.New("processes of allocation " + id + " live on")
	}
	return nil
}

// Down ends the server; Up starts it again, and the nodes that Crash ended.
func (a *agents) Down() { a.kill("server") }

func (a *agents) Up() {
	a.start("server")
	for _, name := range a.cut {
		a.start(name)
	}
	a.cut = nil
	a.await("a leader", func() bool {
		leader, err := a.web.Status().Leader()
		return err == nil && leader != ""
	})
}

// Crash ends all agents, their helpers and the slots.
func (a *agents) Crash() {
	for name := range a.running {
		a.kill(name)
		if name != "server" {
			a.cut = append(a.cut, name)
		}
	}
	home := []byte("HOME=" + a.dir)
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, home) }) {
			continue
		}
		pid := 0
		fmt.Sscanf(file, "/proc/%d/", &pid)
		syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, p := range a.processes() {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// freePorts finds ports on which no process listens just now.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
