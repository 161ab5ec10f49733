# shellcheck shell=bash
# A bed of hosts for tests. A host is a network namespace with its own host name, IPC namespace and
# /dev/shm, so that the library takes no two of them for one machine. Functions:
#
#   bed_up N [RATE]          makes N hosts, joined by two rails. RATE (as of tc, "4gbit") limits the
#                            sending of each host on each rail.
#   bed_on I COMMAND...      runs COMMAND on host I, 1 to N
#   bed_cut I RAIL           disconnects host I from a rail. Packets are lost without an error.
#   bed_join I RAIL          connects it again
#   bed_rate I RAIL out|in RATE   limits what host I sends or receives on a rail
#   bed_pair I J RATE        limits what hosts I and J send to each other, in each direction and on
#                            each rail
#   bed_wire WIRE OPTION...  joins hosts 1 and 2 by a third network with delay, jitter, loss and
#                            interruptions. WIRE is the program of wire.c.
#   bed_wire_end             removes this network; its counts are in $bed_wire_said
#   bed_down                 removes all; also called at the exit of the shell
#
# Host I has the addresses 10.77.RAIL.I/24 and fd77:RAIL::I/64 on interface railRAIL, and
# 10.78.0.I/24 on wire0. Names contain the process number of the shell, so beds of several tests can
# exist at one time. The exit status is 77 (skipped) without the rights.

bed_name=df$$
bed_hosts=0
declare -A bed_sends=() bed_pairs=() # rate by "HOST RAIL", and by "HOST TO"
bed_keepers=() # for each host, the process that keeps its namespaces

bed_skip() {
  echo "skipped: $1"
  exit 77
}

bed_down() {
  local i pid
  for ((i = 0; i <= bed_hosts; i++)); do
    kill -KILL "${bed_keepers[$i]:-}" 2>/dev/null && wait "${bed_keepers[$i]}" 2>/dev/null
    for pid in $(ip netns pids "$bed_name-$i" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
    ip netns del "$bed_name-$i" 2>/dev/null
  done
  bed_hosts=0 bed_keepers=() bed_sends=() bed_pairs=()
  return 0
}

# Removes the namespaces of shells that were killed.
bed_sweep() {
  local name pid
  for name in $(ip netns list | grep -oE '^df[0-9]+-[0-9]+'); do
    pid=${name#df}
    [ -d "/proc/${pid%-*}" ] && continue
    for pid in $(ip netns pids "$name" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
    ip netns del "$name" 2>/dev/null
  done
}

# Namespace 0 is the switch, with a bridge for each rail.
bed_up() {
  local n=$1 rate=${2:-} i rail
  [ "$(id -u)" = 0 ] || bed_skip "network namespaces need root"
  command -v ip >/dev/null && command -v unshare >/dev/null ||
    bed_skip "ip or unshare is not installed"
  bed_sweep
  ip netns add "$bed_name-0" 2>/dev/null || bed_skip "no right to make network namespaces"
  trap bed_down EXIT
  bed_hosts=$n
  for rail in 0 1; do
    ip -n "$bed_name-0" link add "rail$rail" type bridge &&
      ip -n "$bed_name-0" link set "rail$rail" up ||
      bed_skip "no right to make a bridge"
  done
  for ((i = 1; i <= n; i++)); do
    ip netns add "$bed_name-$i"
    ip -n "$bed_name-$i" link set lo up
    ip netns exec "$bed_name-$i" unshare --uts --ipc --mount --propagation private \
      sh -c 'mount -t tmpfs none /dev/shm && hostname "$0" && exec sleep 100000' "host$i" \
      </dev/null >/dev/null 2>&1 &
    bed_keepers[i]=$!
    for rail in 0 1; do
      ip link add "rail$rail" netns "$bed_name-$i" type veth \
        peer name "host$i-$rail" netns "$bed_name-0"
      ip -n "$bed_name-0" link set "host$i-$rail" master "rail$rail" up
      ip -n "$bed_name-$i" addr add "10.77.$rail.$i/24" dev "rail$rail"
      ip -n "$bed_name-$i" addr add "fd77:$rail::$i/64" dev "rail$rail" nodad
      ip -n "$bed_name-$i" link set "rail$rail" up
      [ -z "$rate" ] ||
        tc -n "$bed_name-$i" qdisc add dev "rail$rail" root tbf rate "$rate" burst 256kb \
          latency 20ms
      [ -z "$rate" ] || bed_sends["$i $rail"]=$rate
    done
  done
  for ((i = 1; i <= n; i++)); do
    until [ "$(bed_on "$i" hostname 2>/dev/null)" = "host$i" ]; do
      kill -0 "${bed_keepers[$i]}" 2>/dev/null ||
        bed_skip "host $i did not start: no right to mount, or to set a host name"
      sleep 0.05
    done
  done
}

bed_on() {
  local i=$1
  shift
  # shellcheck disable=SC2016
  nsenter --target "${bed_keepers[$i]}" --net --uts --ipc --mount \
    sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}

bed_wire() {
  local program=$1 said
  shift
  coproc BED_WIRE {
    exec "$program" "${bed_keepers[1]}" 10.78.0.1/24 "${bed_keepers[2]}" 10.78.0.2/24 "$@"
  }
  # shellcheck disable=SC2153
  bed_wire_pid=$! bed_wire_says=${BED_WIRE[0]} bed_wire_stdin=${BED_WIRE[1]}
  read -r said <&"$bed_wire_says" || said=
  [ "$said" = ready ] || bed_skip "${said#skipped: }"
}
bed_wire_end() {
  exec {bed_wire_stdin}>&- # not in a subshell, where the descriptor of this shell would stay open
  # shellcheck disable=SC2034 # the test that sources this file reads it
  read -t 10 -r bed_wire_said <&"$bed_wire_says"
  exec {bed_wire_says}<&-
  wait "$bed_wire_pid" # its devices have been removed
}

# nsenter and the state of a port are used, since `ip -n` and `nomaster` wait for an RCU grace
# period of all processors, which busy ranks can delay for minutes.
bed_port() { nsenter --net="/run/netns/$bed_name-0" bridge link set dev "$1" state "$2"; }
bed_cut() { bed_port "host$1-$2" disabled; }
bed_join() { bed_port "host$1-$2" forwarding; }

# The bits per second of a rate such as 50mbit.
bed_bits() {
  local number=${1%%[a-z]*}
  case $1 in
    *[0-9]kbit) echo $((number * 1000)) ;;
    *[0-9]mbit) echo $((number * 1000000)) ;;
    *[0-9]gbit) echo $((number * 1000000000)) ;;
    *) echo "bed.sh: '$1' is not a rate such as 50mbit" >&2 && return 1 ;;
  esac
}

# The burst of a limit: 2 ms of the rate, at least 16 KB. A longer burst would hide a slow link from
# all messages that are shorter.
bed_burst() {
  local bits
  bits=$(bed_bits "$1") || return 1
  echo $((bits / 4000 > 16384 ? bits / 4000 : 16384))
}

bed_tc() { nsenter --net="/run/netns/$bed_name-$1" tc "${@:2}"; }

# Limits everything that an interface of namespace NUMBER sends. Packets to a host may wait longer
# than packets from it, since a host's own sockets wait and lose no packets.
bed_limit() { # NUMBER INTERFACE RATE LATENCY
  local burst
  burst=$(bed_burst "$3") || return 1
  bed_tc "$1" qdisc replace dev "$2" root handle 2: tbf rate "$3" burst "$burst" latency "$4"
}

# A class of htb may send with its own rate, whatever its siblings do; so it has the least one, and
# borrows from the port.
bed_class() { # HOST RAIL MINOR RATE
  local burst
  burst=$(bed_burst "$4") || return 1
  bed_tc "$1" class replace dev "rail$2" parent 1:1 classid "1:$3" htb rate 8kbit ceil "$4" \
    burst 1600 cburst "$burst" quantum 3028
}

# Limits what host I sends on a rail, by its port's rate and the rates of its pairs.
bed_shape() { # HOST RAIL
  local i=$1 rail=$2 rate=${bed_sends["$1 $2"]:-10gbit} burst j minor
  burst=$(bed_burst "$rate") || return 1
  bed_tc "$i" qdisc del dev "rail$rail" root 2>/dev/null
  bed_tc "$i" qdisc add dev "rail$rail" root handle 1: htb default 2 &&
    bed_tc "$i" class add dev "rail$rail" parent 1: classid 1:1 htb rate "$rate" ceil "$rate" \
      burst "$burst" cburst "$burst" quantum 3028 && bed_class "$i" "$rail" 2 "$rate" || return 1
  for ((j = 1; j <= bed_hosts; j++)); do
    [ -n "${bed_pairs["$i $j"]:-}" ] || continue
    printf -v minor %x $((16 + j))
    bed_class "$i" "$rail" "$minor" "${bed_pairs["$i $j"]}" &&
      bed_tc "$i" filter add dev "rail$rail" parent 1: protocol ip prio 1 u32 \
        match ip dst "10.77.$rail.$j/32" flowid "1:$minor" &&
      bed_tc "$i" filter add dev "rail$rail" parent 1: protocol ipv6 prio 2 u32 \
        match ip6 dst "fd77:$rail::$j/128" flowid "1:$minor" || return 1
  done
}

bed_rate() {
  local i=$1 rail=$2 direction=$3 rate=$4 j has_pairs=
  bed_bits "$rate" >/dev/null || return 1
  case $direction in
    in) bed_limit 0 "host$i-$rail" "$rate" 100ms ;;
    out)
      bed_sends["$i $rail"]=$rate
      for ((j = 1; j <= bed_hosts; j++)); do has_pairs+=${bed_pairs["$i $j"]:-}; done
      if [ -n "$has_pairs" ]; then
        bed_shape "$i" "$rail"
      else
        bed_limit "$i" "rail$rail" "$rate" 20ms
      fi
      ;;
    *) echo "bed.sh: '$direction' is not a direction: out or in" >&2 && return 1 ;;
  esac
}

bed_pair() {
  local rail
  bed_bits "$3" >/dev/null || return 1
  bed_pairs["$1 $2"]=$3
  bed_pairs["$2 $1"]=$3
  for rail in 0 1; do bed_shape "$1" $rail && bed_shape "$2" $rail || return 1; done
}
