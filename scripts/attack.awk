# Reads the list of attacks, then what the tests printed, each line behind its package and a
# tab, and prints the table. Exit code 1 when an attack got through or a test is not there.
FNR == 1 { file++ }
file == 1 { n++; suite[n] = $1; package[n] = $2; test[n] = $3; least[n] = $4; needs[n] = $5; next }
{
	tab = index($0, "\t"); at = substr($0, 1, tab - 1); line = substr($0, tab + 1)
	if (match(line, /^ *--- (PASS|FAIL|SKIP): /)) {
		rest = substr(line, RLENGTH + 1); what = substr(line, 1, RLENGTH)
		sub(/^ *--- /, "", what); sub(/: $/, "", what)
		name = rest; sub(/ \([0-9.]+s\)$/, "", name)
		took = rest; sub(/^.* \(/, "", took); sub(/s\).*$/, "", took)
		j = (at, name) in place ? place[at, name] : ++m # a later result of the same test counts
		place[at, name] = j; mat[j] = at; mname[j] = name; mwhat[j] = what; mtook[j] = took
		up = name
		while (match(up, /\/[^\/]*$/)) { up = substr(up, 1, RSTART - 1); parent[at, up] = 1 }
	} else if (match(line, /: [0-9]+ games: /)) {
		split(substr(line, RSTART + 2), g, " "); split(line, f, ", "); games[at] += g[1]
		if (match(line, /[0-9]+ void/)) bad[at] += substr(line, RSTART, RLENGTH) + 0
		if (match(line, /[0-9]+ forged/)) bad[at] += substr(line, RSTART, RLENGTH) + 0
	}
}
END {
	for (i = 1; i <= n; i++) {
		s = suite[i]; if (!(s in order)) { order[s] = ++suites; byOrder[suites] = s }
		if (needs[i] == "engine" && no_engine != "") { note[s] = note[s] "; " package[i] " " test[i] ": " no_engine; continue }
		if (needs[i] == "browser" && no_browser != "") { note[s] = note[s] "; " test[i] ": " no_browser; continue }
		all = 0; top = ""
		for (j = 1; j <= m; j++) {
			if (mat[j] != package[i]) continue
			if (mname[j] == test[i]) { top = mwhat[j]; seconds[s] += mtook[j] }
			if (mname[j] != test[i] && index(mname[j], test[i] "/") != 1) continue
			if ((mat[j], mname[j]) in parent) continue
			if (needs[i] == "games") continue
			if (mwhat[j] == "SKIP") { skipped[s]++; continue } # it was not made
			all++
			if (mwhat[j] == "PASS") held[s]++
			else { through[s]++; print "got through: " package[i] " " mname[j] }
		}
		if (needs[i] == "games") { all = games[package[i]]; through[s] += bad[package[i]]; held[s] += all - bad[package[i]] }
		attacks[s] += all
		if (top == "") { print "not there: " package[i] " " test[i]; failed = 1 }
		else if (top == "FAIL") { print "failed: " package[i] " " test[i]; failed = 1 }
		else if (top == "SKIP" && (needs[i] == "engine" || needs[i] == "browser")) { print "skipped, though its " needs[i] " is there: " package[i] " " test[i]; failed = 1 }
		else if (top == "SKIP") note[s] = note[s] "; " package[i] " " test[i] ": it says why with -v"
		else if (all < least[i]) { print "fewer attacks than there were: " package[i] " " test[i] ": " all ", want " least[i]; failed = 1 }
	}
	printf "%-9s %8s %8s %12s %8s %8s\n", "suite", "attacks", "held", "got through", "skipped", "seconds"
	for (k = 1; k <= suites; k++) {
		s = byOrder[k]
		printf "%-9s %8d %8d %12d %8d %8.0f%s\n", s, attacks[s], held[s], through[s], skipped[s], seconds[s], note[s] == "" ? "" : "  skipped" note[s]
		if (attacks[s] == 0) { print s ": no attack was made"; failed = 1 }
		if (through[s] > 0) failed = 1
	}
	exit failed
}
