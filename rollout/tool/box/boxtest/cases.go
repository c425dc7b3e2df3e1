package boxtest

import "slices"

func cases() []testCase {
	return slices.Concat(terminalCases(), sessionCases(), bashCases(), codeCases(), encodingCases(), searchCases(), logCases(), fileCases(), patchCases(), otherCases())
}

func sh(command string, want string) step { return step{"terminal", args("command", command), want} }

func terminalCases() []testCase {
	return []testCase{
		{name: "output and exit code", steps: []step{
			sh("echo hi; echo err >&2; exit 3", `{"output":"hi\nerr\n","exit_code":3,"error":null}`),
			sh("printf '\\033[31mred\\033[0m'", `{"output":"red","exit_code":0,"error":null}`),
			sh("echo a | grep b", `{"output":"","exit_code":1,"error":null,"exit_code_meaning":"No match was found (not an error)"}`),
			sh("definitely-not-a-program", `~"exit_code":127`),
		}},
		{name: "environment, directory, functions and aliases stay", needs: "bash", steps: []step{
			sh("mkdir -p a/b && cd a/b && export X='it'\"'\"'s\nme' && f() { echo \"f $1\"; } && alias hi='echo alias'; unset LANG", `{"output":"","exit_code":0,"error":null}`),
			sh("basename \"$PWD\"; echo \"$X\"; f 1; hi", `{"output":"b\nit's\nme\nf 1\nalias\n","exit_code":0,"error":null}`),
			sh("cd /; export Y=2; exit 4", `{"output":"","exit_code":4,"error":null}`),
			sh("pwd; echo $Y", `{"output":"/\n2\n","exit_code":0,"error":null}`),
			sh("set -eu; cd /tmp; false; echo never", `{"output":"","exit_code":1,"error":null}`),
			sh("pwd; echo \"${NOPE}ok\"", `{"output":"/tmp\nok\n","exit_code":0,"error":null}`),
			sh("unset X; env | grep -c '^HERMES_STATE'", `{"output":"0\n","exit_code":1,"error":null,"exit_code_meaning":"No match was found (not an error)"}`),
			sh("echo \"[$X]\"", `{"output":"[]\n","exit_code":0,"error":null}`),
		}},
		{name: "SHELL is what bash makes it, and not exported", needs: "bash", steps: []step{
			sh("declare -p SHELL >first", `{"output":"","exit_code":0,"error":null}`),
			sh("bash -c 'declare -p SHELL' | cmp - first; env | grep -c ^SHELL=", `~^{"output":"0\\n"`),
			sh("export SHELL=/mine", `{"output":"","exit_code":0,"error":null}`),
			sh("env | grep ^SHELL=; unset SHELL", `{"output":"SHELL=/mine\n","exit_code":0,"error":null}`),
			sh("declare -p SHELL | cmp - first", `{"output":"","exit_code":0,"error":null}`),
		}},
		{name: "text is UTF-8", needs: "bash", steps: []step{
			sh("x='☃é'; echo ${#x}; locale charmap", `~^{"output":"2\\n(UTF-8\\n|.*locale: .*)"`),
		}},
		{name: "the directory is gone", steps: []step{
			sh("mkdir -p up/down && cd up/down && rmdir ../down", `{"output":"","exit_code":0,"error":null}`),
			sh("basename \"$PWD\"", `{"output":"up\n","exit_code":0,"error":null}`),
		}},
		{name: "workdir is for one command", steps: []step{
			sh("mkdir d", `{"output":"","exit_code":0,"error":null}`),
			{"terminal", args("command", "basename \"$PWD\"", "workdir", "d"), `{"output":"d\n","exit_code":0,"error":null}`},
			sh("ls -d d", `{"output":"d\n","exit_code":0,"error":null}`),
			{"terminal", args("command", "true", "workdir", "missing"), `~"exit_code":126`},
			{"terminal", args("command", "true", "workdir", "$(id)"), `~"exit_code":-1,"error":"workdir`},
		}},
		{name: "timeout keeps the output", steps: []step{
			{"terminal", args("command", "echo begun; sleep 60", "timeout", 1), `{"output":"begun\n[Command timed out after 1s]","exit_code":124,"error":null}`},
			{"terminal", args("command", "true", "timeout", 601), `~"exit_code":-1,"error":"a foreground command may take at most 600`},
		}},
		{name: "guards", steps: []step{
			sh("sleep 1 &", `~"exit_code":-1`), sh("nohup sleep 1", `~"exit_code":-1`), sh("cd x && npm run dev", `~"exit_code":-1`),
			sh("echo 'a & b' 2>&1 && echo \"nohup\"", `{"output":"a & b\nnohup\n","exit_code":0,"error":null}`),
		}},
		{name: "long output loses its middle", steps: []step{
			sh("echo first; head -c 300000 /dev/zero | tr '\\0' x; echo last", `~^{"output":"first\\nx+\\n\\n\[\.\.\. 250011 of 300011 characters left out \.\.\.\]\\n\\nx+last\\n","exit_code":0`),
		}},
		{name: "background", steps: []step{
			{"terminal", args("command", "echo up; read l; echo got $l; exit 5", "background", true), `{"error":null,"exit_code":0,"output":"Background process started","pid":1,"session_id":"proc_ID"}`},
			{"process", `{"action":"submit","session_id":"$ID","data":"word"}`, `{"bytes_written":5,"status":"ok"}`},
			{"process", `{"action":"wait","session_id":"$ID","timeout":30}`, `{"status":"exited","exit_code":5,"output":"up\ngot word\n"}`},
			{"process", `{"action":"poll","session_id":"$ID"}`, `{"session_id":"proc_ID","command":"echo up; read l; echo got $l; exit 5","status":"exited","pid":1,"uptime_seconds":0,"output_preview":"up\ngot word\n","exit_code":5}`},
			{"process", `{"action":"log","session_id":"$ID","limit":1}`, `{"session_id":"proc_ID","status":"exited","output":"got word","total_lines":2,"showing":"lines 2-2 of 2"}`},
			{"process", `{"action":"list"}`, `~"processes":\[{"session_id":"proc_ID","command":"echo up`},
			{"process", `{"action":"kill","session_id":"$ID"}`, `{"exit_code":5,"session_id":"proc_ID","status":"already_exited"}`},
			{"process", `{"action":"poll","session_id":"proc_none"}`, `{"error":"No process with ID proc_none","status":"not_found"}`},
			{"process", `{"action":"poll"}`, `{"error":"session_id is required for action poll"}`},
		}},
		{name: "kill and end of input", steps: []step{
			{"terminal", args("command", "sleep 300", "background", true), `~proc_ID`},
			{"process", `{"action":"kill","session_id":"$ID"}`, `{"session_id":"proc_ID","status":"killed"}`},
			{"process", `{"action":"poll","session_id":"$ID"}`, `~"status":"exited".*"exit_code":-15`},
			{"terminal", args("command", "cat", "background", true), `~proc_ID`},
			{"process", `{"action":"close","session_id":"$ID"}`, `{"message":"input closed","status":"ok"}`},
			{"process", `{"action":"wait","session_id":"$ID"}`, `~"status":"exited","exit_code":0`},
		}},
		{name: "pty", steps: []step{
			{"terminal", args("command", "test -t 0 && echo tty", "background", true, "pty", true), `~proc_ID`},
			{"process", `{"action":"wait","session_id":"$ID"}`, `~"output":"tty\\r?\\n"`},
		}},
	}
}

func fileCases() []testCase {
	return []testCase{
		{name: "write and read", needs: "bash", steps: []step{
			{"write_file", args("path", "d/a.txt", "content", "one\ntwo\n"), `{"bytes_written":8,"dirs_created":true}`},
			{"read_file", args("path", "d/a.txt"), `{"content":"     1|one\n     2|two","total_lines":2,"file_size":8,"truncated":false,"is_binary":false,"is_image":false}`},
			{"read_file", args("path", "d/a.txt"), `~"status":"unchanged"`},
			{"read_file", args("path", "d/a.txt"), `~"error":"BLOCKED`},
			{"read_file", args("path", "d/a.txt", "offset", "2", "limit", 1), `{"content":"     2|two","total_lines":2,"file_size":8,"truncated":false,"is_binary":false,"is_image":false}`},
			{"read_file", args("path", "d/a.txt", "limit", 1), `~"truncated":true,"hint":"Lines 1-1 of 2\. Use offset=2 to read on\."`},
			{"read_file", args("path", "d/a.txt", "offset", 9), `~offset 9 is beyond the end: the file has 2 lines`},
			sh("printf 'x\\r\\ny\\r\\n' > d/a.txt", `{"output":"","exit_code":0,"error":null}`),
			{"write_file", args("path", "d/a.txt", "content", "p\nq\n"), `{"bytes_written":6,"dirs_created":false,"_warning":"The file had changed since you last read it: something else edited it. What it wrote is gone now."}`},
			sh("grep -c $'\\r' d/a.txt", `{"output":"2\n","exit_code":0,"error":null}`),
		}},
		{name: "what cannot be read", steps: []step{
			sh("printf 'a\\0b' > bin; mkdir dir; echo x > Notes.md; echo x > pic.png", `{"output":"","exit_code":0,"error":null}`),
			{"read_file", args("path", "bin"), `~"error":"This is a binary file.*"is_binary":true`},
			{"read_file", args("path", "pic.png"), `~"is_image":true`},
			{"read_file", args("path", "dir"), `~"error":"Cannot read the file: `},
			{"read_file", args("path", "notes.md"), `~"error":"File not found: .*"similar_files":\[".*Notes.md"`},
			{"read_file", args("path", "/dev/zero"), `~is a device`},
		}},
		{name: "relative paths follow the shell", steps: []step{
			sh("mkdir -p w && cd w", `{"output":"","exit_code":0,"error":null}`),
			{"write_file", args("path", "f", "content", "x"), `{"bytes_written":1,"dirs_created":false}`},
			sh("ls; cd ..; ls w", `{"output":"f\nf\n","exit_code":0,"error":null}`),
			{"read_file", args("path", "~/w/f"), `~"content":"     1\|x"`},
		}},
		{name: "lint reports new problems", steps: []step{
			{"write_file", args("path", "a.json", "content", "{"), `~"lint":{"status":"error","output":"line 1: `},
			{"write_file", args("path", "a.json", "content", "{ "), `~"lint":{"status":"ok"}`},
			{"write_file", args("path", "a.json", "content", "{}"), `{"bytes_written":2,"dirs_created":false,"lint":{"status":"ok"}}`},
			{"write_file", args("path", "a.go", "content", "package"), `~"lint":{"status":"error"`},
		}},
		{name: "search", steps: []step{
			sh("mkdir -p s/sub; printf 'alpha\\nbeta\\n' > s/a.py; printf 'beta\\nbeta\\n' > s/sub/b.txt; touch -d '2001-01-01' s/a.py", `{"output":"","exit_code":0,"error":null}`),
			{"search_files", args("pattern", "^beta", "path", "s", "file_glob", "*.py"), `~^{"total_count":1,"matches":\[{"path":"[^"]*s/a.py","line":2,"content":"beta"}\]}$`},
			{"search", args("pattern", "beta", "path", "s", "limit", 1), `~"truncated":true}\n\n\[Hint: more results exist; use offset=1 `},
			{"search_files", args("pattern", "beta", "path", "s", "output_mode", "count"), `~^{"total_count":3,"counts":{"[^"]*s/a.py":1,"[^"]*s/sub/b.txt":2}}$`},
			{"search_files", args("pattern", "beta", "path", "s", "output_mode", "files_only"), `~^{"total_count":2,"files":\["[^"]*s/a.py","[^"]*s/sub/b.txt"\]}$`},
			{"search_files", args("pattern", "*", "path", "s", "target", "files"), `~^{"total_count":2,"files":\["[^"]*b.txt","[^"]*a.py"\]}$`},
			{"search_files", args("pattern", "alpha", "path", "s", "context", 1), `~"content":"alpha"},{"path":"[^"]*","line":2,"content":"beta"}`},
			{"search_files", args("pattern", "(?=x)"), `~"error":"pattern: .*no look-around`},
			{"search_files", args("pattern", "x", "path", "nowhere"), `~"error":"Path not found`},
			{"search_files", args("pattern", "zzz", "path", "s"), `{"total_count":0}`},
			{"search_files", args("pattern", "zzz", "path", "s"), `{"total_count":0}`},
			{"search_files", args("pattern", "zzz", "path", "s"), `~"_warning"`},
			{"search_files", args("pattern", "zzz", "path", "s"), `~"error":"BLOCKED`},
		}},
	}
}

func patchCases() []testCase {
	write := func(name, content string) step {
		return step{"write_file", args("path", name, "content", content), `~bytes_written`}
	}
	return []testCase{
		{name: "replace", steps: []step{
			write("p.txt", "a\nb\nb\n"),
			{"patch", args("mode", "replace", "path", "p.txt", "old_string", "a\n", "new_string", "A\n"), `~^{"success":true,"diff":"--- a/.*p.txt\\n\+\+\+ b/.*p.txt\\n@@ -1,3 \+1,3 @@\\n-a\\n\+A\\n b\\n b\\n","files_modified":\[".*p.txt"\]}$`},
			{"patch", args("path", "p.txt", "old_string", "b", "new_string", "c"), `~"success":false,.*found 2 times`},
			{"patch", args("path", "p.txt", "old_string", "b", "new_string", "c", "replace_all", true), `~"success":true`},
			{"patch", args("path", "p.txt", "old_string", "c", "new_string", "c"), `~are the same`},
			{"patch", args("path", "p.txt", "old_string", "Aa", "new_string", "c"), `~was not found in the file.*     1\|A`},
			{"patch", args("path", "q.txt", "old_string", "Aa", "new_string", "c"), `~File not found`},
			{"patch", args("mode", "replace"), `~path is required`},
			sh("cat p.txt", `{"output":"A\nc\nc\n","exit_code":0,"error":null}`),
		}},
		{name: "v4a", steps: []step{
			write("u.txt", "one\n\ntwo\nthree"),
			write("old.txt", "x\n"),
			{"patch", args("mode", "patch", "patch", "*** Begin Patch\n*** Update File: u.txt\n@@ one @@\n one\n\n-two\n+TWO\n*** Add File: n/new.txt\n+fresh\n*** Delete File: old.txt\n*** End Patch"), `~"success":true.*"files_modified":\[".*u.txt"\],"files_created":\[".*n/new.txt"\],"files_deleted":\[".*old.txt"\]`},
			sh("cat u.txt n/new.txt; ls old.txt 2>/dev/null", `{"output":"one\n\nTWO\nthreefresh\n","exit_code":2,"error":null}`),
			{"patch", args("mode", "patch", "patch", "*** Begin Patch\n*** Update File: u.txt\n-one\n+1\n*** Add File: u.txt\n+x\n*** End Patch"), `~"success":false.*exists already`},
			{"patch", args("mode", "patch", "patch", "*** Begin Patch\n*** Move File: u.txt -> m/v.txt\n*** End Patch"), `~"success":true.*"files_created":\[".*m/v.txt"\],"files_deleted":\[".*u.txt"\]`},
			{"patch", args("mode", "patch", "patch", "nonsense"), `~"success":false,"error":"line 1 of the patch`},
			sh("head -n1 m/v.txt", `{"output":"one\n","exit_code":0,"error":null}`),
		}},
	}
}

func otherCases() []testCase {
	return []testCase{
		{name: "todo", steps: []step{
			{"todo", `{}`, `{"todos":[],"summary":{"total":0,"pending":0,"in_progress":0,"completed":0,"cancelled":0}}`},
			{"todo", `{"todos":[{"id":"1","content":"a","status":"pending"},{"id":"","content":"b","status":"in_progress"}]}`, `{"todos":[{"id":"1","content":"a","status":"pending"},{"id":"?","content":"b","status":"in_progress"}],"summary":{"total":2,"pending":1,"in_progress":1,"completed":0,"cancelled":0}}`},
			{"todo", `{"merge":true,"todos":[{"id":"1","content":"a","status":"completed"},{"id":"3","content":"c","status":"cancelled"}]}`, `~"summary":{"total":3,"pending":0,"in_progress":1,"completed":1,"cancelled":1}}$`},
			{"todo", `{"todos":[{"id":"1","content":"a","status":"doing"}]}`, `~todos\[0\]\.status`},
		}},
		{name: "execute_code", needs: "python3", steps: []step{
			{"execute_code", args("code", "from hermes_tools import terminal, write_file, read_file\nwrite_file('x.txt', 'hello\\n')\nprint(terminal('cat x.txt')['output'], read_file(path='x.txt')['total_lines'])"), `{"status":"success","output":"hello\n 1\n","tool_calls_made":3,"duration_seconds":0}`},
			{"execute_code", args("code", "print('before')\n1/0"), `~^{"status":"error","output":"before\\n","tool_calls_made":0,"duration_seconds":0,"error":"Traceback.*script.py\\", line 2.*ZeroDivisionError`},
			{"execute_code", args("code", "import hermes_tools as h\nprint(h.terminal('sleep 9', background=True)); print(h._call('todo', {})); print(h.shell_quote('a b'), h.json_parse('{\"a\":\"x\\ty\"}'))"), `~background cannot be used from code.*Tool todo cannot be called from code.*'a b'`},
			sh("cd /tmp", `{"output":"","exit_code":0,"error":null}`),
			{"execute_code", args("code", "import os, sys\nprint(os.getcwd(), repr(sys.stdin.read()))"), `~"output":"/tmp ''\\n"`},
		}},
	}
}
