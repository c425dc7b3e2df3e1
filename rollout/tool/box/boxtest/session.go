package boxtest

import "strings"

func bashCases() []testCase {
	return []testCase{
		{name: "an alias or a function in the place of a built-in", needs: "bash", steps: []step{
			sh("alias cat='cat -n'; cd() { builtin cd \"$@\" && ls; }; mkdir -p d/e; command cd d", `{"output":"","exit_code":0,"error":null}`),
			sh("builtin() { echo fake; }; printf() { echo fake; }; pwd() { echo fake; }; unset() { echo fake; }; declare() { echo fake; }; alias() { echo fake; }; export() { echo fake; }; trap() { echo fake; }; set() { echo fake; }; command cd e", `{"output":"","exit_code":0,"error":null}`),
			sh("echo hello; basename \"$PWD\"", `{"output":"hello\ne\n","exit_code":0,"error":null}`),
			sh("\\pwd; command cd ..", `{"output":"fake\n","exit_code":0,"error":null}`),
			sh("basename \"$PWD\"", `{"output":"d\n","exit_code":0,"error":null}`),
		}},
		{name: "aliases for everything", needs: "bash", steps: []step{
			sh("mkdir -p d; alias cd=false pwd=false printf=false unset=false set=false shopt=false trap=false builtin=false export=false declare=false eval=false until=false case=false exit=false; \\cd d", `{"output":"","exit_code":0,"error":null}`),
			sh("echo hello; basename \"$PWD\"", `{"output":"hello\nd\n","exit_code":0,"error":null}`),
			sh("cd ..", `{"output":"","exit_code":1,"error":null}`),
		}},
		{name: "functions are not rewritten by aliases", needs: "bash", steps: []step{
			sh("f() { echo one; }; alias echo='echo two'", `{"output":"","exit_code":0,"error":null}`),
			sh("true", `{"output":"","exit_code":0,"error":null}`),
			sh("f; echo x", `{"output":"one\ntwo x\n","exit_code":0,"error":null}`),
		}},
		{name: "what is odd in a variable or an alias stays", needs: "bash", steps: []step{
			sh("export A=$'a\\n\\'\"$x `y` \\\\ \\001 é' B=; alias q=\"echo 'it'\\''s'\"; g() { cat <<'X'\n$here 'doc'\nX\n}; readonly R=1; export R", `{"output":"","exit_code":0,"error":null}`),
			sh("true", `{"output":"","exit_code":0,"error":null}`),
			sh("[ \"$A\" = $'a\\n\\'\"$x `y` \\\\ \\001 é' ] && echo same; echo \"[${B-unset}]\"; q; g; echo $R", `{"output":"same\n[]\nit's\n$here 'doc'\n1\n","exit_code":0,"error":null}`),
		}},
		{name: "options that make the end of a shell hard", needs: "bash", steps: []step{
			sh("set -euxo pipefail; set -C; set -f; IFS=/; cd /tmp", `~"exit_code":0`),
			sh("pwd; set -o posix; cd /", `{"output":"/tmp\n","exit_code":0,"error":null}`),
			sh("pwd; export POSIXLY_CORRECT=1; f() { echo f; }", `{"output":"/\n","exit_code":0,"error":null}`),
			sh("f; echo $POSIXLY_CORRECT; cd /tmp", `{"output":"f\n1\n","exit_code":0,"error":null}`),
			sh("f; pwd", `{"output":"f\n/tmp\n","exit_code":0,"error":null}`),
		}},
		{name: "the command line is the model's own", needs: "ps", steps: []step{
			sh("cd /tmp; ps -o args= -p $$", `{"output":"bash -c cd /tmp; ps -o args= -p $$\n","exit_code":0,"error":null}`),
			sh("ps -eo args | grep -c '[_]_leave'; env | grep -c BASH_ENV", `{"output":"0\n0\n","exit_code":1,"error":null,"exit_code_meaning":"No match was found (not an error)"}`),
		}},
		{name: "an attack on the kept file breaks the session's state at most", needs: "bash", steps: []step{
			sh("cd /tmp; export K=1", `{"output":"","exit_code":0,"error":null}`),
			sh("exec 47>&-; cd /", `{"output":"","exit_code":0,"error":null}`),
			sh("pwd; echo $K", `{"output":"/tmp\n1\n","exit_code":0,"error":null}`),
			sh("trap - EXIT; head -c 100000 /dev/urandom >/proc/self/fd/47", `{"output":"","exit_code":0,"error":null}`),
			sh("pwd; echo $K", `{"output":"/tmp\n1\n","exit_code":0,"error":null}`),
			sh("trap - EXIT; printf '/\\0\\0(((\\0\\0)))\\0.\\0' >/proc/self/fd/47", `{"output":"","exit_code":0,"error":null}`),
			sh("true", `~"exit_code":0`),
			sh("pwd", `{"output":"/\n","exit_code":0,"error":null}`),
			sh("trap - EXIT; printf 'not/absolute\\0\\0\\0\\0\\0.\\0' >/proc/self/fd/47", `{"output":"","exit_code":0,"error":null}`),
			sh("pwd", `{"output":"/\n","exit_code":0,"error":null}`),
		}},
		{name: "a long command", needs: "bash", steps: []step{
			sh("cat <<X | wc -c\n"+strings.Repeat("é7\n", 50_000)+"X\nexport L=1", `{"output":"200000\n","exit_code":0,"error":null}`),
			sh("echo $L ${__c-none}", `{"output":"1 none\n","exit_code":0,"error":null}`),
		}},
		{name: "the directory before the last stays", needs: "bash", steps: []step{
			sh("cd /tmp; cd /", `{"output":"","exit_code":0,"error":null}`),
			sh("cd - >/dev/null; pwd", `{"output":"/tmp\n","exit_code":0,"error":null}`),
		}},
	}
}

func codeCases() []testCase {
	var steps []step
	for _, name := range []string{"json", "os", "types", "queue", "fcntl", "shlex", "encodings"} {
		steps = append(steps, sh("mkdir -p proj; cd ~/proj; echo 'x = 1/0' > "+name+".py", `{"output":"","exit_code":0,"error":null}`),
			step{"execute_code", args("code", "import json, os, types\nfrom hermes_tools import terminal\nprint(json.dumps(terminal('echo hi')['output']))"), `{"status":"success","output":"\"hi\\n\"\n","tool_calls_made":1,"duration_seconds":0}`},
			sh("rm "+name+".py", `{"output":"","exit_code":0,"error":null}`))
	}
	steps = append(steps, sh("echo 'v = 41' > mine.py; mkdir pkg; echo 'w = 1' > pkg/__init__.py", `{"output":"","exit_code":0,"error":null}`),
		step{"execute_code", args("code", "import mine\nfrom pkg import w\nprint(mine.v + w, __name__, [n for n in globals() if n.startswith('_') and not n.startswith('__')])"), `~^{"status":"success","output":"42 __main__ \[\]\\n"`},
		step{"execute_code", args("code", "def f():\n    1/0\nf()"), `~"error":"Traceback [(]most recent call last[)]:\\n  File \\"script.py\\", line 3, in <module>\\n    f[(][)]\\n`},
		step{"execute_code", args("code", "x = ("), `~"error":"File \\"script.py\\", line 1\\n`},
		step{"execute_code", args("code", "import sys\nsys.exit(3)"), `~"status":"error".*exit code 3`},
		step{"terminal", args("command", "export PYTHONPATH=.; echo 1/0 > json.py"), `{"output":"","exit_code":0,"error":null}`},
		step{"execute_code", args("code", "print('hello')"), `~^{"status":"success","output":"hello\\n"`},
		sh("cd ..; rm -r proj", `{"output":"","exit_code":0,"error":null}`))
	return []testCase{{name: "modules beside execute_code", needs: "python3", steps: steps}}
}

// sessionCases hold in every shell.
func sessionCases() []testCase {
	return []testCase{
		{name: "a PATH without programs", steps: []step{
			sh("export PATH=/opt/tool/bin", `{"output":"","exit_code":0,"error":null}`),
			sh("cd /tmp", `{"output":"","exit_code":0,"error":null}`),
			sh("pwd; echo $PATH", `{"output":"/tmp\n/opt/tool/bin\n","exit_code":0,"error":null}`),
			sh("unset PATH", `{"output":"","exit_code":0,"error":null}`),
			sh("echo fine ${PATH-none}", `~"output":"fine (none|/.*)\\n","exit_code":0`),
		}},
		{name: "the box's own directory is removed, moved and made again", steps: []step{
			sh("mkdir -p \"$HOME/x\"; mv \"$HOME\" \"$HOME.old\"", `{"output":"","exit_code":0,"error":null}`),
			sh("echo alive; cd /tmp; pwd", `{"output":"alive\n/tmp\n","exit_code":0,"error":null}`),
			{"terminal", args("command", "echo up", "background", true), `~proc_ID`},
			{"process", `{"action":"wait","session_id":"$ID"}`, `{"status":"exited","exit_code":0,"output":"up\n"}`},
			sh("mv \"$HOME.old\" \"$HOME\"; cd; ls -d x", `{"output":"x\n","exit_code":0,"error":null}`),
			sh("cd x; rm -rf ../x", `{"output":"","exit_code":0,"error":null}`),
			sh("mkdir x && cd x && echo back", `{"output":"back\n","exit_code":0,"error":null}`),
		}},
		{name: "ways to end", steps: []step{
			sh("cd /tmp; export E=1; exit 7", `{"output":"","exit_code":7,"error":null}`),
			sh("pwd; echo $E; export E=2; exec true", `{"output":"/tmp\n1\n","exit_code":0,"error":null}`),
			sh("echo $E; trap 'echo bye' EXIT; export E=3", `{"output":"1\nbye\n","exit_code":0,"error":null}`),
			sh("set -e; export E=4; false; echo never", `{"output":"","exit_code":1,"error":null}`),
			sh("echo $E; kill -9 $$", `{"output":"4\n","exit_code":137,"error":null}`),
			sh("echo $E; (exit 3); (cd /; exit 4) || true; echo \"$(exit 5)\"", `{"output":"4\n\n","exit_code":0,"error":null}`),
			sh("pwd; echo 'unbalanced", `~"output":"(/tmp\\n)?[^"]*(nexpected|nterminated|syntax)[^"]*","exit_code":[12]`),
			sh("cat <<X\na $E\nX", `{"output":"a 4\n","exit_code":0,"error":null}`),
			sh("( exit 9 )", `{"output":"","exit_code":9,"error":null}`),
			sh("pwd; false", `{"output":"/tmp\n","exit_code":1,"error":null}`),
			{"terminal", args("command", "cd /; export E=5; sleep 60", "timeout", 1), `~"exit_code":124`},
			sh("pwd", `~"output":"(/|/tmp)\\n","exit_code":0`),
		}},
		{name: "a shell that is killed while it writes its state", steps: []step{
			sh("cd /tmp; export M=1", `{"output":"","exit_code":0,"error":null}`),
			sh("printf '/\\0\\0export M=2\\n' >/proc/self/fd/47; kill -9 $$", `{"output":"","exit_code":137,"error":null}`),
			sh("pwd; echo $M", `{"output":"/tmp\n1\n","exit_code":0,"error":null}`),
		}},
		{name: "nothing is left in the box", steps: []step{
			sh("true", `{"output":"","exit_code":0,"error":null}`),
			sh("ls -A /tmp \"${TMPDIR:-/tmp}\" | grep '^[.]hermes-[A-Za-z0-9]\\{8\\}$'; env | grep HERMES_STATE; true", `{"output":"","exit_code":0,"error":null}`),
		}},
	}
}
