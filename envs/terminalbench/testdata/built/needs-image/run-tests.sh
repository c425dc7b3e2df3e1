#!/bin/bash
echo "==== short test summary info ===="
if [ "$(sha256sum <copy.txt 2>/dev/null | cut -d' ' -f1)" = "$(cat "$TEST_DIR/made.sha256")" ] && [ -e note.txt ]; then echo "PASSED test_copy"; else echo "FAILED test_copy"; fi
