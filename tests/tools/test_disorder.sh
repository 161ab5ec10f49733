#!/bin/sh
# Promise: bench/peers/disorder runs its programs, prints the result of each job, ends a job that
# hangs, and leaves no process behind. The test runs this library only; the results of others are
# compared by hand.
. "$(dirname "$0")/check.sh"
disorder=$1/bench/peers/disorder
build=$2

run 2 "$disorder" --ranks 1
run 2 "$disorder" --programs backwards
run 0 "$disorder" --build "$build" --libraries dfccl --programs mixed,started,same --iterations 3 \
  --seconds 80
for program in mixed started same; do out_has "^\| $program \| completes \|$"; done
# A true circular wait: each rank waits for the end of one collective before it starts the next. The
# limit of the ranks, half of the driver's, ends it with an error that names a collective.
run 0 "$disorder" --build "$build" --libraries dfccl --programs blocking --iterations 1 --seconds 4
out_has '^\| blocking \| (fails: .*collective [0-9]+|hangs)'
finish
