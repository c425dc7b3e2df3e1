package modal_test

func own(server, slotd string) int { return 1 }
