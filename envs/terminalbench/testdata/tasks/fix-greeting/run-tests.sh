#!/bin/bash
echo "SWEBench results starts here"
bash "$TEST_DIR/cases.sh"
echo "SWEBench results ends here"
