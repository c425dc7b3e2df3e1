//go:build linux

package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/filter"
	"hermes/backends/slotd/program"
	"hermes/backends/slotd/wire"
	"hermes/internal/build"
)

// callsTime bounds asking about system calls in a box.
const callsTime = time.Minute

// checkCalls asks in a fresh box what becomes of every system call.
func checkCalls(ctx context.Context, b *build.ChosenBackend) checkedRow {
	began := time.Now()
	row := checkedRow{Name: "system calls", Result: "ok"}
	seen, err := seeCalls(ctx, b)
	row.Seconds = time.Since(began).Seconds()
	if err != nil {
		row.Result, row.Text = "skip", err.Error()
		return row
	}
	c := countedCalls{Allowed: len(seen.Allowed), Refused: len(seen.Refused) + len(seen.Other), Absent: len(seen.Absent), Filter: !seen.Open(), Names: []string{}}
	for _, nr := range append(seen.Refused, seen.Other...) {
		c.Names = append(c.Names, filter.Name(nr))
	}
	row.Text = fmt.Sprintf("of the numbers 0 to %d: %d allowed, %d refused, %d do not exist", filter.Highest, c.Allowed, c.Refused, c.Absent)
	if !c.Filter {
		row.Text = "no filter"
	} else {
		c.Beyond = seen.Beyond()
	}
	if b.Kind.Filters && (!c.Filter || len(c.Beyond) > 0) {
		row.Result = "FAIL"
		row.Text += "; allowed, and not by the list: " + strings.Join(c.Beyond, " ")
	}
	row.Calls = &c
	return row
}

// seeCalls brings slotd into a box and has it ask.
func seeCalls(ctx context.Context, b *build.ChosenBackend) (seen filter.Seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, callsTime)
	defer cancel()
	raw, err := slotdProgram()
	if err != nil {
		return seen, err
	}
	box, err := b.Open(ctx, backends.Spec{Labels: boxLabels("check")})
	if err != nil {
		return seen, err
	}
	defer func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		err = errors.Join(err, box.Close(own))
	}()
	if err := box.WriteFile(ctx, wire.Name, raw, 0o755); err != nil {
		return seen, err
	}
	r, err := box.Exec(ctx, backends.Cmd{Argv: []string{"./" + wire.Name, "calls"}, Timeout: callsTime / 2})
	if err != nil {
		return seen, err
	}
	if r.Code != 0 {
		return seen, fmt.Errorf("not asked: exit code %d, %.200s", r.Code, r.Stderr)
	}
	if err := json.Unmarshal(r.Stdout, &seen); err != nil {
		return seen, fmt.Errorf("not asked: %w", err)
	}
	return seen, nil
}

// slotdProgram is slotd as it is brought into boxes; where none is static, this program,
// which is one too.
func slotdProgram() ([]byte, error) {
	path, forget, err := program.Find("", runtime.GOARCH, "hermes-check-")
	if err != nil {
		path, err = os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		return os.ReadFile(path)
	}
	raw, err := os.ReadFile(path)
	return raw, errors.Join(err, forget())
}
