#!/usr/bin/env bash
# A Docker engine of its own for tests, beside any that the machine may have.
#
#   scripts/docker.sh start     installs what is missing, starts dockerd, makes the base images,
#                               and prints the value for HERMES_TEST_DOCKER
#   scripts/docker.sh stop      ends exactly what start started and removes its mounts
#   scripts/docker.sh status    says whether it answers; exit code 1 when it does not
#   scripts/docker.sh clean     stop, and forget all but the cached images
#
# HERMES_ENGINE_DIR    where the engine keeps everything      (build/docker)
# HERMES_ENGINE_CACHE  where the base images are kept as tar  (build/docker-images)
# HERMES_ENGINE_BRIDGE a bridge of this machine with an address, for containers (none)
#
# The engine touches no firewall and without a bridge its containers have no network. The
# images are made here by debootstrap: debian:12-slim, and hermes-test:python with python3.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(realpath -m "${HERMES_ENGINE_DIR:-build/docker}")
cache=$(realpath -m "${HERMES_ENGINE_CACHE:-build/docker-images}")
run=/run/hermes-docker-$(printf %s "$dir" | cksum | cut -d' ' -f1) # short: socket paths end at 107 bytes
socket=$run/docker.sock
log=$dir/dockerd.log
suite=bookworm

say() { echo "docker.sh: $*" >&2; }
die() {
	say "$*"
	exit 1
}

cli() {
	local program=/usr/bin/docker
	[ -x $program ] || program=docker
	DOCKER_CONFIG=$dir/config $program -H "unix://$socket" "$@"
}

answers() { [ -S "$socket" ] && cli version >/dev/null 2>&1; }

# ours prints the ids of the processes whose command line holds a text that only ours have.
ours() {
	local f
	for f in /proc/[0-9]*/cmdline; do
		if { tr '\0' ' ' <"$f"; } 2>/dev/null | grep -F -- "$1" >/dev/null; then
			f=${f#/proc/}
			[ "${f%/cmdline}" = $$ ] || echo "${f%/cmdline}"
		fi
	done
}

# gone waits until a process has ended; $2 tenths of a second at most.
gone() {
	local i
	for ((i = 0; i < $2; i++)); do
		kill -0 "$1" 2>/dev/null || return 0
		! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null || return 0
		sleep 0.1
	done
	return 1
}

install_missing() {
	local missing=()
	command -v dockerd >/dev/null || [ -x /usr/sbin/dockerd ] || missing+=(docker.io)
	if [ ! -s "$cache/slim.tar" ] || [ ! -s "$cache/python.tar" ]; then
		command -v debootstrap >/dev/null || missing+=(debootstrap)
	fi
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || die "${missing[*]}: not installed, and there is no apt-get to install it"
	say "installing ${missing[*]}"
	{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"; } >"$dir/apt.log" 2>&1 ||
		{
			tail -n 50 "$dir/apt.log" >&2
			die "${missing[*]}: not installed"
		}
}

# launch starts dockerd with one storage driver and waits until it answers.
launch() {
	local driver=$1 pid i
	mkdir -p "$dir/data" "$run"
	rm -f "$socket" "$run/pid"
	: >"$log"
	# As the service files of distributions have it. An engine removes a container's files with one
	# open folder for each level of its deepest tree, and never removes what is deeper.
	ulimit -n 1048576 2>/dev/null || say "the engine has $(ulimit -n) open files: containers with more folders in each other cannot be removed"
	PATH=$PATH:/usr/sbin:/sbin setsid dockerd --config-file="$dir/none.json" --data-root="$dir/data" --exec-root="$run/exec" \
		--pidfile="$run/pid" --host="unix://$socket" --storage-driver="$driver" --bridge="${HERMES_ENGINE_BRIDGE:-none}" --iptables=false --ip6tables=false \
		--log-driver=none --shutdown-timeout=5 </dev/null >>"$log" 2>&1 &
	pid=$!
	for ((i = 0; i < 1200; i++)); do
		if answers; then
			echo "$pid" >"$run/dockerd"
			return 0
		fi
		if gone "$pid" 1; then
			return 1
		fi
	done
	say "no answer within two minutes"
	end_processes
	return 1
}

# rootfs makes both images' files in one tree.
make_tars() {
	[ -s "$cache/slim.tar" ] && [ -s "$cache/python.tar" ] && return 0
	local tree
	mkdir -p "$cache"
	tree=$(mktemp -d "$cache/tree.XXXXXX")
	trap 'umount -l "$tree/proc" 2>/dev/null || true; rm -rf "$tree"' EXIT
	say "making debian:12-slim with debootstrap (once; $cache keeps it)"
	debootstrap --variant=minbase $suite "$tree" ${HERMES_DEBIAN_MIRROR:+"$HERMES_DEBIAN_MIRROR"} >"$cache/debootstrap.log" 2>&1 ||
		{
			tail -n 40 "$cache/debootstrap.log" "$tree/debootstrap/debootstrap.log" >&2 || true
			die "debootstrap failed"
		}
	pack "$tree" "$cache/slim.tar"
	cp /etc/resolv.conf "$tree/etc/resolv.conf"
	mount -t proc proc "$tree/proc"
	DEBIAN_FRONTEND=noninteractive chroot "$tree" apt-get install -qy --no-install-recommends python3 >"$cache/python.log" 2>&1 ||
		{
			tail -n 40 "$cache/python.log" >&2
			die "python3 could not be installed into the image"
		}
	umount "$tree/proc"
	pack "$tree" "$cache/python.tar"
	rm -rf "$tree"
	trap - EXIT
}

pack() { # tree, file
	tar -C "$1" --exclude='./var/cache/apt/*.bin' --exclude='./var/cache/apt/archives/*.deb' --exclude='./var/lib/apt/lists/*' \
		--exclude='./usr/share/doc/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/man/*' --exclude='./dev/*' \
		--exclude='./etc/resolv.conf' --exclude='./etc/hostname' -cf "$2.part" .
	mv "$2.part" "$2"
}

import_image() { # file, name
	cli image inspect "$2" >/dev/null 2>&1 && return 0
	say "importing $2"
	cli import -c 'CMD ["/bin/bash"]' "$1" "$2" >/dev/null
}

start() {
	[ "$(id -u)" = 0 ] || die "an engine needs root (this is uid $(id -u))"
	mkdir -p "$dir" "$cache"
	echo '{}' >"$dir/none.json" # no settings of the machine's own engine
	install_missing
	if ! answers; then
		stop # what a crash left
		local driver tried=()
		for driver in $(cat "$dir/driver" 2>/dev/null) overlay2 fuse-overlayfs vfs; do
			if launch "$driver"; then
				echo "$driver" >"$dir/driver"
				break
			fi
			tried+=("$driver")
			cp "$log" "$dir/dockerd-$driver.log"
			stop
		done
		if ! answers; then
			for driver in "${tried[@]}"; do
				say "--- log with $driver"
				tail -n 60 "$dir/dockerd-$driver.log" >&2
			done
			die "dockerd does not start"
		fi
	fi
	make_tars
	import_image "$cache/slim.tar" debian:12-slim
	import_image "$cache/python.tar" hermes-test:python
	status >&2
	echo "unix://$socket"
}

# end_processes ends dockerd, its containerd, its shims and what lives in its containers.
end_processes() {
	local pid id
	for pid in $(ours "--data-root=$dir/data "); do
		kill -TERM "$pid" 2>/dev/null || continue
		gone "$pid" 300 || kill -KILL "$pid" 2>/dev/null || true
	done
	for pid in $(ours "$run/exec/containerd/containerd.toml"); do
		kill -TERM "$pid" 2>/dev/null || continue
		gone "$pid" 100 || kill -KILL "$pid" 2>/dev/null || true
	done
	for pid in $(ours "$run/exec/containerd/containerd.sock"); do
		kill -KILL "$pid" 2>/dev/null || true
	done
	for id in "$dir"/data/containers/*; do # a dockerd that was killed leaves them running
		id=${id##*/}
		for pid in $({ cat /sys/fs/cgroup/docker/"$id"/cgroup.procs /sys/fs/cgroup/*/docker/"$id"/cgroup.procs 2>/dev/null || true; } | sort -u); do
			kill -KILL "$pid" 2>/dev/null || true
		done
	done
}

unmount() {
	local at
	{ cut -d' ' -f5 /proc/self/mountinfo | grep -F -e "$dir/data" -e "$run/" | sort -r || true; } | while read -r at; do
		umount "$at" 2>/dev/null || umount -l "$at" 2>/dev/null || true
	done
}

stop() {
	end_processes
	unmount
	rm -rf "$run"
}

status() {
	if answers; then
		cli info --format 'docker.sh: {{.ServerVersion}} with {{.Driver}}, cgroup v{{.CgroupVersion}}, {{.Images}} images, {{.ContainersRunning}} of {{.Containers}} containers run'
		return 0
	fi
	echo "docker.sh: no engine at $socket"
	return 1
}

case ${1:-} in
start) start ;;
stop) stop ;;
status) status ;;
clean)
	stop
	rm -rf "$dir"
	;;
*)
	sed -n '2,/^set /p' "$0" | grep '^#' | sed 's/^# \?//' >&2
	exit 2
	;;
esac
