#!/usr/bin/env bash
# Promises of --env: test_tools.sh DEMO BENCH: ranks of three hosts, started by hand, run the demonstration and the
# benchmark; rank 0 alone prints; every element is right; the number of ranks is the launcher's.
set -u
. "$(dirname "$0")/bed.sh"
demo=$1 bench=$2
work=$(mktemp -d)
bed_up 3
trap 'bed_down; rm -rf "$work"' EXIT
unset LOCAL_WORLD_SIZE
fail() { echo "$*" >&2; cat "$work"/* >&2; exit 1; }

# Six ranks, two on each host; rank R's output goes to R.
job() {
  local rank pids=() status=0 pid
  for rank in 5 4 3 2 1 0; do
    bed_on $((rank / 2 + 1)) env RANK=$rank WORLD_SIZE=6 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
      DFCCL_SECRET=0123456789abcdef0123456789abcdef timeout 100 "$@" >"$work/$rank" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}
silent() { [ -z "$(cat "$work"/[1-5])" ] || fail "$1: another rank than 0 has printed"; }

job "$demo" disorder --env -i 10 --json || fail "the demonstration failed"
grep -q '"ranks": *6,.*"completed": *480,.*"wrong": *0,' <(tr -d '\n\t' <"$work/0") || fail "the demonstration's report"
silent demonstration
job "$bench" allgather --env -b 64 -e 64K -f 32 -i 5 || fail "the benchmark failed"
[ "$(grep -cE '^ +[0-9]+ ' "$work/0")" = 3 ] && grep -q "ranks 6" "$work/0" || fail "the benchmark's table"
silent benchmark
job "$bench" allreduce --env -n 2
grep -q "the launcher says how many ranks" "$work/0" || fail "-n beside --env"
echo "demonstration and benchmark on three hosts"
