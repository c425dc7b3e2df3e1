//go:build !linux

package doctor

import (
	"context"
	"errors"
)

// tryNamespaces says that only Linux has namespaces.
func tryNamespaces(context.Context, func(string) (string, error)) (string, error) {
	return "", errors.New("namespaces are a thing of Linux")
}

// cgroups says that only Linux has cgroups.
func cgroups() (string, error) { return "", errors.New("cgroups are a thing of Linux") }
