#!/bin/sh
# Runs every fuzz target of the module for the time given ($1), one after the other.
set -eu
time=${1:-20s}
grep -rl --include='*_test.go' '^func Fuzz' . | grep -v '^./build/' | sort | while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "fuzz $(dirname "$file") $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$(dirname "$file")" || exit 1
	done
done
