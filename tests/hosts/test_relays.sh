#!/usr/bin/env bash
# Promises of jobs with control relays, one on each host (five namespaces): test_relays.sh WORKER
# CROWD BENCH
#   - Ten ranks, in any distribution over the hosts, run all operations in any order, and each
#     element is right.
#   - 60 ranks join, run and leave; 20 ranks do so with fewer connections than without relays.
#   - The end of a process, with a relay in it or without, is reported to all others, and so is a
#     relay that is stopped.
set -u
. "$(dirname "$0")/bed.sh"
worker=$1 crowd=$2 bench=$3
failed=0
fail() { echo "FAILED: $*" >&2; failed=1; }
bed_up 5
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_WORLD_SIZE
export DFCCL_SECRET=0123456789abcdef0123456789abcdef DFCCL_NET_RELAYS=1

# job NAME HOST...: starts one rank on each host that is named, in this order. Only the setting of
# rank 0 is used.
job() {
  local what=$1 rank=0 ranks pids=() pid
  shift
  ranks=$#
  for host; do
    bed_on "$host" env RANK=$rank WORLD_SIZE=$ranks MASTER_ADDR=10.77.0."$1" MASTER_PORT=29500 \
      DFCCL_NET_RELAYS=$((rank == 0)) timeout 120 "$worker" --rounds 3 --seed 7 --largest 20000 \
        >"$work/$rank" 2>&1 &
    pids+=($!)
    rank=$((rank + 1))
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "$what: a rank ended with $?"; done
  for ((rank = 0; rank < ranks; rank++)); do
    grep -q '^through' "$work/$rank" || fail "$what, rank $rank: $(cat "$work/$rank")"
  done
}
job "5 x 2" 1 1 2 2 3 3 4 4 5 5
job "5 x 2, dealt out" 3 1 2 4 5 1 2 3 4 5
job "a rank on each" 1 2 3 4 5

# play NAME EACH ENDS VARIABLE=VALUE...: 5 hosts with EACH ranks in one process each. ENDS: the host
# whose process ends; 0: none.
play() {
  local what=$1 each=$2 ends=$3 host pids=() k
  shift 3
  rm -f "$work/id"
  for host in 1 2 3 4 5; do
    bed_on "$host" env "$@" timeout 120 "$crowd" "$work/id" $(((host - 1) * each)) "$each" \
      $((5 * each)) >"$work/$host" 2>&1 &
    pids+=($!)
  done
  for k in 0 1 2 3 4; do
    wait "${pids[$k]}" ||
      fail "$what: host $((k + 1)) ended with $?: $(head -c 1000 "$work/$((k + 1))")"
    [ $((k + 1)) = "$ends" ] || grep -q "^through $((5 * each)) " "$work/$((k + 1))" ||
      fail "$what, host $((k + 1)): $(head -c 1000 "$work/$((k + 1))")"
  done
}
connections() { sed -n 's/.* \([0-9]*\) descriptors$/\1/p' "$work/4"; }
play "60 ranks" 12 0
play "20 ranks" 4 0
with=$(connections)
play "20 ranks without relays" 4 0 DFCCL_NET_RELAYS=0
without=$(connections)
[ "$((3 * with))" -lt "$((2 * without))" ] || fail "$with descriptors with relays, $without without"
play "a relay ends" 4 4 LEAVES=12
play "another process ends" 4 5 LEAVES=19
play "rank 0 ends" 4 1 LEAVES=0

# stop NAME RANK HOST...: starts one rank on each host that is named, and stops the process of RANK.
# Runs have no limit. All other ranks must be notified, whatever links they have with the rank.
stop() {
  local what=$1 victim=$2 ranks r tries stopped pids=()
  shift 2
  ranks=$#
  rm -f "$work"/*
  for ((r = 0; r < ranks; r++)); do
    bed_on "${@:r+1:1}" env RANK=$r WORLD_SIZE=$ranks MASTER_ADDR=10.77.0.1 MASTER_PORT=29501 \
      DFCCL_NET_TIMEOUT_MS=2000 \
      timeout 60 "$worker" --seed 7 --largest 5000 >"$work/$r" 2>&1 &
    pids+=($!)
  done
  for ((tries = 0; tries < 400; tries++)); do
    [ "$(cat "$work"/? 2>/dev/null | grep -c '^joined')" = "$ranks" ] && break
    sleep 0.05
  done
  [ $tries -lt 400 ] || { fail "$what: not all have joined: $(head -n 3 "$work"/?)"; return; }
  sleep 0.3
  stopped=$(sed -n 's/^begins .*: process //p' "$work/$victim")
  [ -n "$stopped" ] && kill -STOP "$stopped" ||
    fail "$what: rank $victim is not there: $(cat "$work/$victim")"
  for ((r = 0; r < ranks; r++)); do
    [ "$r" != "$victim" ] || continue
    wait "${pids[$r]}" || fail "$what: rank $r ended with $?"
    grep -q "^told .*\\brank $victim\\b" "$work/$r" ||
      fail "$what: rank $r was not notified of rank $victim: $(cat "$work/$r")"
  done
  kill -KILL "$stopped" 2>/dev/null
}
stop "a stopped relay" 2 1 1 2 2 3 3
stop "a stopped rank beside a relay" 1 1 1 2 3

# With hierarchical plans, rank 1 has links with rank 0 only, which is on its host.
pids=()
for r in 0 1 2 3; do
  bed_on $((r < 2 ? 1 : r)) env RANK=$r WORLD_SIZE=4 MASTER_ADDR=10.77.0.1 MASTER_PORT=29502 \
    DFCCL_NET_TIMEOUT_MS=2000 STARTED_BY=$$ \
    timeout 30 "$bench" allreduce --env -a hierarchical -b 64K -e 64K -i 100000 >"$work/bench-$r" \
      2>&1 &
  pids+=($!)
done
sleep 2
# Other tests may have a rank 1 of this program.
stopped=$(for pid in $(pgrep -x dfccl-bench); do
  variables=$(tr '\0' '\n' <"/proc/$pid/environ")
  echo "$variables" | grep -qx "STARTED_BY=$$" && echo "$variables" | grep -qx RANK=1 && echo "$pid"
done | head -n 1)
[ -n "$stopped" ] && kill -STOP "$stopped" ||
  fail "hierarchical: rank 1 is not there: $(cat "$work/bench-1")"
for r in 0 2 3; do
  wait "${pids[$r]}"
  [ $? = 1 ] || fail "hierarchical: rank $r was not notified that rank 1 is stopped"
  grep -q 'rank 1\b' "$work/bench-$r" ||
    fail "hierarchical: rank $r was not notified of rank 1: $(tail -n 3 "$work/bench-$r")"
done
kill -KILL "$stopped" 2>/dev/null
stop "a stopped rank behind a relay" 3 1 1 2 2 3 3
exit $failed
