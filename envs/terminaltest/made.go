package terminaltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"hermes/envs"
)

// madeRow is a row that was made; the keys are those of a dataset.
type madeRow struct {
	ID       string            `json:"id"`
	Prompt   string            `json:"prompt"`
	Files    map[string]string `json:"files"`
	Checks   []Check           `json:"checks"`
	Forbid   []Check           `json:"forbid,omitempty"`
	Solution string            `json:"solution"`
}

// made is row i of a split: seed, split and i decide.
func (e *Env) made(split envs.Split, i int) madeRow {
	stream := uint64(i) << 1
	if split == envs.Eval {
		stream |= 1
	}
	r := rand.New(rand.NewPCG(e.c.Seed, stream))
	makers := []func(*rand.Rand, int) madeRow{sortLines, sumColumn, sortFolders, extractErrors, replaceWord, scripts}
	var m madeRow
	for m.Prompt == "" || envs.SplitOf(m.Prompt+fmt.Sprint(m.Files)) != split {
		m = makers[i%len(makers)](r, e.c.Level)
	}
	m.ID = fmt.Sprintf("made/2/%d/%d/%s/%d", e.c.Level, e.c.Seed, split, i)
	return m
}

func words(r *rand.Rand, n int) []string {
	parts := strings.Fields("ka lo mi ra tu ven sor pel dim gar hes nol qui zan")
	out := make([]string, n)
	for i := range out {
		for range 2 + r.IntN(2) {
			out[i] += parts[r.IntN(len(parts))]
		}
	}
	return out
}

// sortLines: unique lines in order.
func sortLines(r *rand.Rand, level int) madeRow {
	lines := words(r, 6*level)
	lines = append(lines, lines[:2*level]...)
	r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	want := slices.Compact(slices.Sorted(slices.Values(lines)))
	return madeRow{
		Prompt:   "Write the lines of names.txt into sorted.txt: in ascending byte order, each line once. Leave names.txt as it is.",
		Files:    map[string]string{"names.txt": strings.Join(lines, "\n") + "\n"},
		Checks:   []Check{{Kind: "file_equals", Path: "sorted.txt", Text: strings.Join(want, "\n")}},
		Forbid:   []Check{{Kind: "absent", Path: "names.txt"}},
		Solution: "LC_ALL=C sort -u names.txt >sorted.txt",
	}
}

// sumColumn: a total for each name of a table.
func sumColumn(r *rand.Rand, level int) madeRow {
	names := slices.Compact(slices.Sorted(slices.Values(words(r, level+1))))
	table, totals := "name,item,amount\n", map[string]int{}
	for range 8 * level {
		name, n := names[r.IntN(len(names))], 1+r.IntN(500)
		totals[name] += n
		table += fmt.Sprintf("%s,%s,%d\n", name, words(r, 1)[0], n)
	}
	var want []string
	for _, name := range names {
		if totals[name] > 0 {
			want = append(want, fmt.Sprintf("%s %d", name, totals[name]))
		}
	}
	return madeRow{
		Prompt:   "orders.csv has a header and the columns name, item, amount. Write totals.txt: for each name one line with the name, a blank and the sum of its amounts, in ascending order of the names.",
		Files:    map[string]string{"orders.csv": table},
		Checks:   []Check{{Kind: "file_equals", Path: "totals.txt", Text: strings.Join(want, "\n")}},
		Solution: `awk -F, 'NR>1 {s[$1]+=$3} END {for (n in s) print n, s[n]}' orders.csv | LC_ALL=C sort >totals.txt`,
	}
}

// sortFolders: files go into folders by their ending.
func sortFolders(r *rand.Rand, level int) madeRow {
	m := madeRow{
		Prompt:   "Move each file of the folder inbox into a folder named after its ending (inbox/a.txt becomes txt/a.txt), and remove the folder inbox when it is empty.",
		Files:    map[string]string{},
		Solution: `for f in inbox/*; do e=${f##*.}; mkdir -p "$e" && mv "$f" "$e/"; done; rmdir inbox`,
	}
	kept := "[ ! -e inbox ]"
	for i, w := range words(r, 2*level) {
		end, text := []string{"txt", "log", "md"}[r.IntN(3)], strings.Join(words(r, 3), " ")
		name := fmt.Sprintf("%s%d.%s", w, i, end)
		m.Files["inbox/"+name] = text + "\n"
		m.Checks = append(m.Checks, Check{Kind: "contains", Path: end + "/" + name, Text: text})
		kept += " && grep -qxF '" + text + "' " + end + "/" + name
	}
	// that the folder is gone is worth nothing where its files, or what they held, went with it
	m.Checks = append([]Check{{Kind: "command", Command: kept}}, m.Checks...)
	return m
}

// extractErrors: lines of a log, counted.
func extractErrors(r *rand.Rand, level int) madeRow {
	log, n := "", 0
	var codes []string
	for i := range 20 * level {
		kind := []string{"INFO", "WARN", "ERROR"}[r.IntN(3)]
		code := fmt.Sprintf("E%03d", r.IntN(1000))
		log += fmt.Sprintf("%02d:%02d %s %s %s\n", i/60, i%60, kind, code, strings.Join(words(r, 2), " "))
		if kind == "ERROR" {
			n++
			codes = append(codes, code)
		}
	}
	return madeRow{
		Prompt: "app.log has lines of the form TIME LEVEL CODE TEXT. Write codes.txt with the codes of all lines of level ERROR, one a line, in the order of the log, and count.txt with the number of those lines.",
		Files:  map[string]string{"app.log": log},
		Checks: []Check{{Kind: "file_equals", Path: "codes.txt", Text: strings.Join(codes, "\n")},
			// a guess of the number is worth nothing without the codes that were counted
			{Kind: "command", Command: fmt.Sprintf(`[ "$(cat count.txt)" = %[1]d ] && [ "$(grep -c '^E[0-9][0-9][0-9]$' codes.txt)" = %[1]d ] && [ "$(tail -n 1 codes.txt)" = '%[2]s' ]`, n, last(codes))}},
		Solution: `awk '$2=="ERROR" {print $3}' app.log >codes.txt; awk '$2=="ERROR" {n++} END {print n+0}' app.log >count.txt`,
	}
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// replaceWord in some of many files.
func replaceWord(r *rand.Rand, level int) madeRow {
	old, fresh := "colour", "color"
	m := madeRow{
		Prompt:   fmt.Sprintf("In all .txt files below docs replace the word %q by %q, everywhere. Change no other file.", old, fresh),
		Files:    map[string]string{"docs/keep.md": "the " + old + " of this file stays\n"},
		Forbid:   []Check{{Kind: "contains", Path: "docs/keep.md", Text: fresh + " "}, {Kind: "absent", Path: "docs/keep.md"}},
		Solution: `find docs -name '*.txt' -exec sed -i 's/colour/color/g' {} +`,
	}
	for i := range level + 1 {
		path := fmt.Sprintf("docs/part%d/%s.txt", i, words(r, 1)[0])
		w := words(r, 4)
		text := func(c string) string {
			return fmt.Sprintf("%s %s %s\n%s %s %s\n", w[0], c, w[1], c, w[2], w[3])
		}
		m.Files[path] = text(old)
		m.Checks = append(m.Checks, Check{Kind: "file_equals", Path: path, Text: text(fresh)})
	}
	return m
}

// scripts: a program with its mode.
func scripts(r *rand.Rand, level int) madeRow {
	a := 2 + r.IntN(20*level)
	sum := func(n int) int { return a * n * (n + 1) / 2 }
	n, other := 3+r.IntN(20*level), 1+r.IntN(100)
	return madeRow{
		Prompt: fmt.Sprintf("Write a shell script tool.sh, with mode 750, that takes a number n as its argument and prints the sum of %d*i for i from 1 to n.", a),
		Files:  map[string]string{"README": "tool.sh is missing.\n"},
		Checks: []Check{{Kind: "output", Command: fmt.Sprintf("sh ./tool.sh %d", other), Text: fmt.Sprint(sum(other))},
			// the mode of a script that does nothing is worth nothing; the sum is in no command, where the script could read it
			{Kind: "output", Command: fmt.Sprintf(`[ "$(stat -c %%a tool.sh)" = 750 ] && sh ./tool.sh %d`, n), Text: fmt.Sprint(sum(n))}},
		Solution: fmt.Sprintf(`cat >tool.sh <<'END'
#!/bin/sh
echo $(( %d * $1 * ($1 + 1) / 2 ))
END
chmod 750 tool.sh`, a),
	}
}
