// Package datasets reads rows: JSONL (plain, gzip, zstd), JSON arrays, Parquet, CSV,
// stdin and dataset repositories, one [Row] a task.
package datasets

import (
	"encoding/json"
	"fmt"

	"hermes/trajectory"
)

// Row is one task of a dataset, mapped to the keys of CONTRACT §3.
type Row struct {
	ID       string // explicit, or index plus a hash of the content
	Explicit bool   // the row named its id itself
	Index    int64  // place in the dataset, from 0
	Line     int64  // line of the file, from 1; 0 where there are no lines
	File     string

	Task    string               // the key that gave the task
	Prompt  []trajectory.Message // the task: usually one user message
	Hermes  Overrides
	Scoring Scoring
	Extra   map[string]json.RawMessage // everything else, untouched
}

// Overrides is the key `hermes` of a row (with the aliases docker_image and cwd).
type Overrides struct {
	Image     string               `json:"image,omitempty"`
	Cwd       string               `json:"cwd,omitempty"`
	Files     map[string]string    `json:"files,omitempty"`
	Env       map[string]string    `json:"env,omitempty"`
	Toolsets  []string             `json:"toolsets,omitempty"`
	Network   []string             `json:"network,omitzero"`    // nil: as the operator lets boxes out; else no more than that, nothing when it is empty
	Artifacts []string             `json:"artifacts,omitempty"` // files and folders to keep of the box
	Verify    Verify               `json:"verify,omitzero"`     // where the task is scored
	Processes string               `json:"processes,omitempty"` // keep: what the model left running is not ended before the task is scored
	System    *string              `json:"system,omitempty"`
	Prefill   []trajectory.Message `json:"-"`
	Script    json.RawMessage      `json:"script,omitempty"` // assistant turns for the scripted model
}

// Verify says in which box a task is scored: same, fresh or separate; empty: as the run
// says.
type Verify struct {
	Mode  string   `json:"mode,omitempty"`
	Image string   `json:"image,omitempty"` // of separate
	Paths []string `json:"paths,omitempty"` // what is copied into another box; nil: the working folder
}

// Scoring holds the keys from which graders are made.
type Scoring struct {
	Answer        json.RawMessage `json:"answer,omitempty"`
	Expected      json.RawMessage `json:"expected,omitempty"`
	ExpectedTools json.RawMessage `json:"expected_tools,omitempty"`
	Rubric        json.RawMessage `json:"rubric,omitempty"`
	Checker       json.RawMessage `json:"checker,omitempty"` // shell text or argv, run in the box: exit 0 passes
	GroundTruth   json.RawMessage `json:"ground_truth,omitempty"`
	Solution      json.RawMessage `json:"solution,omitempty"`
}

// RowError is a row that cannot be used. The rows after it can.
type RowError struct {
	File string
	Line int64 // from 1; 0: the format has no lines
	Row  int64 // from 0
	Err  error
}

func (e *RowError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: row %d: %v", e.File, e.Row, e.Err)
}

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }
