#!/bin/sh
# Promise: if the process of a rank is killed, dfccl-demo reports it and ends with status 1; it
# never hangs.
. "$(dirname "$0")/check.sh"
demo=$1

# children PID: the child processes, from /proc, so that no other package is needed.
children() {
  grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | cut -d / -f 3
}

for engine in '' '--in-order-baseline -c 1'; do
  # shellcheck disable=SC2086
  timeout 60 "$demo" disorder -n 3 -i 100000000 --processes $engine >"$work/out" 2>"$work/err" &
  watched=$!
  launcher='' victim=''
  for _ in $(seq 100); do
    sleep 0.1
    launcher=$(children "$watched" | head -n 1)
    [ -n "$launcher" ] || continue
    victim=$(children "$launcher" | tail -n 1)
    [ -n "$victim" ] && break
  done
  if [ -z "$victim" ]; then
    fail "no rank's process appeared"
    continue
  fi
  sleep 1
  kill -KILL "$victim"
  wait "$watched"
  status=$?
  [ "$status" -eq 1 ] || fail "exit status $status instead of 1 (engine '$engine')"
  err_has "rank [0-2] is gone: its process $victim was killed by signal 9"
done
finish
