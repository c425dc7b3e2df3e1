package cmd

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"hermes/configs"
	"hermes/internal/build"
	"hermes/internal/hfhub"
	"hermes/rollout/runs"
	"hermes/rollout/sink"
)

// hubFlags say what of a run goes into a dataset folder.
type hubFlags struct {
	Where   string `nokey:"" placeholder:"EXPR" help:"With hf: only samples such as 'reward >= 0.5 and turns < 20'."`
	License string `nokey:"" placeholder:"ID" help:"With hf: licence as the hub names it, such as apache-2.0 (default: none is claimed)."`
	Title   string `nokey:"" placeholder:"TEXT" help:"With hf: title of the card."`
}

func (f hubFlags) options() (runs.HubOptions, error) {
	if f.Where != "" {
		if _, err := sink.ParseCondition(f.Where); err != nil {
			return runs.HubOptions{}, Usage("--where %q: %w", f.Where, err)
		}
	}
	return runs.HubOptions{Where: f.Where, License: f.License, Name: f.Title, Created: "hermes " + BuildInfo().Version}, nil
}

// toHub writes the folder of `runs export --format hf`.
func (c *runsExport) toHub(h *host) error {
	if c.Into == "" || c.Parquet {
		return Usage("--format hf: want -o DIR, a folder that does not exist yet, and not --parquet, which it is already")
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	x, err := runs.ExportHub(h.Ctx, dir, c.Into, o)
	if err != nil {
		return inputError(runError(err))
	}
	return h.result(c.JSON, x, "%s: %d rows in %d files (%d accepted, %d filtered)\n", x.Dir, x.Rows, x.Files, x.Accepted, x.Filtered)
}

// runsPush is `hermes runs push`.
type runsPush struct {
	Repo     string `arg:"" name:"owner/name" help:"Dataset of the hub; made where there is none."`
	Name     string `arg:"" name:"run" help:"Run: a name or a path; or a folder that 'runs export --format hf' wrote."`
	Public   bool   `nokey:"" help:"Make a new dataset public (default: private)."`
	Revision string `nokey:"" default:"main" help:"Branch."`
	Message  string `short:"m" nokey:"" default:"Add rollouts" help:"Message of the commit."`
	DryRun   bool   `name:"dry-run" help:"Export and look for secrets; send nothing."`
	hubFlags
	runPlace
}

// Run exports where that is to be done, refuses what holds secrets, and pushes.
func (c *runsPush) Run(h *host) (err error) {
	if owner, name, ok := strings.Cut(c.Repo, "/"); !ok || !hfhub.IsName(owner) || !hfhub.IsName(name) {
		return Usage("%q is no dataset: want owner/name", c.Repo)
	}
	hub := build.Hub(h.Env.Get, false)
	if hub.Token == "" && !c.DryRun {
		return Usage("push to %s: %w", c.Repo, hfhub.ErrNoToken)
	}
	hub.Log = func(text string) { h.Log.Info(text) }
	o, err := c.options()
	if err != nil {
		return err
	}
	folder := c.Name
	if !isExport(c.Name) {
		dir, err := c.dir(c.Name)
		if err != nil {
			return err
		}
		tmp, err := os.MkdirTemp(filepath.Dir(dir), ".hermes-push-*")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
		folder = filepath.Join(tmp, "folder")
		if _, err := runs.ExportHub(h.Ctx, dir, folder, o); err != nil {
			return inputError(runError(err))
		}
	} else if c.hubFlags != (hubFlags{}) {
		return Usage("%s is exported already: --where, --license, --title come too late", c.Name)
	}
	names, err := runs.CheckSecrets(folder, func(text string) bool { return h.Redact.Knows(text) || configs.SecretValue(text) })
	var secrets *runs.SecretsError
	if errors.As(err, &secrets) {
		return Usage("push to %s: nothing was sent: %w\nLeave such rows out with --where, or out of the run", c.Repo, err)
	} else if err != nil {
		return inputError(err)
	}
	var files []hfhub.Upload
	for _, n := range names {
		files = append(files, hfhub.Upload{Path: n, File: filepath.Join(folder, filepath.FromSlash(n))})
	}
	if c.DryRun {
		_, err = fmt.Fprintf(h.Stdio.Out, "%s: %d files would be sent:\n%s\n", c.Repo, len(names), strings.Join(names, "\n"))
		return err
	}
	done, err := hfhub.Push(h.Ctx, hfhub.Datasets, c.Repo, files, hub, hfhub.PushOptions{Private: !c.Public, Revision: c.Revision, Message: c.Message})
	if err != nil {
		return pushError(err)
	}
	return h.result(c.JSON, done, "%s: %d files, %d bytes, commit %s\n%s\n", c.Repo, done.Files, done.Bytes, done.Commit, done.URL)
}

// isExport tells whether a path is a folder for the hub.
func isExport(path string) bool {
	card, err := os.Stat(filepath.Join(path, "README.md"))
	data, derr := os.Stat(filepath.Join(path, "data"))
	return err == nil && derr == nil && card.Mode().IsRegular() && data.IsDir()
}

// pushError gives exit code 2 to a token that may not write.
func pushError(err error) error {
	var s *hfhub.StatusError
	if errors.As(err, &s) && (s.Status == http.StatusUnauthorized || s.Status == http.StatusForbidden) {
		return &Exit{Code: ExitUsage, Err: err}
	}
	return err
}
