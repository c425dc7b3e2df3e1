package bench

import (
	"fmt"
	"strings"
)

// Figures are the result: medians over the rounds. Processor time is of this process
// alone.
type Figures struct {
	Shape      string  `json:"shape"`
	Rollouts   int     `json:"rollouts"`
	Turns      int     `json:"turns"`
	Context    int     `json:"context_bytes"`
	InFlight   int     `json:"in_flight"`
	Rounds     int     `json:"rounds"`
	CPUPerTurn float64 `json:"cpu_us_per_turn"`
	Floor      float64 `json:"floor_us_per_turn,omitempty"` // the same requests by net/http alone; not measured where answers are slow
	CPUEach    float64 `json:"cpu_ms_per_trajectory"`       // written and synced
	PerSecond  float64 `json:"turns_per_second"`
	PeakMB     float64 `json:"peak_mb"`
	Seconds    float64 `json:"seconds"`
	Ideal      float64 `json:"ideal_seconds,omitempty"` // the time of the model alone; 0: it takes none
	Ratio      float64 `json:"ratio,omitempty"`         // Seconds by Ideal
	typedFigures
}

// typedFigures are the figures of those shapes alone.
type typedFigures struct {
	Command string `json:"command,omitempty"` // what was typed
	Request int    `json:"request_bytes,omitempty"`
	// Processor time of the boxes counts too where there are boxes.
	FloorEach   float64 `json:"floor_ms_per_trajectory,omitempty"`
	Times       float64 `json:"times_the_floor,omitempty"`
	ServerTurn  float64 `json:"model_server_us_per_turn,omitempty"` // processor time of the model server
	ServerLimit float64 `json:"model_server_limit,omitempty"`       // answers a second that the bare loop gets of it
	ServerBusy  float64 `json:"model_server_busy,omitempty"`        // share of that which the rollouts took
}

// Lines are the figures for people.
func (f Figures) Lines() string {
	if f.Command != "" {
		return f.typedLines()
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s: %d rollouts of %d turns, %d bytes of context, %d in flight, median of %d rounds\n", f.Shape, f.Rollouts, f.Turns, f.Context, f.InFlight, f.Rounds)
	fmt.Fprintf(&s, "  processor  %.0f µs a turn, %.2f ms a trajectory", f.CPUPerTurn, f.CPUEach)
	if f.Floor > 0 {
		fmt.Fprintf(&s, " (bare net/http: %.0f µs a turn)", f.Floor)
	}
	fmt.Fprintf(&s, "\n  speed      %.0f turns/s, %.2f s", f.PerSecond, f.Seconds)
	if f.Ideal > 0 {
		fmt.Fprintf(&s, ", %.3f × the %.2f s that the model takes", f.Ratio, f.Ideal)
	}
	fmt.Fprintf(&s, "\n  memory     %.0f MB at the peak\n", f.PeakMB)
	return s.String()
}

// typedLines are the figures for people.
func (f Figures) typedLines() string {
	var s strings.Builder
	floor := "bare net/http that reads the stream"
	if f.Shape == "agentic" {
		floor = fmt.Sprintf("bash -c on the host %d times, and one box", f.Turns-1)
	}
	fmt.Fprintf(&s, "%s: %d rollouts of %d turns, requests of %d bytes, %d in flight, median of %d rounds\n", f.Shape, f.Rollouts, f.Turns, f.Request, f.InFlight, f.Rounds)
	fmt.Fprintf(&s, "  command    %s\n", f.Command)
	fmt.Fprintf(&s, "  processor  %.0f µs a turn, %.2f ms a trajectory\n", f.CPUPerTurn, f.CPUEach)
	fmt.Fprintf(&s, "  floor      %.0f µs a turn, %.2f ms a trajectory: %s; the command takes %.2f times that\n", f.Floor, f.FloorEach, floor, f.Times)
	fmt.Fprintf(&s, "  speed      %.0f turns/s, %.2f s", f.PerSecond, f.Seconds)
	if f.Ideal > 0 {
		fmt.Fprintf(&s, ", %.3f × the %.2f s that the model takes", f.Ratio, f.Ideal)
	}
	fmt.Fprintf(&s, "\n  server     %.0f µs a turn of the model server's own processor time; the bare loop gets %.0f answers/s of it: %s\n", f.ServerTurn, f.ServerLimit, bottleneck(f.ServerBusy))
	fmt.Fprintf(&s, "  memory     %.0f MB at the peak\n", f.PeakMB)
	return s.String()
}

// bottleneck says whether the model server was the bottleneck.
func bottleneck(busy float64) string {
	if busy > 0.7 {
		return fmt.Sprintf("it was busy by %.0f %%, and may have been the bottleneck", 100*busy)
	}
	return fmt.Sprintf("it was busy by %.0f %%, and not the bottleneck", 100*busy)
}
