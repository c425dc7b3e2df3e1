package trajectory

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Key names one sample for ever: the same row, epoch, visit and sample give the
// same key in every run, on every machine, whatever the run is called.
type Key [16]byte

// NewKey hashes a row's id and the place of the sample.
func NewKey(row string, epoch, visit, sample int) Key {
	h := sha256.New()
	var b [8]byte
	for _, n := range []int{len(row), epoch, visit, sample} {
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	h.Write([]byte(row))
	return Key(h.Sum(nil)[:16])
}

// String is the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MarshalText writes the key in hexadecimal digits.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(b []byte) error {
	if n, err := hex.Decode(k[:], b); err != nil || n != len(k) || len(b) != 2*len(k) {
		return fmt.Errorf("key %q: want %d hexadecimal digits", b, 2*len(k))
	}
	return nil
}

// Seed derives the seed of a sample's random choices from the run's seed.
func (k Key) Seed(run int64) uint64 {
	h := sha256.New()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(run))
	h.Write(b[:])
	h.Write(k[:])
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// Outcome is what became of a sample.
type Outcome string

// The outcomes. The table of ARCHITECTURE §5 says which book each enters, see Book.
const (
	Answered    Outcome = "answered"    // the model ended by itself
	Truncated   Outcome = "truncated"   // a limit of turns, tokens, context or tool time
	Malformed   Outcome = "malformed"   // calls that cannot be read, loops
	Filtered    Outcome = "filtered"    // a content filter of the provider cut the answer, or refused
	Faulty      Outcome = "faulty"      // the model broke its own box
	Provider    Outcome = "provider"    // the model server failed, after retries
	Sandbox     Outcome = "sandbox"     // the box was lost, or could not be made
	Environment Outcome = "environment" // the scorer failed
	Internal    Outcome = "internal"    // a bug of ours: a panic
)

// Failure reports whether the outcome is an infrastructure failure: tried again, and
// never a score.
func (o Outcome) Failure() bool {
	switch o {
	case Provider, Sandbox, Environment, Internal:
		return true
	}
	return false
}

// StopReason says which rule ended a loop.
type StopReason string

// The reasons for which a loop ends without an error.
const (
	StopAnswer      StopReason = "answer"
	StopTurns       StopReason = "turn_limit"
	StopTokens      StopReason = "token_limit"
	StopContext     StopReason = "context_limit"
	StopLength      StopReason = "length"
	StopTime        StopReason = "time_limit"
	StopMalformed   StopReason = "malformed"
	StopRepetition  StopReason = "repetition"
	StopFaultyBox   StopReason = "box_broken_by_model"
	StopInterrupted StopReason = "interrupted"
	StopRefused     StopReason = "refused" // content filter
)

// Stop says why a loop ended, with a sentence for people.
type Stop struct {
	Reason StopReason `json:"reason"`
	Detail string     `json:"detail,omitempty"`
}

// Score is what an environment makes of an episode. Reward is the number that
// trains; Parts name its components; Metrics are reported only. Turns are what each answer
// of the model earned, in order, for trainers that pay turns: Reward need not be their sum.
type Score struct {
	Reward  float64            `json:"reward"`
	Parts   map[string]float64 `json:"rewards,omitempty"`
	Turns   []float64          `json:"turn_rewards,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Detail  string             `json:"detail,omitempty"`
	Answer  string             `json:"answer,omitempty"` // what the grader read, in one form: the votes of majorities
}

// Judged is what a model judge did for a sample. Its usage is not part of the sample's.
type Judged struct {
	Model string `json:"model"`
	Asked int    `json:"asked"` // answers, those that could not be read included
	Usage Usage  `json:"usage"`

	Name      string     `json:"name,omitempty"`      // of a member
	Members   []Judged   `json:"members,omitempty"`   // where several judged; the sums above are theirs
	Exchanges []Exchange `json:"exchanges,omitempty"` // the first ones, each text cut to a bound
}

// Exchange is one question to a judge and its answer.
type Exchange struct {
	Prompt string `json:"prompt"`
	Answer string `json:"answer"`
}

// ToolCount counts the uses of one tool.
type ToolCount struct {
	Count   int `json:"count"`
	Success int `json:"success"`
	Failure int `json:"failure"`
}

// Record is all that is kept of one attempt at one sample.
type Record struct {
	Key          Key                  `json:"key"`
	Group        string               `json:"group"`                 // samples of one row share it
	Row          string               `json:"row"`                   // the row's id
	PromptIndex  int64                `json:"prompt_index"`          // the row's place in the dataset
	RowContent   string               `json:"row_content,omitempty"` // the beginning of a hash of what the row asks and how it is judged
	Sample       int                  `json:"sample"`
	Attempt      int                  `json:"attempt"` // from 1
	Outcome      Outcome              `json:"outcome"`
	Reason       string               `json:"reason,omitempty"` // a sentence: what failed, with which value
	Cause        string               `json:"cause,omitempty"`  // a short stable word for reports: rate_limited, box_lost …
	Stop         Stop                 `json:"stop"`
	Score        *Score               `json:"score,omitempty"`
	Model        string               `json:"model,omitempty"`
	Toolsets     []string             `json:"toolsets,omitempty"`
	Dropped      []string             `json:"dropped,omitempty"` // toolsets left out, with --missing-tools drop
	Tools        []ToolSpec           `json:"tools,omitempty"`
	ToolStats    map[string]ToolCount `json:"tool_stats,omitempty"`
	Metadata     json.RawMessage      `json:"metadata,omitempty"` // the row's other keys, untouched
	Scoring      json.RawMessage      `json:"scoring,omitempty"`  // the row's keys by which it is judged (answer, checker …), each cut to a bound
	Extra        json.RawMessage      `json:"extra,omitempty"`    // what this sample's model requests carried beside the run's options
	Started      time.Time            `json:"started"`
	Seconds      float64              `json:"seconds"`
	ModelSeconds float64              `json:"model_seconds,omitempty"`
	ToolSeconds  float64              `json:"tool_seconds,omitempty"`
	Rebought     int                  `json:"rebought,omitempty"` // model answers bought a second time
	Moves        []string             `json:"moves,omitempty"`    // changes of replica or model, with their cause
	Verified     string               `json:"verified,omitempty"` // where a scorer that looks into a box did so: same, fresh, separate
	Notes        []string             `json:"notes,omitempty"`    // deviations that a reader must know
	Usage        Usage                `json:"usage"`
	Judge        *Judged              `json:"judge,omitempty"` // the model that judged it
	Trace        *Trace               `json:"trace,omitempty"`
	Children     []*Record            `json:"children,omitempty"` // sub-agents
}
