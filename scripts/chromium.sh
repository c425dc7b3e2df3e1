#!/bin/sh
# The Chromium that the page's test looks through: prints its program, for
# HERMES_TEST_CHROMIUM, and installs Debian's package first where it is missing (root only).
set -eu

say() { echo "chromium.sh: $*" >&2; }

find_program() { command -v chromium || command -v chromium-browser; }

if ! find_program >/dev/null; then
	command -v apt-get >/dev/null || { say "there is no chromium, and no apt-get to install it"; exit 1; }
	[ "$(id -u)" = 0 ] || { say "there is no chromium, and only root can install it"; exit 1; }
	say "installing chromium"
	log=$(mktemp)
	# Fonts, because a page without letters proves little.
	if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends chromium fonts-dejavu-core; } >"$log" 2>&1; then
		tail -n 50 "$log" >&2
		rm -f "$log"
		say "chromium: not installed"
		exit 1
	fi
	rm -f "$log"
fi
find_program
