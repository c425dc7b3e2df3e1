//go:build !linux

package cmd

import (
	"context"
	"fmt"
	"runtime"

	"hermes/internal/build"
)

// checkCalls leaves the row out: only a hermes on Linux has the list of the filter.
func checkCalls(context.Context, *build.ChosenBackend) checkedRow {
	return checkedRow{Name: "system calls", Result: "skip", Text: fmt.Sprintf("this check needs hermes on Linux; this is %s", runtime.GOOS)}
}
