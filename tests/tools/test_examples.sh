#!/bin/sh
# Promise: the small examples run and print the documented output.
. "$(dirname "$0")/check.sh"

run 0 "$1"
out_has '^rank 0: 11 \.\.\. 44$'
out_has '^rank 1: 11 \.\.\. 44$'
run 0 "$2"
out_has '^rank 1, collective 1: ran 10 times, result 3$'
[ "$(wc -l <"$work/out")" -eq 4 ] || fail "not four lines"
run 0 "$3"
out_has '^rank 0, process [0-9]+: the last element is 2997$'
out_has '^rank 1, process [0-9]+: the last element is 2997$'
finish
