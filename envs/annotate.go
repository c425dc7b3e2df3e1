package envs

import (
	"context"

	"hermes/trajectory"
)

// Annotator adds what some trainers take beside the rewards of a group: hints, the
// log-probs of a reference model, tokens of a teacher. It is asked once all samples of the
// group are scored; what it returns has one entry for each episode. An error leaves the
// group out.
type Annotator interface {
	Annotate(ctx context.Context, t Task, eps []Episode, scores []trajectory.Score) (GroupNotes, error)
}

// GroupNotes are those of one group.
type GroupNotes struct {
	Samples []Notes
	Group   map[string]any // hints for the group; nil: none
}

// Notes are those of one sample. The lists have one entry for each token of its last
// sequence, or are nil; those for distillation hold any number of tokens of a teacher,
// with their log-probs.
type Notes struct {
	Overrides       map[string]any
	RefLogProbs     []float64
	DistillTokens   [][]int
	DistillLogProbs [][]float64
}
