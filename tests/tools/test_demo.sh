#!/bin/sh
# Promise: dfccl-demo completes the disordered program with no wrong element, in threads and in
# processes, with and without synchronisation, and with processes that share no memory. Its in-order
# baseline deadlocks and reports the circle, as text and in JSON. Exit statuses and JSON keys are
# those of the contract.
. "$(dirname "$0")/check.sh"
demo=$1

keys="list(o) == ['ranks', 'collectives', 'iterations', 'completed', 'wrong', \
  'preemptions_per_block', 'preemptions', 'voluntary_quits_per_rank', 'seconds']"

baseline_keys="${keys%]}, 'deadlock', 'cycle']"

usage_error "$demo"
usage_error "$demo" order
usage_error "$demo" disorder more
usage_error "$demo" disorder -n 0
usage_error "$demo" disorder -n
usage_error "$demo" disorder -c many
usage_error "$demo" disorder --backend tpu
usage_error "$demo" disorder --unknown
usage_error "$demo" disorder -x
usage_error "$demo" disorder --sync=yes
run 0 "$demo" --help
out_has 'usage: dfccl-demo'
run 0 "$demo" --version
out_has '^dfccl-demo [0-9]+\.[0-9]+\.[0-9]+$'

for mode in '' '--sync' '--processes' '--processes --sync'; do
  # shellcheck disable=SC2086 # the modes are lists of words
  run 0 "$demo" disorder -n 4 -c 5 -i 10 --json $mode
  json "$keys"
  json "o['ranks'] == 4 and o['collectives'] == 5 and o['iterations'] == 10"
  json "o['completed'] == 4 * 5 * 10 and o['wrong'] == 0 and o['seconds'] > 0"
done
run 0 env DFCCL_NET=tcp "$demo" disorder -n 4 -c 5 -i 10 --processes --sync --json
json "o['completed'] == 4 * 5 * 10 and o['wrong'] == 0"
run 0 "$demo" disorder -n 1 -c 1 -i 1
out_has '0 of [0-9]+ result elements were wrong'
run 0 "$demo" disorder -n 3 -c 3 -i 3 --seed 42

for mode in '' '--processes' '--sync'; do
  # shellcheck disable=SC2086
  run 3 "$demo" disorder --in-order-baseline $mode
  out_has 'rank [0-7] runs C[0-7] and waits for rank [0-7],'
  out_has 'back to rank [0-7]'
  # shellcheck disable=SC2086
  run 3 "$demo" disorder --in-order-baseline --json $mode
  json "$baseline_keys"
  json "o['completed'] < 8 * 8 * 200 and o['wrong'] == 0 and o['deadlock'] is True"
  # Each rank waits for the next one, and no two neighbours wait for the same collective.
  json "len(o['cycle']) >= 2"
  json "all(list(c) == ['rank', 'waits_for', 'held_by'] for c in o['cycle'])"
  json "all(a['held_by'] == b['rank'] and a['waits_for'] != b['waits_for'] for a, b in
    zip(o['cycle'], o['cycle'][1:] + o['cycle'][:1]))"
  json "o['cycle'][0]['rank'] == min(c['rank'] for c in o['cycle'])"
  err_has 'back to rank [0-7]'
  [ "$(grep -c 'C[0-9] and waits for' "$work/err")" -eq \
    "$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["cycle"]))' \
      "$work/out")" ] || fail "the circles of text and JSON differ"
done
# Each "runs Cx and waits for rank r" is followed by the collective of rank r, and no two neighbours
# run the same collective, so this is a circle.
run 3 "$demo" disorder --in-order-baseline
grep -E ' runs C[0-9]+ and waits for rank ' "$work/out" >"$work/circle"
sed -E 's/.* runs C([0-9]+) and.*/\1/' "$work/circle" | uniq -d >"$work/same"
[ ! -s "$work/same" ] || fail "neighbours in the circle run the same collective"
[ "$(wc -l <"$work/circle")" -ge 2 ] || fail "the circle has fewer than two ranks"
first=$(sed -nE '1s/^ *rank ([0-9]+) runs.*/\1/p' "$work/circle")
tail -n 1 "$work/circle" | grep -q "back to rank $first\." || fail "the circle is not closed"

run 0 "$demo" disorder --in-order-baseline -c 1 -i 5 --json
json "o['completed'] == 8 * 5 and o['wrong'] == 0"
json "o['deadlock'] is False and o['cycle'] == []"
run 0 "$demo" disorder --in-order-baseline -n 1 -i 5 --json
json "o['completed'] == 8 * 5"

# A run whose output is lost has failed, whatever its result.
lost_output "$demo" --help
lost_output "$demo" --version
for mode in '' '--json' '--processes' '--in-order-baseline' '--in-order-baseline --json'; do
  # shellcheck disable=SC2086
  lost_output "$demo" disorder -n 2 -i 1 $mode
done
lost_output "$demo" disorder --in-order-baseline
finish
