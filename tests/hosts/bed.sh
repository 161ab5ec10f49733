# A bed of hosts for tests: network namespaces, each with its own host name, IPC namespace and
# /dev/shm, so that no library takes two of them for one machine. Source it, then:
#
#   bed_up N [RATE]     N hosts, joined by two rails; RATE (as of tc, "4gbit") limits each host's
#   sending on each rail
#   bed_on I CMD...     runs CMD on host I, 1 to N
#   bed_cut I RAIL      pulls host I's cable of a rail: no packet passes, nobody is told; bed_join I
#   RAIL puts it back
#   bed_wire WIRE OPTION...  joins hosts 1 and 2 by a third way with delay, jitter, loss and cuts:
#   wire.c, whose program is
#                       WIRE; bed_wire_end takes it away; $bed_wire_said are its counts
#   bed_down            takes it all away; runs at exit by itself
#
# Host I has 10.77.RAIL.I/24 and fd77:RAIL::I/64 on interface railRAIL, and 10.78.0.I/24 on wire0.
# Names have the shell's process number in them, so beds of several tests stand side by side. Exit
# status 77 (skipped) without the rights.

bed_name=df$$
bed_hosts=0
bed_keepers=() # the process that keeps each host's namespaces

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
  bed_hosts=0 bed_keepers=()
  return 0
}

# What beds of shells that were killed have left.
bed_sweep() {
  local name pid
  for name in $(ip netns list | grep -oE '^df[0-9]+-[0-9]+'); do
    pid=${name#df}
    [ -d "/proc/${pid%-*}" ] && continue
    for pid in $(ip netns pids "$name" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
    ip netns del "$name" 2>/dev/null
  done
}

# Namespace 0 is the switch: a bridge for each rail.
bed_up() {
  local n=$1 rate=${2:-} i rail
  [ "$(id -u)" = 0 ] || bed_skip "network namespaces need root"
  command -v ip >/dev/null && command -v unshare >/dev/null || bed_skip "ip or unshare is not installed"
  bed_sweep
  ip netns add "$bed_name-0" 2>/dev/null || bed_skip "no right to make network namespaces"
  trap bed_down EXIT
  bed_hosts=$n
  for rail in 0 1; do
    ip -n "$bed_name-0" link add "rail$rail" type bridge && ip -n "$bed_name-0" link set "rail$rail" up ||
      bed_skip "no right to make a bridge"
  done
  for ((i = 1; i <= n; i++)); do
    ip netns add "$bed_name-$i"
    ip -n "$bed_name-$i" link set lo up
    ip netns exec "$bed_name-$i" unshare --uts --ipc --mount --propagation private \
      sh -c 'mount -t tmpfs none /dev/shm && hostname "$0" && exec sleep 100000' "host$i" </dev/null >/dev/null 2>&1 &
    bed_keepers[$i]=$!
    for rail in 0 1; do
      ip link add "rail$rail" netns "$bed_name-$i" type veth peer name "host$i-$rail" netns "$bed_name-0"
      ip -n "$bed_name-0" link set "host$i-$rail" master "rail$rail" up
      ip -n "$bed_name-$i" addr add "10.77.$rail.$i/24" dev "rail$rail"
      ip -n "$bed_name-$i" addr add "fd77:$rail::$i/64" dev "rail$rail" nodad
      ip -n "$bed_name-$i" link set "rail$rail" up
      [ -z "$rate" ] ||
        tc -n "$bed_name-$i" qdisc add dev "rail$rail" root tbf rate "$rate" burst 256kb latency 20ms
    done
  done
  for ((i = 1; i <= n; i++)); do
    until [ "$(bed_on "$i" hostname 2>/dev/null)" = "host$i" ]; do
      kill -0 "${bed_keepers[$i]}" 2>/dev/null || bed_skip "host $i did not come up: no right to mount, or to name a host"
      sleep 0.05
    done
  done
}

bed_on() {
  local i=$1
  shift
  # shellcheck disable=SC2016
  nsenter --target "${bed_keepers[$i]}" --net --uts --ipc --mount sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}

bed_wire() {
  local program=$1 said
  shift
  coproc BED_WIRE { exec "$program" "${bed_keepers[1]}" 10.78.0.1/24 "${bed_keepers[2]}" 10.78.0.2/24 "$@"; }
  # shellcheck disable=SC2153
  bed_wire_pid=$! bed_wire_says=${BED_WIRE[0]} bed_wire_stdin=${BED_WIRE[1]}
  read -r said <&"$bed_wire_says" || said=
  [ "$said" = ready ] || bed_skip "${said#skipped: }"
}
bed_wire_end() {
  exec {bed_wire_stdin}>&- # not in a subshell: this shell's end would stay open
  read -t 10 -r bed_wire_said <&"$bed_wire_says"
  exec {bed_wire_says}<&-
  wait "$bed_wire_pid" # and its devices are gone
}

# nsenter, and a port's state: `ip -n` and `nomaster` wait for a pause of all processors, which busy
# ranks can hold up for minutes.
bed_port() { nsenter --net="/run/netns/$bed_name-0" bridge link set dev "$1" state "$2"; }
bed_cut() { bed_port "host$1-$2" disabled; }
bed_join() { bed_port "host$1-$2" forwarding; }
