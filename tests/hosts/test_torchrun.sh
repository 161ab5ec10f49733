#!/usr/bin/env bash
# Promises of torch.distributed across hosts (two namespaces): test_torchrun.sh [PYTHON]
#   - With torchrun on two hosts, two ranks each, and the backend dfccl, the example of
#     bindings/python has the losses of four ranks on one host. The program is the same, and needs
#     no setting of the library.
#   - If a host is disconnected in the middle, the ranks of both hosts end, also those that have
#     lost torch's store, and those of the first host name a lost rank. These ranks are started by
#     hand: torchrun would wait for the other host for a minute.
# The test is skipped (77) without the rights, or without a PYTHON that has torch and dfccl, as the
# lane python of scripts/test has.
set -u
. "$(dirname "$0")/bed.sh"
python=${1:-python3}
programs=$(cd "$(dirname "$0")/../../bindings/python" && pwd)
"$python" -c 'import torch, dfccl.torch' 2>/dev/null || bed_skip "$python has no torch, or no dfccl"
bed_up 2
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_WORLD_SIZE
fail() { echo "FAILED: $*" >&2; tail -n 40 "$work"/* >&2; exit 1; }

# NAME PROGRAM SECONDS: the output goes to NAME1 and NAME2, the statuses to s1 and s2
on_both() {
  local host pids=()
  for host in 1 2; do
    bed_on $host timeout "$3" "$python" -m torch.distributed.run --nnodes 2 --nproc-per-node 2 \
      --node-rank $((host - 1)) --master-addr 10.77.0.1 --master-port 29500 "$2" >"$work/$1$host" \
        2>&1 &
    pids[host]=$!
  done
  wait "${pids[1]}"; s1=$?
  wait "${pids[2]}"; s2=$?
}

on_both ddp "$programs/examples/torch/ddp.py" 120
[ $s1 = 0 ] && [ $s2 = 0 ] || fail "torchrun on two hosts ended with $s1 and $s2"
timeout 120 "$python" -m torch.distributed.run --standalone --nproc-per-node 4 \
  "$programs/examples/torch/ddp.py" \
  >"$work/alone" 2>&1 || fail "torchrun on one host"
[ "$(grep -c '^step' "$work/ddp1")" = 4 ] || fail "the losses are missing"
[ "$(grep '^step' "$work/ddp1")" = "$(grep '^step' "$work/alone")" ] ||
  fail "two hosts have other losses than one"

cat >"$work/forever.py" <<'PROGRAM'
import torch, torch.distributed as dist
dist.init_process_group("dfccl")
for step in range(10**9):
    dist.all_reduce(torch.ones(100))
    if step == 100 and dist.get_rank() == 0:
        print("on its way", flush=True)
PROGRAM
{
  until grep -q 'on its way' "$work/cut0" 2>/dev/null; do sleep 0.1; done
  bed_cut 2 0
  bed_cut 2 1
} &
cutter=$!
export DFCCL_NET_TIMEOUT_MS=2000
ranks=()
for rank in 0 1 2 3; do
  bed_on $((rank / 2 + 1)) env RANK=$rank WORLD_SIZE=4 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
    timeout 100 "$python" "$work/forever.py" >"$work/cut$rank" 2>&1 &
  ranks+=($!)
done
for rank in 0 1 2 3; do
  wait "${ranks[$rank]}"
  status=$?
  [ $status != 0 ] && [ $status != 124 ] || fail "rank $rank of a cut job ended with $status"
done
kill "$cutter" 2>/dev/null
for rank in 0 1; do
  grep -qE 'RemoteError: .*rank [23] ' "$work/cut$rank" ||
    fail "rank $rank does not name a rank that was lost"
done
