#!/bin/bash
set -eu
tr ' ' '\n' <words.txt | sort -u >unique.tmp
wc -l <unique.tmp | tr -d ' ' >count.txt
awk 'length > n { n = length; w = $0 } END { print w }' unique.tmp >longest.txt
rm unique.tmp
