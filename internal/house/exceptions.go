package house

import "path"

// exception excuses one name in the files that a pattern matches (path.Match; a pattern
// ending in /... matches everything below).
type exception struct {
	files  string
	name   string // "*" for every name of the rule
	reason string
}

// edge is one import that the plan does not allow.
type edge struct{ from, to string }

// upward are imports that go up and stay.
func upward() []edge { return nil }

// mutable are package-level variables that change, with the reason.
func mutable() []exception {
	return []exception{
		{"internal/fakellm/server.go", "bodies", "a pool of buffers; nothing of a request is left in it for the next"},
		{"backends/namespace/box.go", "serial", "a counter that numbers the boxes of this process; names of cgroups must not meet"},
	}
}

// process are uses of streams and environment outside of cmd.
func process() []exception {
	return []exception{
		{"backends/slotd/...", "*", "the server inside a box: its streams are its protocol, its environment the commands'"},
		{"backends/backendtest/...", "*", "Main turns a test binary into the server inside a box, as cmd.Main does"},
		{"examples/*/main.go", "os.Args", "mains of programs that call cmd.Main"},
		{"examples/*/cmd/*/main.go", "os.Args", "as above"},
		{"envs/remote/examples/...", "*", "programs of their own, whose streams are the protocol"},
		{"backends/namespace/main.go", "*", "pid 1 of a box: a program of its own, whose signals nobody else listens to"},
	}
}

// host are tools that reach the host.
func host() []exception { return nil }

// large are packages over the bound on lines.
func large() []exception {
	return []exception{
		{"parsers", "*", "one family of models a file, all of one contract"},
		{"internal/jinja", "*", "one interpreter: its parts share values and state"},
		{"cmd", "*", "one command a file"},
		{"datasets", "*", "one format of rows a file, all of one reader"},
		{"envs/grade", "*", "one grader a file, all of one list"},
		{"parsers/tokenizer", "*", "one engine: normalizers, splitters, model and decoders share its tables"},
	}
}

// opens are calls of the server in a box that have the name of one that opens a file.
func opens() []exception {
	return []exception{
		{"backends/slotd/host/open.go", "*", "the one place that opens files"},
		{"backends/slotd/server/open.go", "*", "the file with the setup, which the maker of the box put there"},
		{"backends/slotd/pipes/ends.go", "os.OpenFile", "/dev/null"},
		{"backends/slotd/procs/kernel.go", "*", "files of /proc"},
		{"backends/slotd/host/process.go", "pty.Open", "a new terminal, of which no command knows yet"},
		{"backends/slotd/host/*.go", "trees.Walk", "works with descriptors and opens nothing but folders"},
		{"backends/slotd/host/tar.go", "e.Open", "an entry of a walk, which is looked at, opened and looked at again"},
		{"backends/slotd/host/search.go", "e.Open", "as above"},
	}
}

// unguarded are servers of HTTP that no browser reaches, or that are asked for the names of
// others.
func unguarded() []exception {
	return []exception{
		{"backends/egress/boxproxy.go", "*", "the proxy of a box: it listens in the box alone and is asked for other hosts; it has its own bounds"},
		{"backends/slotd/server/server.go", "*", "the server of a box: each call has a token as bearer, or comes by a socket of the file system"},
		{"backends/ssh/station/station.go", "*", "it listens on a socket of the file system, in a folder of its user"},
		{"backends/nomad/nomadtest/fake.go", "*", "a fake agent for tests"},
		{"backends/backendtest/meddler.go", "*", "a proxy for tests"},
	}
}

// spoken are words that a file needs.
func spoken() []exception {
	return []exception{
		{".ci/run", "*", "installs the real components that the tests use"},
	}
}

// excused reports whether a list excuses a name in a file.
func excused(list []exception, file, name string) bool {
	for _, e := range list {
		if e.name != "*" && e.name != name {
			continue
		}
		if dir, all := cutAll(e.files); all && under(file, dir) {
			return true
		}
		if ok, err := path.Match(e.files, file); ok && err == nil {
			return true
		}
	}
	return false
}

func cutAll(pattern string) (string, bool) {
	const all = "/..."
	if len(pattern) > len(all) && pattern[len(pattern)-len(all):] == all {
		return pattern[:len(pattern)-len(all)], true
	}
	return pattern, false
}

// What is left of the rules of plain code; the numbers only go down.
const (
	wideAssignments = 117
	longTests       = 22
)

// idioms are the words that are given up, with what is left of them.
func idioms() []idiom {
	return []idiom{
		{"anew", "again", 0},
		{"of (its|their) own", "its own", 2},
		{"told", "shown, sent, reported, asked", 14},
		{"stands", "is", 8},
		{"nobody", "no one", 27},
		{"to be had", "available", 0},
		{"befell|befalls", "happened to", 0},
		{"in vain", "without success", 0},
		{"luggage|guise|clerk", "the technical noun", 0},
	}
}
