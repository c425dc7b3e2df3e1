//go:build race

package singularity_test

const raced = true
