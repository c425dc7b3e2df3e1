package singularity_test

import "testing"

func own(program, image, dir string) int { return 0 }

func TestOne(t *testing.T) {}
