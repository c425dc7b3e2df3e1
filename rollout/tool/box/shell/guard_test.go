package shell_test

import (
	"testing"

	"hermes/rollout/tool/box/shell"
)

func TestLongRunner(t *testing.T) {
	for _, passes := range []string{
		"echo $((5 & 3))", "((b = 7 & 2)); echo $b", "let 'x = 5 & 3'", "echo $[5 & 3]", "for ((i = 0; i & 1; i++)); do :; done", "a[5&3]=x",
		"echo hi # this & that", "# sleep 9 &\necho x", "x='a&b'; echo ${x//&/and}", "echo ${x:-a&b}", "echo \"a & b\" 'c & d' e\\&f $'g & h'",
		"case x in a) echo 1;;& *) echo 2;& b) echo 3;; esac", "make 2>&1 | tee log", "make &> log", "make &>> log", "make |& tee log", "exec 3>&1 4<&0", "cat <&3", "echo a >&2",
		"cat <<E\na & b\nnohup x\nE\necho", "cat <<'E'\nsleep 1 &\nE", "cat <<-E\n\tx &\n\tE", "cat <<A <<B\nx &\nA\ny &\nB\necho",
		"sleep 1 & wait", "a & b & wait", "a & p=$!; b; wait $p", "for i in 1 2; do sleep $i & done; wait", "{ a & b & }; wait", "(a & b & wait)", "if x; then a & wait; fi",
		"f() { a & }; f; wait", "finish() { wait; }; a & finish", "a & b && wait", "a & wait || true", "a &\nb &\nwait -n; wait", "x=$(a & wait)", "a & command wait", "(a & wait) & wait",
		"[[ a = b && c = d ]]", "a && b || c", "[[ $x =~ a&b ]] || true",
		"uvicorn --help; echo", "uvicorn --version && echo", "npm run dev --help", "docker compose up -d; docker ps", "gunicorn -h", "echo uvicorn", "pip install uvicorn", "vite build", "npm run build",
		"echo nohup", "man setsid", "grep -r 'nohup ' .",
		"for x in; do (", "echo 'unbalanced &", "if true; then", "a &&& b",
	} {
		if why := shell.LongRunner(passes); why != "" {
			t.Errorf("%q is refused: %s", passes, why)
		}
	}
	for _, refused := range []string{
		"sleep 1 &", "sleep 1 & echo x", "a & b", "a&", "(sleep 9 &)", "(sleep 9 &); wait", "{ sleep 9 & }", "wait; sleep 9 &", "x=$(sleep 9 >/dev/null & echo 1)", "sleep 9 & (wait)",
		"sleep 9 & wait | cat", "a | b &", "echo x; a & echo \"wait\"", "echo wait & sleep 1", "for i in 1 2; do a & done", "if x; then a & fi", "f() { a & }; f", "case x in x) a & ;; esac", "a & # wait", "a &\ncat <<E\nwait\nE",
		"python3 server.py > log 2>&1 &", "cat <(sleep 9 &)", "{ a & } & wait", "while true; do a & done",
		"nohup sleep 1", "cd x; nohup ./run", "sudo nohup x", "setsid ./run", "if x; then nohup y; fi", "a || disown", "FOO=1 nohup x",
		"cd x && npm run dev", "npm start", "PORT=1 npm start", "npx vite", "vite dev", "uvicorn app:app", "python -m http.server 80", "python3 -m http.server", "docker-compose up", "docker compose up", "yes | yarn dev", "uvicorn a:b; echo --help",
	} {
		if shell.LongRunner(refused) == "" {
			t.Errorf("%q passes", refused)
		}
	}
}
