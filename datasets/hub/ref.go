// Package hub fetches data files of a dataset repository from a Hugging Face hub into
// the cache that Python's huggingface_hub keeps, and shares it in both directions:
//
//	datasets--OWNER--NAME/{blobs/ETAG, refs/REVISION, snapshots/COMMIT/PATH → ../../blobs/ETAG}
//
// Downloads resume where they were cut and are checked against the hub's SHA-256 (or
// Git's SHA-1). Nothing is read from the environment: address, token, cache and the
// offline switch are [Options]. Fetch may run at the same time in several processes:
// files appear by rename.
package hub

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Ref names rows of a dataset repository.
type Ref struct {
	Owner, Name string // Owner is empty for repositories at the root ("squad")
	Revision    string // branch, tag or commit; "" means main
	Config      string // "" means the default one
	Split       string // "" means train, or the only one
	From, To    int64  // rows [From, To); To -1 means the end
}

// Repo is "owner/name", or the name alone.
func (r Ref) Repo() string {
	if r.Owner == "" {
		return r.Name
	}
	return r.Owner + "/" + r.Name
}

func (r Ref) revision() string {
	if r.Revision == "" {
		return "main"
	}
	return r.Revision
}

var part = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}$`)

// Parse reads hf:owner/name[@revision][/config][:split[a:b]]. A slash inside a
// revision is written %2F.
func Parse(spec string) (Ref, error) {
	bad := func(why string) (Ref, error) {
		return Ref{}, fmt.Errorf("%s (want hf:owner/name[@revision][/config][:split[a:b]])", why)
	}
	text, ok := strings.CutPrefix(spec, "hf:")
	if !ok {
		return bad("no hf: in front")
	}
	r := Ref{To: -1}
	text, split, hasSplit := strings.Cut(text, ":")
	if hasSplit {
		if err := r.parseSplit(split); err != nil {
			return bad(err.Error())
		}
	}
	head, tail, hasAt := strings.Cut(text, "@")
	path := strings.Split(head, "/")
	if hasAt {
		revision, config, hasConfig := strings.Cut(tail, "/")
		r.Revision = strings.ReplaceAll(revision, "%2F", "/")
		if r.Revision == "" || strings.Contains(r.Revision, "..") || strings.HasPrefix(r.Revision, "/") {
			return bad(fmt.Sprintf("%q is no revision", revision))
		}
		if hasConfig {
			r.Config = config
		}
	} else if len(path) > 2 {
		r.Config = strings.Join(path[2:], "/")
		path = path[:2]
	}
	if len(path) != 2 || !part.MatchString(path[0]) || !part.MatchString(path[1]) || strings.Contains(head, "..") {
		return bad(fmt.Sprintf("%q is no repository", head))
	}
	r.Owner, r.Name = path[0], path[1]
	if r.Config != "" && !part.MatchString(r.Config) {
		return bad(fmt.Sprintf("%q is no configuration", r.Config))
	}
	return r, nil
}

func (r *Ref) parseSplit(text string) error {
	name, rows, hasRows := strings.Cut(text, "[")
	if !part.MatchString(name) {
		return fmt.Errorf("%q is no split", name)
	}
	r.Split = name
	if !hasRows {
		return nil
	}
	a, b, ok := strings.Cut(strings.TrimSuffix(rows, "]"), ":")
	if !ok || !strings.HasSuffix(rows, "]") {
		return fmt.Errorf("%q is no slice of rows", "["+rows)
	}
	var err error
	if a != "" {
		if r.From, err = strconv.ParseInt(a, 10, 64); err != nil || r.From < 0 {
			return fmt.Errorf("slice start %q: want a row number from 0", a)
		}
	}
	if b != "" {
		if r.To, err = strconv.ParseInt(b, 10, 64); err != nil || r.To < r.From {
			return fmt.Errorf("slice end %q: want a row number from the start on", b)
		}
	}
	return nil
}
