#!/bin/sh
# A real sshd for tests, beside any that the machine may have: on a port of the loopback
# of its own, with host key, authorized key and known hosts of its own, as root or not.
#
#   scripts/sshd.sh start   installs openssh-server where it is missing (root only), starts
#                           sshd and prints the value for HERMES_TEST_SSH
#   scripts/sshd.sh stop    ends exactly what start started
#   scripts/sshd.sh status  says whether it runs; exit code 1 when it does not
#
# HERMES_SSHD_DIR  where it keeps everything  (build/sshd)
set -eu
cd "$(dirname "$0")/.."
dir=${HERMES_SSHD_DIR:-build/sshd}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

say() { echo "sshd.sh: $*" >&2; }
die() {
	say "$*"
	exit 1
}

# running prints the id of our sshd, if it runs: the process that our configuration started.
running() {
	[ -s "$dir/pid" ] || return 1
	pid=$(cat "$dir/pid")
	tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$dir/config" || return 1
	echo "$pid"
}

# find prints the path of a program, also of those that only root has in PATH.
find_program() { PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin command -v "$1"; }

install_missing() {
	find_program sshd >/dev/null && find_program ssh-keygen >/dev/null && return 0
	command -v apt-get >/dev/null || die "sshd is not installed, and there is no apt-get to install it"
	[ "$(id -u)" = 0 ] || die "sshd is not installed, and only root can install it (openssh-server)"
	say "installing openssh-server"
	# The package's own service is not to start: it would take port 22 of this machine.
	policy=/usr/sbin/policy-rc.d
	ours=
	[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && ours=1; }
	code=0
	{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends openssh-server; } >"$dir/apt.log" 2>&1 || code=$?
	[ -z "$ours" ] || rm -f $policy
	[ $code = 0 ] || {
		tail -n 50 "$dir/apt.log" >&2
		die "openssh-server: not installed"
	}
}

launch() {
	cat >"$dir/config" <<CONFIG
Port $1
ListenAddress 127.0.0.1
HostKey $dir/host_key
PidFile $dir/pid
AuthorizedKeysFile $dir/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowStreamLocalForwarding yes
AllowTcpForwarding yes
MaxStartups 100
CONFIG
	rm -f "$dir/pid"
	"$sshd" -f "$dir/config" -E "$dir/log" || return 1
	i=0
	while [ $i -lt 300 ]; do
		if running >/dev/null && ssh-keyscan -p "$1" 127.0.0.1 2>/dev/null | grep . >"$dir/known_hosts"; then
			return 0
		fi
		i=$((i + 1))
		sleep 0.1
	done
	return 1
}

start() {
	if running >/dev/null; then
		echo "$dir"
		return 0
	fi
	install_missing
	sshd=$(find_program sshd)
	[ "$(id -u)" != 0 ] || mkdir -p /run/sshd # its privilege separation wants it
	for k in host_key key; do
		[ -s "$dir/$k" ] || ssh-keygen -q -t ed25519 -N '' -C hermes-test -f "$dir/$k"
	done
	cp "$dir/key.pub" "$dir/authorized_keys"
	chmod 600 "$dir/authorized_keys"
	: >"$dir/log"
	# A free port is found by trying: from 20000 on, begun at a place of our own.
	port=$((20000 + $$ % 20000))
	tries=0
	until launch $port; do
		stop
		tries=$((tries + 1))
		[ $tries -lt 10 ] || {
			cat "$dir/log" >&2
			die "sshd does not start"
		}
		port=$((port + 7))
	done
	echo "$(id -un)@127.0.0.1:$port" >"$dir/address"
	echo "$dir"
}

stop() {
	pid=$(running) || return 0
	kill "$pid"
	i=0
	while [ $i -lt 300 ] && kill -0 "$pid" 2>/dev/null; do
		i=$((i + 1))
		sleep 0.1
	done
	rm -f "$dir/pid" "$dir/address"
}

case ${1:-} in
start) start ;;
stop) stop ;;
status)
	pid=$(running) || die "it does not run"
	say "it runs as process $pid, $(cat "$dir/address")"
	;;
*)
	say "want start, stop or status"
	exit 2
	;;
esac
