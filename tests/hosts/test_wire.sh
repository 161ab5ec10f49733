#!/usr/bin/env bash
# Promises of a wire with delay, jitter, loss and cuts (wire.c, between two namespaces):
# test_wire.sh WORKER WIRE
#   - The wire follows its options: it loses packets, reorders them, and transmits nothing during a
#     cut.
#   - Disordered collectives over it complete, and every element is right, with loss and with cuts,
#     also with encryption.
#   - A cut that is longer than DFCCL_NET_TIMEOUT_MS is reported to both hosts.
set -u
. "$(dirname "$0")/bed.sh"
worker=$1 wire=$2
failed=0
fail() { echo "FAILED: $*" >&2; failed=1; }
bed_up 2
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT
unset LOCAL_WORLD_SIZE
[ -c /dev/net/tun ] || bed_skip "there is no /dev/net/tun"

# play NAME VARIABLE=VALUE... -- OPTION...: starts a rank on each host. The output goes to NAME-0
# and NAME-1.
play() {
  local name=$1 variables=() rank pids=()
  shift
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  for rank in 0 1; do
    bed_on $((rank + 1)) env RANK=$rank WORLD_SIZE=2 MASTER_ADDR=10.78.0.1 MASTER_PORT=29500 \
      DFCCL_NET_INTERFACES==wire0 \
      DFCCL_SECRET=0123456789abcdef0123456789abcdef "${variables[@]}" timeout 100 "$worker" "$@" \
        >"$work/$name-$rank" 2>&1 &
    pids+=($!)
  done
  for rank in 0 1; do
    wait "${pids[$rank]}" ||
      fail "$name: rank $rank ended with status $?: $(cat "$work/$name-$rank")"
  done
}
says() { # NAME WORD...
  local rank
  for rank in 0 1; do
    grep -q "^$2" "$work/$1-$rank" ||
      fail "$1: rank $rank does not say '$2': $(cat "$work/$1-$rank")"
    grep -E '^(left|wrong)' "$work/$1-$rank" && fail "$1: rank $rank reports this"
  done
}
counted() { # NAME: the wire's counts, in carried, lost, overtook, cuts
  bed_wire_end
  read -r carried lost overtook cuts <<<"${bed_wire_said//[^0-9 ]/}"
  echo "$1: $bed_wire_said"
}

bed_wire "$wire" --delay 1000
play plain -- --rounds 10
says plain through
counted plain
[ "$carried" -gt 100 ] && [ "$lost" = 0 ] && [ "$overtook" = 0 ] && [ "$cuts" = 0 ] ||
  fail "a wire with delay alone did more"

bed_wire "$wire" --delay 1000 --jitter 500 --loss 10000
play lossy DFCCL_NET_SECURITY=encrypt -- --rounds 60
says lossy through
counted lossy
[ "$lost" -gt 0 ] && [ "$overtook" -gt 0 ] || fail "a wire with loss and jitter has neither"

# TCP doubles the time between its tries, and each may fall into a cut. So seven are allowed, of
# which one in five does.
bed_wire "$wire" --delay 500 --jitter 500 --cut 200 --every 700
play cut DFCCL_NET_TIMEOUT_MS=30000 -- --seconds 4
says cut through
counted cut
[ "$cuts" -gt 1 ] && [ "$lost" -gt 0 ] || fail "a wire that is cut loses nothing"

bed_wire "$wire" --delay 500 --cut 1000000 --every 2000
play dead DFCCL_NET_TIMEOUT_MS=1000 DFCCL_NET_RESUME_MS=0 -- --seconds 60
says dead told
counted dead
[ "$failed" = 0 ] && echo "a wire with delay, jitter, loss and cuts"
exit $failed
