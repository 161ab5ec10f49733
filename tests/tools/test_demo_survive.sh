#!/bin/sh
# Promise: dfccl-demo survive goes on while ranks are killed, until two are left, and while they
# join again, and no element is wrong. It prints one line for each view; keys and exit statuses are
# those of the contract. With --survive 1 no run fails. A rank that ends by itself makes the demo
# fail.
. "$(dirname "$0")/check.sh"
demo=$1

usage_error "$demo" survive more
usage_error "$demo" survive -n 2
usage_error "$demo" survive -n 65
usage_error "$demo" survive --survive 0
usage_error "$demo" survive --survive 3
usage_error "$demo" survive --interval -1
usage_error "$demo" survive --interval
usage_error "$demo" survive --sync
err_has 'option --sync is for disorder only'
usage_error "$demo" survive -c 4
usage_error "$demo" survive --env
usage_error "$demo" survive --backend cuda
usage_error "$demo" disorder --interval 3
err_has 'option --interval is for survive only'
usage_error "$demo" disorder --survive 1

for survive in 1 2; do
  run 0 "$demo" survive -n 5 --interval 20 --survive $survive --json
  json "list(o) == ['ranks', 'views', 'lost', 'joined', 'runs', 'repeated', 'failed', 'wrong', \
    'ms_to_view_max', 'ms_to_run_max', 'ms_to_join_max']"
  json "(o['ranks'], o['lost'], o['joined'], o['wrong']) == (5, 3, 3, 0) and o['views'] >= 6"
  json "o['runs'] > 0 and 0 < o['ms_to_view_max'] < o['ms_to_run_max']"
  json "o['failed'] == 0 or $survive == 2"
done

# One line for each view, and each rank at most once.
run 0 "$demo" survive -n 4 --interval 0 --seed 3
out_has '^4 ranks \(processes\) run 6 all-reduces'
out_has '^[0-9]+ runs ended well on 4 ranks, 0 failed; 0 result elements were wrong\.$'
out_has '^2 ranks were lost, 2 joined; 4 are members\.$'
number='[0-9]+\.[0-9][0-9]'
grep -E "^ +[12] +[0-3]  its process ended   +$number +$number( +[0-9]+){2} +0 +0\$" "$work/out" \
  >"$work/lines"
[ "$(awk '{print $1}' "$work/lines" | xargs)" = '1 2' ] || fail "not one line for each view"
[ "$(awk '{print $2}' "$work/lines" | sort -u | wc -l)" -eq 2 ] || fail "a rank is lost twice"
grep -E "^ +[0-9]+ +[0-3]  it has joined       +$number +$number( +0){4}\$" "$work/out" \
  >"$work/joined"
[ "$(awk '{print $2}' "$work/joined" | sort)" = "$(awk '{print $2}' "$work/lines" | sort)" ] ||
  fail "not each lost rank has joined again"

# A rank that somebody else kills: the demo ends with status 1.
children() {
  grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | cut -d / -f 3
}
"$demo" survive -n 3 --interval 60000 >"$work/out" 2>"$work/err" &
launcher=$! victim=''
for _ in $(seq 100); do
  victim=$(children "$launcher" | tail -n 1)
  [ -n "$victim" ] && break
  sleep 0.1
done
kill -KILL "$victim"
wait "$launcher"
status=$?
[ "$status" -eq 1 ] || fail "exit status $status instead of 1"
err_has 'rank [0-2] was killed by signal 9 .*, not by the demo'

lost_output "$demo" survive -n 3 --interval 0
lost_output "$demo" survive -n 3 --interval 0 --json
finish
