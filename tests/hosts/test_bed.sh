#!/usr/bin/env bash
# Promises of bed.sh: Its hosts reach each other over both rails by IPv4 and IPv6. They share
# neither name, nor IPC, nor /dev/shm. A disconnected host gets no answer. Two beds do not
# interfere. Nothing is left afterwards. A limit of a host's sending, of its receiving, or of a pair
# of hosts, is near its nominal rate, and limits nothing else.
set -u
. "$(dirname "$0")/bed.sh"
fail() { echo "$*" >&2; exit 1; }

bed_up 3
received=$(mktemp)
trap 'bed_down; rm -f "$received"' EXIT
for i in 1 2 3; do
  [ "$(bed_on $i hostname)" = "host$i" ] || fail "host $i has another name"
  bed_on $i sh -c "echo $i >/dev/shm/own; [ \$(ls /dev/shm | wc -l) = 1 ]" ||
    fail "host $i shares /dev/shm"
done
ipc=$(for i in 1 2 3; do bed_on $i readlink /proc/self/ns/ipc; done | sort -u | wc -l)
[ "$ipc" = 3 ] || fail "hosts share an IPC namespace"
[ "$(hostname)" != host1 ] || fail "a host's name is this machine's"

# Whether host I reaches ADDRESS, by bash's sockets. A refused connection counts as an answer.
reaches() { bed_on "$1" timeout 2 bash -c "exec 3<>/dev/tcp/$2/9" 2>&1 | grep -q refused; }
for rail in 0 1; do
  reaches 1 10.77.$rail.3 || fail "no IPv4 on rail $rail"
  reaches 3 fd77:$rail::1 || fail "no IPv6 on rail $rail"
done
bed_cut 3 0
reaches 1 10.77.0.3 && fail "a cut cable carries packets"
reaches 1 10.77.1.3 || fail "cutting one rail cut the other"
bed_join 3 0
reaches 1 10.77.0.3 || fail "the cable was put back, and carries nothing"

# Measures the rate from host I to host J until it is that of MBIT within 15 %. A busy machine can
# make a single measurement wrong in both directions.
near() { # I J MBIT
  local bytes seconds pid limit measured=() end=$((SECONDS + 60))
  while ((SECONDS < end)); do
    : >"$received"
    bed_on "$2" timeout 60 "$folder/rate.py" receive "10.77.0.$2" 7777 >"$received" &
    pid=$! limit=$((SECONDS + 30))
    until grep -q ready "$received"; do
      ((SECONDS < limit)) || fail "the receiver on host $2 is not ready after 30 s"
      sleep 0.05
    done
    bed_on "$1" timeout 60 "$folder/rate.py" send "10.77.0.$2" 7777 $((40000 * $3)) ||
      fail "host $1 cannot send to host $2"
    wait "$pid" || fail "host $2 has not received all: $(cat "$received")"
    read -r bytes seconds < <(tail -n 1 "$received")
    measured+=("$(awk "BEGIN {printf \"%.1f\", $bytes * 8 / $seconds / 1e6}")")
    awk "BEGIN {exit !(${measured[-1]} > 0.85 * $3 && ${measured[-1]} < 1.02 * $3)}" && return
  done
  fail "host $1 to host $2: ${measured[*]} Mbit/s, where the limit is $3"
}
folder=$(dirname "$0")
bed_rate 1 0 out 40mbit || fail "no limit of host 1's sending"
bed_rate 2 0 in 20mbit || fail "no limit of host 2's receiving"
near 1 2 20
near 1 3 40
near 3 2 20
bed_pair 1 3 10mbit || fail "no limit of a pair"
near 1 3 10
near 3 1 10
bed_rate 2 0 in 100mbit
bed_rate 1 0 out 60mbit || fail "no other limit of a host with a pair"
near 1 2 60
near 1 3 10
bed_rate 1 0 out 20 2>/dev/null && fail "a rate without a unit is accepted"
bed_rate 1 0 up 20mbit 2>/dev/null && fail "a direction that does not exist is accepted"

before=$(ip netns list | grep -c "^$bed_name-")
other=$(bash -c '. "$0"
  bed_up 2
  bed_on 1 ip -br addr show rail0 | grep -o 10.77.0.1
  ip netns list | grep -c "^$bed_name-"' \
  "$(dirname "$0")/bed.sh") || fail "a second bed does not stand beside the first"
[ "${other//$'\n'/ }" = "10.77.0.1 3" ] || fail "the second bed is odd: $other"
[ "$(ip netns list | grep -c "^$bed_name-")" = "$before" ] ||
  fail "the second bed took a namespace of the first"
bed_on 2 sleep 60 &
sleep 0.2
bed_down
ip netns list | grep -q "^$bed_name-" && fail "namespaces are left"
wait $! 2>/dev/null || true
echo "three hosts, two rails"
