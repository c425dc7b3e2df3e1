package settings

import (
	"os"
	"path/filepath"
	"testing"

	"hermes/configs"
)

func TestBudgetFollowsTheMachine(t *testing.T) {
	const meminfo = "MemTotal:        8000000 kB\nMemFree:          1000 kB\n"
	tests := []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{name: "no figures", want: 0},
		{
			name:  "the machine",
			files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"},
			want:  8000000 << 9,
		},
		{
			name:  "a group",
			files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "2000000000\n"},
			want:  1e9,
		},
		{
			name: "a group above",
			files: map[string]string{
				"proc/meminfo":                 meminfo,
				"proc/self/cgroup":             "0::/a/b\n",
				"sys/fs/cgroup/a/b/memory.max": "max\n",
				"sys/fs/cgroup/a/memory.max":   "1000000000\n",
			},
			want: 5e8,
		},
		{
			name:  "a container",
			files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": "1000000000\n"},
			want:  5e8,
		},
		{
			name:  "a generous group",
			files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "900000000000\n"},
			want:  8000000 << 9,
		},
		{
			name: "version 1",
			files: map[string]string{
				"proc/meminfo":     meminfo,
				"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x\n",
				"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "600000000\n",
			},
			want: 3e8,
		},
		{
			name: "no limit of version 1",
			files: map[string]string{
				"proc/meminfo":     meminfo,
				"proc/self/cgroup": "4:memory:/\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			},
			want: 8000000 << 9,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range tt.files {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := Memory(nil, root); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
			asked := configs.Size(123)
			if got := Memory(&asked, root); got != 123 {
				t.Errorf("asked for 123: %d", got)
			}
		})
	}
}
