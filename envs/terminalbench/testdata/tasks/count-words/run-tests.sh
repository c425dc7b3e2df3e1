#!/bin/bash
set -u
source "$TEST_DIR/lib.sh"
echo "==================== short test summary info ===================="
check test_count count.txt 6
check test_longest longest.txt banana
check test_untouched words.txt "$(cat "$TEST_DIR/words.expected")"
exit "$bad"
