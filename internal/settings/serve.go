package settings

import (
	"time"
)

// ServeFlags say how environments are served to a trainer.
type ServeFlags struct {
	API                string        `name:"api" default:"http://127.0.0.1:8000" help:"Trajectory server, such as 'hermes run-api'." placeholder:"URL"`
	APITokenEnv        string        `name:"api-token-env" help:"Environment variable that holds the trajectory server's token." placeholder:"NAME"`
	EnvName            string        `name:"env-name" help:"Name to register under (default: the environment's)." placeholder:"NAME"`
	InferenceWeight    float64       `name:"inference-weight" default:"1" help:"Weight among the environments of the trajectory server; those of NAME=WEIGHT share it."`
	MaxTokenLength     int           `name:"max-token-length" default:"2048" range:"1:" help:"Longest sequence that is registered; the trainer's own limit is what counts."`
	MinBatchAllocation *float64      `name:"min-batch-allocation" range:"0:1" help:"Share of each batch that each environment wants." placeholder:"SHARE"`
	OffPolicy          int           `name:"max-batches-offpolicy" default:"3" help:"Batches in the trainer's queue beyond which nothing new is begun; 0 or less: no bound."`
	TotalSteps         int64         `name:"total-steps" default:"0" range:"-1:" help:"Trainer steps after which it ends (default: the trainer's number; -1: never)."`
	StepsPerEval       int64         `name:"steps-per-eval" default:"100" help:"Trainer steps between two evaluations; 0: none."`
	EvalHandling       string        `name:"eval-handling" enum:"STOP_TRAIN,LIMIT_TRAIN,NONE" default:"STOP_TRAIN" help:"Training rollouts during an evaluation: STOP_TRAIN, LIMIT_TRAIN, NONE."`
	EvalLimitRatio     float64       `name:"eval-limit-ratio" default:"0.5" range:"0:1" help:"Share of the rollouts that LIMIT_TRAIN leaves."`
	EvalWorkers        int           `name:"eval-workers" default:"16" range:"1:" help:"Rollouts of an evaluation at once."`
	EvalRows           int64         `name:"eval-rows" default:"64" range:"1:" help:"Rows of the evaluation split that an evaluation uses."`
	LogAfter           int           `name:"log-after" default:"2" range:"1:" help:"Groups sent before metrics are written again."`
	EqualScores        string        `name:"equal-scores" enum:",drop,send,resample" default:"" help:"Groups whose scores are all the same: drop, send, resample (default: as the run file's section training says, else drop)."`
	MaxStaleGroups     int           `name:"max-stale-groups" default:"1000" range:"0:" help:"Groups in a row that no trainer can use (all rewards equal, say), behind which it ends; 0: it never does."`
	SendMessages       bool          `name:"send-messages" help:"Send the conversations with the tokens."`
	GroupsFile         string        `name:"groups-file" help:"Also write the groups that were sent into this file." placeholder:"FILE"`
	Forks              string        `enum:"reject,last" default:"reject" help:"A template that rewrites the past: reject it at the start, or send the last sequence of each sample."`
	Wait               time.Duration `default:"5m" range:"0s:" help:"How long to wait for a trainer at the start."`
	Poll               time.Duration `default:"250ms" range:"1ms:" help:"Time between two looks at the trainer's queue."`
	Shuffle            bool          `help:"Another seeded order of the rows in each epoch."`
	Limit              int64         `help:"Rows of an epoch."`
	Shard              string        `help:"i/n: this process takes part i of the rows and of the weight." placeholder:"I/N"`
}

// Serve is what `hermes env serve` can be given.
type Serve struct {
	Envs []string `arg:"" name:"environment" help:"NAME or NAME=WEIGHT: environments, mixed by weight; may repeat."`
	Set  []string `sep:"none" help:"KEY=VALUE: a setting of the environment; NAME.KEY=VALUE of several; may repeat." placeholder:"KEY=VALUE"`
	ServeFlags
	PartsFlags
	RunFlags  `group:"The run:"`
	RoleFlags `group:"Other models:"`
}

// Batch is what one of the environments is rolled out with.
func (s Serve) Batch() Batch {
	return Batch{PartsFlags: s.PartsFlags, RowFlags: RowFlags{Limit: s.Limit, Shuffle: s.Shuffle, Shard: s.Shard, BadRows: "fail"}, RunFlags: s.RunFlags, RoleFlags: s.RoleFlags}
}
