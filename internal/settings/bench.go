package settings

import (
	"time"
)

// Bench is what `hermes bench` can be given. What is not given is as the shape has it.
type Bench struct {
	Shape       string         `nokey:"" enum:"plain,tool,long,flight,serve" default:"plain" help:"plain (a user speaks), tool (one call a turn), long (74 kB of context), flight (10,000 at once, 5 s of latency) or serve (env serve: 4,000 at once with exact tokens, posted to a run-api)."`
	Rollouts    *int           `nokey:"" range:"1:" placeholder:"N" help:"Rollouts of a round."`
	Turns       *int           `nokey:"" range:"1:" placeholder:"N" help:"Model answers of each."`
	Context     *int           `nokey:"" name:"context-bytes" range:"1:" placeholder:"N" help:"Mean size of a conversation."`
	Concurrency *int           `nokey:"" aliases:"in-flight" range:"1:" placeholder:"N" help:"Rollouts at once."`
	Rounds      *int           `nokey:"" range:"1:" placeholder:"N" help:"Rounds, of which the figures are medians."`
	Latency     *time.Duration `nokey:"" range:"0s:" help:"With which the model answers."`
	Profile     string         `nokey:"" placeholder:"FILE" help:"Write a CPU profile, for go tool pprof."`
	JSON        bool           `name:"json" nokey:"" help:"One JSON object."`
}
