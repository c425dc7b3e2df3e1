#!/bin/sh
# Makes NOTICE: which modules are linked into the programs, under which licence, and the
# texts that these ask to be passed on.
#
#   scripts/notice.sh           writes NOTICE
#   scripts/notice.sh check     fails where NOTICE is not what it would write
#
# A module without a licence file, or with one that is not among those named here, ends it.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# linked prints "path version folder" of every module that a program of ours is built from,
# on the processors that it is built for. Go's own library has the text of golang.org/x/sys.
linked() {
	for arch in amd64 arm64; do
		GOOS=linux GOARCH=$arch CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/hermes ./cmd/slotd || return 1
	done >"$out/modules"
	sort -u "$out/modules" | sed '/^$/d'
	echo "std $(sed -n 's/^go /go/p' go.mod) $(go list -m -f '{{.Dir}}' golang.org/x/sys)"
}

# licence prints the SPDX name of the text in a file.
licence() {
	words=$(tr -s '[:space:]' ' ' <"$1")
	case $words in
	*"Commons Clause"* | *"advertising materials mentioning"*) return 1 ;; # more is asked for than by one of those below
	*"Apache License Version 2.0"*) echo Apache-2.0 ;;
	*"Mozilla Public License"*"2.0"*) echo MPL-2.0 ;;
	*"Redistribution and use in source and binary forms"*"Neither the name"*) echo BSD-3-Clause ;;
	*"Redistribution and use in source and binary forms"*) echo BSD-2-Clause ;;
	*"Permission to use, copy, modify, and"*"distribute this software"*) echo ISC ;;
	*"dedicated to the public domain"* | *"released into the public domain"*) echo "public domain" ;;
	*"Permission is hereby granted, free of charge"*) echo MIT ;;
	*) return 1 ;;
	esac
}

linked >"$out/linked"
while read -r path version dir; do
	found=
	for f in "$dir"/LICEN[CS]E* "$dir"/COPYING* "$dir"/NOTICE*; do
		[ -f "$f" ] || continue
		case $f in *.docs | *-LOGO) continue ;; esac # of pages and pictures, which are not linked
		sum=$(sha256sum <"$f" | cut -c1-64)
		case $(basename "$f") in
		NOTICE*) name=notice ;;
		*3RD-PARTY*) name="parts of others" ;;
		*) name=$(licence "$f") || { echo "notice.sh: $path: the licence in $f is none that this script knows: read it, and name it there" >&2; exit 1; } ;;
		esac
		[ "$name" = notice ] || found=${found:+$found, }$name
		[ -f "$out/$sum" ] || { cp "$f" "$out/$sum"; echo "$sum" >>"$out/order"; }
		echo "$path" >>"$out/$sum.of"
	done
	[ -n "$found" ] || { echo "notice.sh: $path has no licence file in $dir" >&2; exit 1; }
	printf '%-58s %-42s %s\n' "$path" "$version" "$found"
done <"$out/linked" >"$out/list"

{
	echo "hermes is under the MIT licence (see LICENSE). Linked into its programs are these modules,"
	echo "each under its own licence. The source of each is what its path and version name; those"
	echo "under MPL-2.0 are linked unchanged. Made by scripts/notice.sh."
	echo
	cat "$out/list"
	while read -r sum; do
		printf '\n%s\n' "--------------------------------------------------------------------------------"
		sed 's/^/  /' "$out/$sum.of"
		printf '%s\n\n' "--------------------------------------------------------------------------------"
		sed 's/[[:space:]]*$//' "$out/$sum"
	done <"$out/order"
} >"$out/NOTICE"

case ${1:-} in
check)
	diff -q NOTICE "$out/NOTICE" >/dev/null && exit 0
	diff NOTICE "$out/NOTICE" | head -n 20 >&2
	echo "notice.sh: NOTICE is not what the linked modules ask for: run scripts/notice.sh and look at what changed" >&2
	exit 1
	;;
"") cp "$out/NOTICE" NOTICE ;;
*)
	echo "usage: scripts/notice.sh [check]" >&2
	exit 2
	;;
esac
