#!/usr/bin/env bash
# Promises of hierarchical plans across hosts (four namespaces): test_levels.sh WORKER
#   - On 4 hosts with 2 ranks each, with one lane and with two, and on hosts of 3, 2 and 1 ranks,
#     all operations are right, whether or not the ranks of a host have neighbouring numbers, and in
#     any order of the collectives.
set -u
. "$(dirname "$0")/bed.sh"
worker=$1
failed=0
fail() { echo "FAILED: $*" >&2; failed=1; }
bed_up 4
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_WORLD_SIZE
secret=DFCCL_SECRET=0123456789abcdef0123456789abcdef

# table LANES: the algorithm is hierarchical for all collectives.
table() {
  echo "dfccl-tuning 1"
  local operation
  for operation in allreduce reduce broadcast allgather reducescatter alltoall; do
    echo "$operation * * any hierarchical"
  done
  echo "set lanes $1"
}
for lanes in 1 2; do table $lanes >"$work/lanes$lanes"; done

# job NAME LANES HOST...: starts one rank on each host that is named, in this order.
job() {
  local what=$1 lanes=$2 rank=0 ranks pids=() pid
  shift 2
  ranks=$#
  for host; do
    bed_on "$host" env RANK=$rank WORLD_SIZE=$ranks MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
      $secret \
      DFCCL_TUNING="$work/lanes$lanes" timeout 120 "$worker" --rounds 3 --seed 7 --largest 50000 \
        >"$work/$rank" 2>&1 &
    pids+=($!)
    rank=$((rank + 1))
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "$what, $lanes lanes: a rank ended with $?"; done
  for ((rank = 0; rank < ranks; rank++)); do
    grep -q '^through' "$work/$rank" || fail "$what, $lanes lanes, rank $rank: $(cat "$work/$rank")"
  done
}

job "4 x 2" 1 1 1 2 2 3 3 4 4
job "4 x 2" 2 1 1 2 2 3 3 4 4
job "4 x 2, dealt out" 2 1 2 3 4 1 2 3 4
job "3 + 2 + 1" 1 1 1 1 2 2 3
job "3 + 2 + 1, mixed" 1 1 2 1 3 2 1
job "3 + 2, mixed" 2 1 2 1 1 2
exit $failed
