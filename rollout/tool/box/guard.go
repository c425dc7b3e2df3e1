package box

import (
	"regexp"
	"strings"
)

var (
	quoted   = regexp.MustCompile(`(?s)'[^']*'|"(?:\\.|[^"\\])*"|\\.`)
	detacher = regexp.MustCompile(`(?:^|[;&|(\n])\s*(?:sudo\s+)?(nohup|setsid|disown)\b`)
	ampersat = regexp.MustCompile(`(?:^|[^&><|])&(?:[^&>]|$)`)
	runners  = regexp.MustCompile(`(?:^|[;&|(\n])\s*(?:[A-Za-z_][A-Za-z0-9_]*=\S*\s+)*(?:npx\s+)?((?:npm|pnpm|yarn|bun)\s+(?:run\s+)?(?:dev|start|serve|watch)\b|docker[ -]compose\s+up\b|next\s+dev\b|vite(?:\s+(?:dev|serve|preview)\b|\s*(?:$|[;&|\n]))|nodemon\b|uvicorn\b|gunicorn\b|python3?\s+-m\s+http\.server\b)`)
	askHelp  = regexp.MustCompile(`(?:^|\s)(?:--help|--version|-h|-V)(?:\s|$)`)
	detached = regexp.MustCompile(`(?:^|\s)(?:-d|--detach)(?:\s|$)`)
)

// longRunner says why a command does not belong into the foreground, or "".
func longRunner(command string) string {
	bare := withoutHeredocs(command)
	bare = quoted.ReplaceAllString(bare, "''")
	const advice = "; start it with background=true and watch it with the process tool"
	if m := detacher.FindStringSubmatch(bare); m != nil {
		return m[1] + " does not work in a foreground command" + advice
	}
	if ampersat.MatchString(bare) {
		return "'&' would leave a process behind that nobody can see" + advice
	}
	if m := runners.FindStringSubmatch(bare); m != nil && !askHelp.MatchString(bare) && !detached.MatchString(bare) {
		return "'" + strings.Join(strings.Fields(m[1]), " ") + "' usually runs until it is stopped" + advice
	}
	return ""
}

// withoutHeredocs drops the bodies of here-documents.
func withoutHeredocs(command string) string {
	lines := strings.Split(command, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		m := heredocStart.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		for end := i + 1; end < len(lines); end++ {
			if strings.TrimLeft(lines[end], "\t") == m[1] {
				i = end
				break
			}
		}
	}
	return strings.Join(out, "\n")
}

var heredocStart = regexp.MustCompile(`<<-?\s*\\?['"]?([A-Za-z_][A-Za-z0-9_]*)['"]?`)
