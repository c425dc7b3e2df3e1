//go:build linux

package escapes

import (
	"context"
	"os"
	"slices"
	"testing"

	"hermes/backends"
)

// unproven are attempts that do not work on the machine on which this table was made (Linux
// 6.18, root with all capabilities but CAP_SYS_RESOURCE) even where nothing guards: the kernel
// lacks what they attack, or asks more than that root has. All others were seen to work there.
func unproven() map[string]string {
	const resource, modules, missing = "root lacked CAP_SYS_RESOURCE", "the kernel has no modules", "the kernel has no such file"
	return map[string]string{
		"be killed last": resource, "login of pid 1": resource, "raise the process limit": resource,
		"raise the memory-lock limit": resource, "raise the queue limit": resource, "new memory map": resource,
		"load a kernel": "the kernel cannot load another", "load a module": modules, "load a module's file": modules, "remove a module": modules, "run on a missing module": missing,
		"run on a device": missing, "run on a format": missing, "magic keys": missing, "who may trace": missing, "memory of the kernel": missing,
		"read memory device": missing, "ports": missing, "host security": missing,
		"crypto socket": "the kernel has no such sockets", "key socket": "the kernel has no such sockets",
		"allow namespaces again": "not from a namespace of mounts", "reboot": "not from a namespace of processes",
		"move pages of pid 1": "the machine has one node of memory",
		"kill pid 1":          "what it does is seen by the attempts that follow",
	}
}

// Unguarded makes every attempt where nothing forbids it, as root of this machine in a box of
// a back-end without isolation, and returns how many worked. An attempt that never works
// guards nothing. Mounts, processes, names and terminals are a copy that ends with each.
func Unguarded(t *testing.T, b backends.Backend) (worked int) {
	t.Helper()
	x := open(t, b)
	put(t, x)
	const last = "2>&1 </dev/null; exit $?" // pid 1 there is this shell
	names := Names()
	for name := range unproven() {
		if !slices.Contains(names, name) {
			t.Errorf("%q is unproven, and no attempt", name)
		}
	}
	for _, name := range names {
		r, err := x.Exec(context.Background(), backends.Cmd{Merge: true, Env: map[string]string{"NAME": name}, Argv: []string{
			"unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "sh", "-c", `./probe ` + command + ` "$NAME" ` + last}})
		if err != nil {
			t.Fatal(err)
		}
		_, never := unproven()[name]
		switch {
		case r.Code == 1:
			worked++
			if never {
				t.Logf("%s works here", name)
			}
		case !never:
			t.Logf("%s does not work here: exit code %d, %s", name, r.Code, r.Stdout)
		}
	}
	return worked
}

// put writes the program that makes attempts into a box.
func put(t *testing.T, x backends.Sandbox) {
	t.Helper()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.WriteFile(t.Context(), "probe", program, 0o755); err != nil {
		t.Fatal(err)
	}
}
