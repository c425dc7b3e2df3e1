package cmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"

	"hermes/configs"
	"hermes/rollout/rundir"
	"hermes/rollout/tool"
)

// completeWord is the first word by which the scripts of shells ask for candidates; the
// words up to the cursor follow. It is no command: whatever follows is taken as it is.
const completeWord = "__complete"

// filesToo is the line that lets a shell add the names of files.
const filesToo = ":files"

// completionCmd is `hermes completion`.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

// Run prints the script of a shell.
func (c *completionCmd) Run(h *host) error {
	_, err := fmt.Fprint(h.Stdio.Out, completionScript(c.Shell))
	return err
}

func completionScript(shell string) string {
	switch shell {
	case "bash":
		return `# completion of hermes for bash: source <(hermes completion bash)
_hermes() {
	local word text at=${COMP_WORDS[COMP_CWORD]}
	local plain=${at#[\"\']}
	plain=${plain//\\/}
	COMPREPLY=()
	while IFS=$'\t' read -r word text; do
		if [ "$word" = "` + filesToo + `" ]; then
			compopt -o filenames 2>/dev/null
			while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "${at#=}")
		else
			case $at in
			[\"\']*) ;; # within quotes a name is written as it is
			*) printf -v word %q "$word" ;;
			esac
			COMPREPLY+=("$word")
		fi
	done < <("${COMP_WORDS[0]}" ` + completeWord + ` "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$plain" 2>/dev/null)
}
complete -F _hermes hermes
`
	case "zsh":
		return `#compdef hermes
# completion of hermes for zsh: source <(hermes completion zsh), or as _hermes in a folder of $fpath
_hermes() {
	local -a found
	local word text files
	while IFS=$'\t' read -r word text; do
		if [[ $word == ` + filesToo + ` ]]; then
			files=1
		else
			found+=("${word//:/\\:}${text:+:$text}")
		fi
	done < <("${words[1]}" ` + completeWord + ` "${(@)words[2,CURRENT]}" 2>/dev/null)
	(( $#found )) && _describe -t hermes hermes found
	[[ -n $files ]] && _files
}
if [[ $funcstack[1] == _hermes ]]; then _hermes "$@"; else compdef _hermes hermes; fi
`
	}
	return `# completion of hermes for fish: hermes completion fish | source
function __hermes_complete
	set -l words (commandline -opc)
	for line in ($words[1] ` + completeWord + ` $words[2..-1] (commandline -ct) 2>/dev/null)
		if test "$line" = "` + filesToo + `"
			__fish_complete_path (commandline -ct)
		else
			echo $line
		end
	end
end
complete -c hermes -f -a "(__hermes_complete)"
`
}

// candidate is a word that fits at the cursor.
type candidate struct{ word, text string }

// complete prints what the last of words may become: a line each, with a tab
// before what it is. A shell that asks in the middle of nonsense gets nothing.
func (h *host) complete(words []string) error {
	words = joinValues(words)
	last := ""
	if n := len(words); n > 0 {
		last, words = words[n-1], words[:n-1]
	}
	at, flag, args := h.walk(words)
	before := "" // of each candidate: the flag in the same word
	if name, value, ok := strings.Cut(last, "="); ok && flag == nil && isFlag(last) {
		flag = findFlag(at, name)
		if flag == nil {
			return nil
		}
		before, last = name+"=", value
	}
	var list []candidate
	files := false
	switch {
	case flag != nil:
		list, files = h.values(flag.Name, flag.Enum, words)
	case isFlag(last):
		list = flagsOf(at)
	case len(at.Children) > 0:
		for _, c := range at.Children {
			if !c.Hidden {
				list = append(list, candidate{c.Name, c.Help})
			}
		}
	case len(at.Positional) > 0:
		p := at.Positional[min(args, len(at.Positional)-1)]
		list, files = h.values(p.Name, p.Enum, words)
	}
	for _, c := range list {
		if strings.HasPrefix(c.word, last) && !strings.ContainsFunc(c.word, unicode.IsControl) { // a tab or line end in a name would be read as another candidate
			text, _, _ := strings.Cut(c.text, "\n")
			if _, err := fmt.Fprintf(h.Stdio.Out, "%s%s\t%s\n", before, c.word, text); err != nil {
				return err
			}
		}
	}
	if files {
		_, err := fmt.Fprintln(h.Stdio.Out, filesToo)
		return err
	}
	return nil
}

// joinValues undoes what bash does to --flag=value: it takes the sign for a word. The
// value becomes a word behind its flag.
func joinValues(words []string) (out []string) {
	for i, w := range words {
		switch {
		case w == "=" && i > 0 && isFlag(words[i-1]) && i == len(words)-1:
			out = append(out, "")
		case w == "=" && i > 0 && isFlag(words[i-1]):
		default:
			out = append(out, w)
		}
	}
	return out
}

// walk follows the words to a command. flag is the last word when it wants a value; args
// counts the arguments of the command.
func (h *host) walk(words []string) (at *kong.Node, flag *kong.Flag, args int) {
	at = h.kong.Model.Node
	for _, w := range words {
		if flag != nil { // its value
			flag = nil
			continue
		}
		if isFlag(w) {
			name, _, value := strings.Cut(w, "=")
			if f := findFlag(at, name); f != nil && !value && !f.IsBool() {
				flag = f
			}
			continue
		}
		if i := slices.IndexFunc(at.Children, func(c *kong.Node) bool { return c.Name == w }); i >= 0 {
			at = at.Children[i]
			continue
		}
		args++
	}
	return at, flag, args
}

// findFlag finds a flag of a command, as it is written.
func findFlag(at *kong.Node, text string) *kong.Flag {
	for _, level := range at.AllFlags(true) {
		for _, f := range level {
			if text == "--"+f.Name || f.Short != 0 && text == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

func flagsOf(at *kong.Node) (list []candidate) {
	for _, level := range at.AllFlags(true) {
		for _, f := range level {
			list = append(list, candidate{"--" + f.Name, f.Help})
			if f.Tag.Negatable != "" {
				list = append(list, candidate{"--no-" + f.Name, f.Help})
			}
		}
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.word, b.word) })
	return list
}

// values are what an argument or a flag may be, by its name, and whether names of files
// are too. words are those before it.
func (h *host) values(name, enum string, words []string) (list []candidate, files bool) {
	add := func(names ...string) ([]candidate, bool) {
		for _, n := range names {
			if n != "" {
				list = append(list, candidate{word: n})
			}
		}
		return list, false
	}
	if enum != "" {
		return add(strings.Split(enum, ",")...)
	}
	switch name {
	case "run":
		return add(runNames(outOf(words))...)
	case "preset":
		return add(configs.Presets()...)
	case "suite":
		add(configs.Suites()...)
		return list, true
	case "environment":
		for _, k := range h.Parts.Envs {
			list = append(list, candidate{k.Name, k.Summary})
		}
		return list, true
	case "backend":
		add("auto")
		for _, k := range h.Parts.Backends {
			add(k.Name)
		}
		return list, false
	case "command":
		for _, c := range h.kong.Model.Children {
			list = append(list, candidate{c.Name, c.Help})
		}
		return list, false
	case "toolsets":
		catalog, err := tool.NewCatalog(nil, h.Parts.Tools...)
		if err != nil {
			return nil, false
		}
		for _, name := range catalog.Toolsets().Names() {
			if s, err := catalog.Toolsets().Get(name); err == nil {
				list = append(list, candidate{s.Name, s.Description})
			}
		}
		return list, false
	}
	return nil, true
}

// outOf is the parent of runs that the words name with --out.
func outOf(words []string) string {
	dir := "runs"
	for i, w := range words {
		if value, ok := strings.CutPrefix(w, "--out="); ok {
			dir = value
		} else if w == "--out" && i+1 < len(words) {
			dir = words[i+1]
		}
	}
	return dir
}

// runNames are the runs below a folder.
func runNames(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // none: nothing to offer
	for _, e := range entries {
		if _, err := os.Stat(rundir.Path(filepath.Join(dir, e.Name()))); err == nil {
			names = append(names, e.Name())
		}
	}
	return names
}
