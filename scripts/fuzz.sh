#!/bin/sh
# Runs every fuzz target of the module for the time given ($1), one after the other. A
# target that ends without a failing input (the toolchain reports its own time limit as a
# failure now and then) is run once more; a failing input always fails.
set -eu
time=${1:-20s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() { # folder target
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x "$1" >"$log" 2>&1
}

for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | grep -v '^./build/' | sort); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "fuzz $(dirname "$file") $target"
		fuzz "$(dirname "$file")" "$target" && continue
		if ! grep -q 'Failing input written to' "$log"; then
			tail -n 5 "$log"
			echo "fuzz $(dirname "$file") $target: no failing input, once more"
			fuzz "$(dirname "$file")" "$target" && continue
		fi
		cat "$log"
		exit 1
	done
done
