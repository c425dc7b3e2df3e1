#!/bin/sh
# The main job in small: sample tasks are rolled out by the embedded scripted model through
# the OpenAI wire form, with real tools in real boxes and real checkers. $1 is the binary.
set -eu
hermes=$1
out=build/demo
rm -rf "$out"
tasks=samples:tasks
if ! command -v python3 >/dev/null 2>&1; then
	echo "demo: no python3 here, so the tasks with code execution are left out"
	tasks=samples:shell
fi
backend=auto
if ! "$hermes" sandbox exec --backend auto -- true 2>/dev/null; then
	echo "demo: this machine allows no isolated boxes; the demo's own scripts run without isolation"
	backend=local
fi
"$hermes" batch "$tasks" --model scripted --backend "$backend" --accept passed --max-turns 12 --parquet --out "$out" --run demo
"$hermes" runs verify --out "$out" demo
echo "demo: read $out/demo/report.md"
