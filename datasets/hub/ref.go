// Package hub finds the data files of a dataset repository on a Hugging Face hub: which
// configuration and split, in which order. The files come through [hfhub], which shares
// its cache with Python's huggingface_hub.
package hub

import (
	"fmt"
	"strconv"
	"strings"

	"hermes/internal/hfhub"
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
		return hfhub.Main
	}
	return r.Revision
}

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
		if !hfhub.IsRevision(r.Revision) {
			return bad(fmt.Sprintf("%q is no revision", revision))
		}
		if hasConfig {
			r.Config = config
		}
	} else if len(path) > 2 {
		r.Config = strings.Join(path[2:], "/")
		path = path[:2]
	}
	if len(path) != 2 || !hfhub.IsName(path[0]) || !hfhub.IsName(path[1]) {
		return bad(fmt.Sprintf("%q is no repository", head))
	}
	r.Owner, r.Name = path[0], path[1]
	if r.Config != "" && !hfhub.IsName(r.Config) {
		return bad(fmt.Sprintf("%q is no configuration", r.Config))
	}
	return r, nil
}

func (r *Ref) parseSplit(text string) error {
	name, rows, hasRows := strings.Cut(text, "[")
	if !hfhub.IsName(name) {
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
		r.From, err = strconv.ParseInt(a, 10, 64)
		if err != nil || r.From < 0 {
			return fmt.Errorf("slice start %q: want a row number from 0", a)
		}
	}
	if b != "" {
		r.To, err = strconv.ParseInt(b, 10, 64)
		if err != nil || r.To < r.From {
			return fmt.Errorf("slice end %q: want a row number from the start on", b)
		}
	}
	return nil
}
