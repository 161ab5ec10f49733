#!/usr/bin/env bash
# Promise: bytes that somebody inserts into a connection between hosts, at any moment of it, end the
# connection at most: the ranks connect again, no rank is reported lost, all collectives complete,
# and every element is right. test_junk.sh WORKER JUNK
#
# Each rank is reached only through a proxy (junk.c), which inserts bytes once: into the handshake
# of the mesh, the first records of the control channel, or a data connection, in both directions.
set -u
. "$(dirname "$0")/bed.sh"
worker=$1 junk=$2
failed=0
fail() { echo "FAILED: $*" >&2; failed=1; }
bed_up 2
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT
unset LOCAL_WORLD_SIZE

# Starts the proxy of a host.
begin_proxy() { # HOST CONNECTION DIRECTION AT BYTES FIRST
  local host=$1
  shift
  : >"$work/junk-$host"
  bed_on "$host" "$junk" "10.77.0.$host" 50001 50000 "$@" >"$work/junk-$host" 2>&1 &
  until grep -q ready "$work/junk-$host"; do
    kill -0 $! 2>/dev/null || { fail "the proxy of host $host ended"; return; }
    sleep 0.02
  done
}
end_proxy() { # HOST
  local process
  process=$(sed -n 's/^ready //p' "$work/junk-$1")
  [ -z "$process" ] || kill "$process"
  while [ -n "$process" ] && kill -0 "$process" 2>/dev/null; do sleep 0.02; done
}

try() { # SECURITY HOST CONNECTION DIRECTION AT BYTES FIRST
  local what=$* security=$1 host=$2 ranks=() rank
  shift 2
  begin_proxy "$host" "$@"
  begin_proxy $((3 - host)) 0 0 0 0
  for rank in 0 1; do
    bed_on $((rank + 1)) env RANK=$rank WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
      DFCCL_SECRET=0123456789abcdef0123456789abcdef "DFCCL_NET_SECURITY=$security" \
      DFCCL_NET_INTERFACES=rail0 DFCCL_NET_PORTS=50000 \
      "DFCCL_NET_ADVERTISE=10.77.0.$((rank + 1)):50001" DFCCL_DEBUG=info \
      timeout 60 "$worker" --rounds 6 >"$work/rank-$rank" 2>&1 &
    ranks+=($!)
  done
  for rank in 0 1; do
    wait "${ranks[$rank]}" && grep -q "^through" "$work/rank-$rank" ||
      fail "$what: rank $rank: $(cat "$work/rank-$rank")"
    grep -E '^(left|wrong)' "$work/rank-$rank" && fail "$what: rank $rank reports this"
  done
  end_proxy 1
  end_proxy 2
  grep -q inserted "$work/junk-$host" && inserted=$((inserted + 1))
  tried=$((tried + 1))
}

tried=0 inserted=0
# In the mesh the caller sends 56 and 48 bytes, the listener 80 and 48; the control channel follows.
# Rank 0 makes the data connections.
cases="1 0 0 0 1 1
1 0 0 10 20 200
1 0 1 0 3 16
1 0 1 50 1 1
1 0 0 56 1 1
1 0 0 64 20 200
1 0 0 103 3 16
1 0 1 80 1 1
1 0 1 100 20 1
1 0 0 104 1 1
1 0 0 105 1 1
1 0 1 128 1 1
1 0 1 128 1 16
1 0 1 140 100 1
1 0 0 500 1 1
1 0 1 700 2 200
2 0 0 0 1 1
2 0 1 40 20 1
2 0 0 200 1 16
2 0 0 400 3 1
2 1 0 5000 1 1
2 1 1 2000 1 16
2 0 0 20000 1000 7"
while read -r host connection direction at bytes first; do
  try encrypt "$host" "$connection" "$direction" "$at" "$bytes" "$first"
done <<<"$cases"
try integrity 2 0 0 100 1 1
try integrity 2 1 1 3000 3 16
echo "bytes were inserted in $inserted of $tried jobs"
[ "$inserted" -ge 12 ] || fail "the proxies inserted bytes in $inserted of $tried jobs"
exit $failed
