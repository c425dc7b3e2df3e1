//go:build linux

package docker_test

import (
	"maps"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest/escapes"
	"hermes/backends/docker"
	"hermes/backends/egress"
)

// strict is the configuration in which every limit holds on any storage driver.
func strict() docker.Config { return docker.Config{ReadOnly: true} }

func TestEscapes(t *testing.T) {
	repeats := 1
	if *long {
		repeats = 20
	}
	for _, tt := range []struct {
		name string
		conf docker.Config
		open map[string]string
	}{{"default", docker.Config{}, map[string]string{
		"change a host program": "it is the image's copy", "new host program": "in the box's own layer", "raise the file limit": "there is none",
		"owner of a host file": "it is the image's copy", "mode of a host file": "likewise", "times of a host file": "likewise", "a link to a host file": "likewise",
		"a program that is root": "of the box's own layer, where no-new-privileges makes the bit mean nothing",
	}}, {"read-only", strict(), nil}} {
		t.Run(tt.name, func(t *testing.T) {
			why := ownThings()
			maps.Copy(why, tt.open)
			escapes.Run(t, boxOf(t, open(t, tt.conf), backends.Spec{}), escapes.Options{Repeats: repeats, Open: why})
		})
	}
}

// ownThings are attempts that reach what is the container's own.
func ownThings() map[string]string {
	return map[string]string{
		"become another user": "a user of the box, as installing packages needs", "become another group": "likewise", "set groups": "likewise", "be another user for files": "likewise",
		"host passwords": "the image's file", "host cgroups": "the container's own, read-only", "host devices": "names only, read-only", "host disks": "likewise",
		"be killed later than pid 1": "only within the memory limit of the box, whose end is the model's", "dumps of pid 1": "the core limit is 0, and slotd cannot be dumped",
	}
}

func TestProxyEscapes(t *testing.T) {
	w := escapes.NewWorld(t)
	b := open(t, docker.Config{Egress: egress.Config{Allow: w.Allow}})
	if err := b.Outside(egress.Outside{Resolver: w}); err != nil {
		t.Fatal(err)
	}
	escapes.Proxy(t, b, w)
}

func TestHostIsInvisible(t *testing.T) {
	escapes.Host(t, open(t, docker.Config{}), "shadow, ssh, hosts of the host")
}

func TestLinksStayInside(t *testing.T) { escapes.Links(t, open(t, docker.Config{})) }

func TestBoxesAreSeparate(t *testing.T) { escapes.Apart(t, open(t, docker.Config{})) }

func TestNeighbours(t *testing.T) {
	escapes.Neighbours(t, open(t, docker.Config{}))
}

func TestTenants(t *testing.T) { escapes.Tenants(t, open(t, strict())) }

func TestRaces(t *testing.T) { escapes.Races(t, open(t, docker.Config{})) }

func TestExhaustion(t *testing.T) {
	escapes.Exhaust(t, open(t, strict()), backends.Spec{Limits: backends.Limits{Memory: 64 << 20, Processes: 64, Disk: 32 << 20}})
}
