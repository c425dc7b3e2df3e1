package viewer

import (
	"encoding/json"

	"hermes/rollout/artifact"
	"hermes/rollout/diff"
	"hermes/trajectory"
)

// command is one command of the scorer, with what it wrote.
type command struct {
	Name     string   `json:"name"`
	Shell    string   `json:"shell,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	Code     int      `json:"exit_code"`
	TimedOut bool     `json:"timed_out"`
	Seconds  float64  `json:"seconds"`
	Stdout   string   `json:"stdout"`
	Stderr   string   `json:"stderr"`
}

const (
	mostCommands = 20
	mostOutput   = 64 << 10 // bytes of what one command wrote to one stream
)

// scorer reads what the scorer of a sample ran. It is empty where no artifacts were kept, or
// where they are those of another attempt.
func (s *opened) scorer(rec *trajectory.Record) []command {
	raw, err := s.readArtifact(rec, "score.json")
	if err != nil {
		return nil
	}
	var kept struct {
		Attempt int       `json:"attempt"`
		Scorer  []command `json:"scorer"`
	}
	if json.Unmarshal(raw, &kept) != nil || kept.Attempt != rec.Attempt {
		return nil
	}
	list := kept.Scorer[:min(len(kept.Scorer), mostCommands)]
	for i, c := range list {
		list[i].Stdout, list[i].Stderr = s.output(rec, c.Name, "stdout"), s.output(rec, c.Name, "stderr")
	}
	return list
}

// output is what a command of the scorer wrote to a stream.
func (s *opened) output(rec *trajectory.Record, name, stream string) string {
	b, err := s.readArtifact(rec, artifact.FileName(name)+"."+stream)
	switch {
	case err != nil:
		return ""
	case diff.Binary(b):
		return "(no text)"
	case len(b) > mostOutput:
		return string(b[:mostOutput]) + "\n(the rest is among the artifacts)"
	}
	return string(b)
}
