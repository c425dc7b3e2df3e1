#!/bin/sh
# Holds the modules that hermes is built from against Go's database of vulnerabilities, which
# is fetched as a module. A report on a module fails, unless scripts/vulns-known.txt answers it.
# One on Go's own library is shown: the Go that builds is the machine's, not this checkout's.
#
# Ends with 0 (nothing new), 1 (something), or 3: the database can't be had here, with the reason.
set -u
cd "$(dirname "$0")/.."
scanner=golang.org/x/vuln/cmd/govulncheck@v1.9.0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

absent() {
	tail -n 3 "$out/log" >&2
	echo "vulns.sh: $1" >&2
	exit 3
}

# In a folder of no module, so that go.mod stays as it is.
version=$(cd "$out" && go list -m -f '{{.Version}}' golang.org/x/vulndb@latest 2>"$out/log") || absent "the newest version of golang.org/x/vulndb is not to be had"
(cd "$out" && go mod download -json "golang.org/x/vulndb@$version" >"$out/module" 2>"$out/log") || absent "golang.org/x/vulndb@$version is not to be had"
folder=$(sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p' "$out/module")
go run "golang.org/x/vulndb/cmd/indexdb@$version" -vulns "$folder/data/osv" -out "$out/db" >"$out/log" 2>&1 || absent "the database in $folder can't be indexed"
go run "$scanner" -db "file://$out/db" ./cmd/hermes ./cmd/slotd >"$out/report" 2>"$out/log" ||
	grep -qx 'exit status 3' "$out/log" || # something was found
	absent "$scanner did not run"
echo "golang.org/x/vulndb $version:"
sed -n 's/^No vulnerabilities found.*/nothing found/p' "$out/report"
awk -v known="$(sed 's/[[:space:]].*//' scripts/vulns-known.txt | tr '\n' ' ')" '
	function said() {
		if (id == "") return
		if (module == "") { print "Go itself: " id ", mended in " fixed; return }
		if (index(known, id " ")) { print "answered: " id ", " module; seen = seen id " "; return }
		print "FOUND: " id ", " module ", mended in " fixed; bad = 1
	}
	/^Vulnerability #/ { said(); id = $3; module = ""; fixed = "" }
	/^  Module: / { module = $2 }
	/^    Fixed in: / { if (fixed == "") fixed = $3 }
	END {
		said()
		n = split(known, all, " ")
		for (i = 1; i <= n; i++) if (all[i] ~ /^GO-/ && index(seen, all[i] " ") == 0) { print "scripts/vulns-known.txt: " all[i] " is no longer reported: take it out"; bad = 1 }
		exit bad
	}' "$out/report"
