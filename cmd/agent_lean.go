//go:build lean

package cmd

// agentCmds are the commands of the agent: none in a build that only rolls out.
type agentCmds struct{}
