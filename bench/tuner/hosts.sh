#!/usr/bin/env bash
# Runs bench-tuner-grid between hosts that are network namespaces, with links of
# a limited rate (tests/hosts/bed.sh; needs root).
#
#   bench/tuner/hosts.sh BENCH RANKS RATE grid ARGUMENTS...
#       runs a grid with RANKS ranks on each of two hosts (HOSTS=4: of four)
#   bench/tuner/hosts.sh BENCH RANKS RATE change LATER BYTES
#       runs an all-reduce of BYTES 10,000 times. The rate of the links changes
#       to LATER at run 5,000. A second job then begins at the rate LATER. The
#       lines "# changed" and "# from scratch" precede the runs of each job.
#       tuner/svg.py reached prints the result, and tuner/svg.py change draws it.
set -u
case "${1-}" in -h|--help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -ge 6 ] || { echo "bench/tuner/hosts.sh: six words are needed (see --help)" >&2; exit 2; }
bench=$1 each=$2 rate=$3 mode=$4
shift 4
. "$(dirname "$0")/../tests/hosts/bed.sh"
hosts=${HOSTS:-2}
bed_up "$hosts" "$rate"
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT

# Rank R is on host R / each. Rank 0 prints.
job() {
  local rank pids=() status=0 pid
  for ((rank = hosts * each - 1; rank >= 0; rank--)); do
    bed_on $((rank / each + 1)) env RANK=$rank WORLD_SIZE=$((hosts * each)) MASTER_ADDR=10.77.0.1 \
      MASTER_PORT=29500 \
      DFCCL_NET_INTERFACES=rail0 DFCCL_SECRET=0123456789abcdef0123456789abcdef timeout 300 "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}

set_rate() {
  for ((i = 1; i <= hosts; i++)); do
    tc -n "$bed_name-$i" qdisc change dev rail0 root tbf rate "$1" burst 256kb latency 20ms
  done
}

if [ "$mode" = grid ]; then
  job "$bench" grid --env "$@"
  exit
fi
later=$1 bytes=$2
echo "# changed: all-reduce of $bytes bytes, $((hosts * each)) ranks on $hosts hosts;" \
  "$rate, from run 5,000 on $later"
(until [ -e "$work/now" ]; do sleep 0.002; done; set_rate "$later"; rm "$work/now") &
job "$bench" change --env --most "$bytes" --signal "$work/now"
set_rate "$later"
echo "# from scratch: the same under $later"
job "$bench" change --env --most "$bytes"
