#!/usr/bin/env bash
# Runs the attacks that scripts/attacks.txt lists and prints a table. Exit code 1 when one
# got through, or when a test of the list is not there or makes fewer attacks than it did.
#
#   scripts/attack.sh          the short form; results of the test cache count
#   LONG=1 scripts/attack.sh   all rows and their time-outs, a million files, twenty repeats
#
#   LOGS="A B" scripts/attack.sh   runs nothing: reads what `go test -v` printed of whole packages; a
#                              later file counts over an earlier one for the same test
#
# HERMES_TEST_DOCKER    a Docker engine (else one is started, where that can be)
# HERMES_TEST_CHROMIUM  a browser (else Chromium where it is installed)
# ATTACKS               another list (scripts/attacks.txt)
set -uo pipefail
cd "$(dirname "$0")/.."
list=${ATTACKS:-scripts/attacks.txt} long=${LONG:-} go=${GO:-go}
export CGO_ENABLED=0
out=$(mktemp -d)
started=
finish() {
	[ -z "$started" ] || scripts/docker.sh stop >/dev/null 2>&1
	rm -rf "$out"
}
trap finish EXIT

# judge prints the table of the results in $out/all, and what failed.
judge() {
	local rc=0
	lines | awk -v no_engine="$no_engine" -v no_browser="$no_browser" -f scripts/attack.awk - "$out/all" || rc=1
	if [ $rc != 0 ]; then
		echo "what failed:"
		grep -aE -B20 '	 *--- FAIL|	FAIL|	panic|attack.sh: exit code' "$out/all" | cut -c1-300 | tail -n 150
	fi
	return $rc
}
lines() { grep -vE '^ *(#|$)' "$list"; }

# latest prints the last result of a test.
latest() { # package, test
	awk -F '\t' -v package="$1" -v result="^--- [A-Z]+: $2 " '$1 == package && $2 ~ result { last = $2 } END { print last }' "$out/all"
}

no_engine= no_browser= cut=
if [ -n "${LOGS:-}" ]; then
	# The line of a package comes after those of its tests. A log that ends within a package shows nothing of it.
	# shellcheck disable=SC2086
	awk '
		function cut() { for (i = 1; i <= n; i++) if (kept[i] ~ /^ *--- (PASS|FAIL|SKIP): /) { print "cut off: " log_of " ends with a test, without the line of its package"; bad = 1; break }; n = 0 }
		FNR == 1 { cut(); log_of = FILENAME }
		{ sub(/\r$/, "") }
		/^(ok  |FAIL)\thermes\// { at = $2; sub(/^hermes/, ".", at); for (i = 1; i <= n; i++) print at "\t" kept[i] >all; n = 0; next }
		{ kept[++n] = $0 }
		END { cut(); exit bad }' all="$out/all" $LOGS || cut=yes
	[ -s "$out/all" ] || { echo "LOGS: no line of a package in $LOGS: they must be what go test -v printed"; exit 1; }
	# Skipped by the latest log, they had nothing to run with. One that is not there is no such case.
	case $(latest ./backends/docker TestEscapes) in *SKIP*) no_engine="no engine was there" ;; esac
	case $(latest ./cmd/hermes TestChromiumAttack) in *SKIP*) no_browser="no browser was there" ;; esac
	judge && [ -z "$cut" ]
	exit
fi
if grep -q '  *engine$' "$list" && [ -z "${HERMES_TEST_DOCKER:-}" ]; then
	if host=$(scripts/docker.sh start 2>"$out/engine.log"); then
		export HERMES_TEST_DOCKER=$host
	else
		no_engine="no Docker engine could be started here"
	fi
	started=yes
fi
if [ -z "${HERMES_TEST_CHROMIUM:-}" ]; then
	HERMES_TEST_CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || no_browser="no browser is installed here"
	export HERMES_TEST_CHROMIUM
fi

# One run for each package of the list: its tests by name, in the verbose form.
while read -r package; do
	tests= rows= flags=
	while read -r suite at name least needs; do
		[ "$at" = "$package" ] || continue
		case $needs in
		engine) [ -z "$no_engine" ] || continue ;;
		browser) [ -z "$no_browser" ] || continue ;;
		rows)
			rows=$name
			continue
			;;
		esac
		tests=$tests${tests:+|}$name
	done < <(lines)
	if [ -n "$long" ]; then
		case $package in ./backends/local | ./backends/namespace | ./backends/docker | ./cmd/hermes) flags=-long ;; esac
	fi
	if [ -z "$long" ] && [ "$package" = ./envs/rows ]; then flags=-short; fi # each game before one checker, not three
	log=$out/$(echo "$package" | tr -c 'a-z0-9\n' _).log
	: >"$log"
	echo "attack.sh: $package" >&2
	if [ -n "$tests" ]; then $go test -v -timeout 60m -run "^($tests)\$" "$package" $flags >>"$log" 2>&1 || echo "attack.sh: exit code $?" >>"$log"; fi
	if [ -n "$rows" ]; then $go test -v -timeout 60m -run "^($rows)\$/^10[0-5]_" "$package" $flags >>"$log" 2>&1 || echo "attack.sh: exit code $?" >>"$log"; fi
	sed "s|^|$package\t|" "$log" >>"$out/all"
done < <(lines | awk '!seen[$2]++ { print $2 }')

judge
