#!/usr/bin/env bash
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promise: test_top.sh TOP WORKER: dfccl-top sees the ranks of two hosts from each of them, and names
# the rank and the collective if a rank of the other host is stopped, dead, slow, or has not
# registered or not run a collective, and if threads of both hosts wait in a circle. A rank with
# DFCCL_VIEW=0 is shown as closed.
set -u
. "$(dirname "$0")/bed.sh"
top=$1 worker=$2
bed_up 2
work=$(mktemp -d)
pids=() shells=()
end_job() {
  ((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null
  ((${#shells[@]} == 0)) || wait "${shells[@]}" 2>/dev/null
  pids=() shells=()
}
trap 'kill -KILL "${pids[@]}" 2>/dev/null; bed_down; rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 50 "$work"/* >&2
  exit 1
}

# job SITUATION [VARIABLE=VALUE]: ranks 0 and 2 on host 1, ranks 1 and 3 on host 2. The variable is
# rank 3's. pids: the ranks' processes. The sockets of a host are in its own /dev/shm.
job() {
  local rank tries=0
  end_job
  rm -f "$work"/rank.*
  for rank in 0 1 2 3; do
    bed_on $((rank % 2 + 1)) env RANK=$rank WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 \
      MASTER_PORT=29500 DFCCL_SECRET=0123456789abcdef0123456789abcdef XDG_RUNTIME_DIR=/dev/shm \
      ${2:+$([ $rank = 3 ] && echo "$2")} "$worker" "$1" >"$work/rank.$rank" 2>&1 &
    shells[rank]=$!
  done
  while [ "$(cat "$work"/rank.* | grep -c '^rank ')" -lt 4 ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "the ranks did not start"
    sleep 0.05
  done
  for rank in 0 1 2 3; do pids[rank]=$(sed -n 's/^rank . //p' "$work/rank.$rank"); done
}

# sees HOST RANK EXPRESSION...: dfccl-top on the host, by the process of the rank, prints an object
# for which the expressions hold, once the ranks have come to their situation.
sees() {
  local host=$1 process=${pids[$2]} tries=0
  shift 2
  until bed_on "$host" env XDG_RUNTIME_DIR=/dev/shm timeout 100 "$top" --json "$process" \
    >"$work/out" 2>"$work/err" && python3 - "$work/out" "$@" <<'PYTHON'; do
import json, sys
o = json.load(open(sys.argv[1]))
v, ranks = o["verdict"], o["ranks"]
sys.exit(not all(eval(e) for e in sys.argv[2:]))
PYTHON
    tries=$((tries + 1))
    [ $tries -lt 20 ] || fail "host $host never sees: $*"
  done
}
verdict() { # KIND RANKS COLLECTIVE: an expression
  echo "v['kind'] == '$1' and v['ranks'] == $2 and v['collective'] == $3"
}

job busy
for host in 1 2; do
  sees $host $((host - 1)) "[r['host'] for r in ranks] == ['host1', 'host2'] * 2" \
    "[r['pid'] for r in ranks] == [${pids[0]}, ${pids[1]}, ${pids[2]}, ${pids[3]}]" \
    "all(r['state'] == 'running' and r['name'] == 'gradients' and r['runs_per_s'] > 0 for r in ranks)"
done
kill -STOP "${pids[3]}"
sees 1 0 "$(verdict stopped '[3]' "'7'")" "ranks[3]['state'] == 'silent' and ranks[3]['host'] == 'host2'"
sees 2 1 "$(verdict stopped '[3]' "'7'")" "ranks[3]['pid'] == ${pids[3]}"
kill -CONT "${pids[3]}"
sees 1 0 "ranks[3]['state'] == 'running'"
job late
sees 2 1 "$(verdict slow '[2]' "'7'")" "ranks[2]['late_ms'] > 10"
job registration
sees 2 1 "$(verdict missing '[2]' "'7'")" "v['registration']"
job run
sees 2 3 "$(verdict missing '[2]' "'7'")" "not v['registration']" "ranks[2]['state'] == 'idle'"
kill -KILL "${pids[2]}"
sees 2 3 "ranks[2]['state'] == 'gone'" "all(ranks[r]['state'] == 'broken' for r in (0, 1, 3))" \
  "v['kind'] == 'stopped' and v['ranks'] == [2] and 'rank 2 died' in v['sentence']"
job circle DFCCL_VIEW=0
sees 2 1 "$(verdict circle '[0, 1]' "'10'")" "ranks[3]['state'] == 'closed'"
sees 1 2 "$(verdict circle '[0, 1]' "'10'")" "ranks[3]['state'] == 'closed'"
end_job
echo "dfccl-top on two hosts"
