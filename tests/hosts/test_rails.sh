#!/usr/bin/env bash
# Promises of rails, two networks of limited speed between two hosts: test_rails.sh WORKER BENCH
#   - Large messages use both rails, and the faster one more. DFCCL_NET_RAILS=1 does not use the
#     second rail.
#   - If the first or the second rail fails for good, collectives only pause, and continue on the
#     other rail. Every element is right.
#   - A rail that is restored is used again. All networks may fail for less than the silence limit.
#     A rail that loses long packets causes pauses only.
set -u
. "$(dirname "$0")/bed.sh"
worker=$1 bench=$2
failed=0
fail() { echo "FAILED: $*" >&2; failed=1; }
bed_up 2 200mbit
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT
unset LOCAL_WORLD_SIZE

limit() { # RATE RAIL...: limits the rate at which each host sends
  local host rail rate=$1
  shift
  for rail in "$@"; do
    for host in 1 2; do
      tc -n "$bed_name-$host" qdisc change dev "rail$rail" root tbf rate "$rate" burst 256kb \
        latency 20ms
    done
  done
}
sent() { # RAIL [HOST]: the megabytes that the host (default: 1) has sent through the rail
  local bytes
  bytes=$(ip -n "$bed_name-${2:-1}" -s -o link show "rail$1" |
    sed 's/.*TX:[^\\]*\\ *\([0-9]*\).*/\1/')
  echo $((bytes / 1000000))
}
# Starts a rank on each host. The output of the ranks goes to NAME-0 and NAME-1.
begin() { # NAME VARIABLE=VALUE... -- COMMAND...
  name=$1 pids=() before=("$(sent 0)" "$(sent 1)")
  local variables=() rank
  shift
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  for rank in 0 1; do
    bed_on $((rank + 1)) env RANK=$rank WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
      DFCCL_NET_INTERFACES=rail0,rail1 DFCCL_NET_TIMEOUT_MS=6000 \
      DFCCL_SECRET=0123456789abcdef0123456789abcdef "${variables[@]}" \
      timeout 100 "$@" >"$work/$name-$rank" 2>&1 &
    pids+=($!)
  done
}
end() {
  local rank
  for rank in 0 1; do
    wait "${pids[$rank]}" ||
      fail "$name: rank $rank ended with status $?: $(cat "$work/$name-$rank")"
    grep -E '^(left|wrong|told)' "$work/$name-$rank" && fail "$name: rank $rank reports this"
  done
  first=$(($(sent 0) - before[0])) second=$(($(sent 1) - before[1]))
  echo "$name: $first and $second MB"
}
large=("$bench" sendrecv --env -b 8M -e 8M -i 4 -w 1)

begin even -- "${large[@]}"
end
[ "$first" -gt 10 ] && [ $((second * 2)) -gt "$first" ] && [ $((first * 2)) -gt "$second" ] ||
  fail "equal rails have unequal shares"

begin one DFCCL_NET_RAILS=1 -- "${large[@]}"
end
[ "$second" = 0 ] || fail "DFCCL_NET_RAILS=1 uses two rails"

limit 50mbit 1
begin uneven DFCCL_NET_SECURITY=integrity -- "${large[@]}"
end
[ "$second" -gt 2 ] && [ "$first" -gt $((2 * second)) ] ||
  fail "a rail of a quarter of the speed does not have a smaller share"
limit 200mbit 1

for rail in 1 0; do
  begin "cut$rail" -- "$worker" --largest 4000000 --seconds 12
  sleep 2
  bed_cut 2 $rail
  end
  bed_join 2 $rail
done
# The rate is so low that one rail alone delays the ranks. Otherwise the other one might not be
# used.
limit 50mbit 0 1
begin back DFCCL_NET_TIMEOUT_MS=3000 -- "$worker" --largest 4000000 --seconds 18
sleep 2
bed_cut 2 0
sleep 3
bed_join 2 0
sleep 6
again=$(($(sent 0) + $(sent 0 2))) other=$(($(sent 1) + $(sent 1 2)))
sleep 4
again=$(($(sent 0) + $(sent 0 2) - again)) other=$(($(sent 1) + $(sent 1 2) - other))
end
[ "$again" -gt 0 ] && [ $((again * 4)) -gt "$other" ] ||
  fail "a rail that has come back carries $again MB while the other one carries $other"
limit 200mbit 0 1

# A loss is noticed after a third of the silence limit. The rest of the limit remains for the
# recovery.
begin silence DFCCL_NET_RESUME_MS=500 -- "$worker" --largest 100000 --seconds 8
sleep 2
for rail in 0 1; do bed_cut 2 $rail; done
sleep 3
for rail in 0 1; do bed_join 2 $rail; done
end

# The second rail loses long packets, but no short ones.
for host in 1 2; do
  bed_on $host ip link set rail1 mtu 9000
  bed_on $host ip link set rail1 gso_max_segs 1
done
runs_of() { sed -n 's/^through [0-9]*: \([0-9]*\) runs.*/\1/p' "$work/$1-0"; }
begin hole -- "$worker" --largest 4000000 --seconds 8
end
# The same with one rail says what this machine can do. A run that waits for a lost packet takes
# 0.2 s and more (TCP's least timeout), so without the mending of rails there are about 40 runs.
begin whole DFCCL_NET_RAILS=1 -- "$worker" --largest 4000000 --seconds 4
end
hole=$(runs_of hole) whole=$(runs_of whole)
echo "with a rail that loses long packets ${hole:-0} runs in 8 s; with one rail ${whole:-0} in 4 s"
[ "${whole:-0}" -gt 0 ] && [ $((${hole:-0} * 2)) -gt "$whole" ] ||
  fail "a rail that loses long packets delays the runs"
[ "$failed" = 0 ] && echo "two rails"
exit $failed
