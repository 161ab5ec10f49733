#!/usr/bin/env bash
# Promises of joining across hosts (two namespaces): test_join.sh JOIN
#   - A job forms by MASTER_ADDR and MASTER_PORT, by torchrun's variables although the store uses
#     the port, by DFCCL_ROOT with mpirun's variables, by Slurm's node list, and by a unique id. It
#     forms over IPv4, over IPv6, over link-local addresses only, and if the first rail of a host is
#     disconnected.
#   - Without a secret, or with a wrong one, the join fails at once, and the message has the remedy.
#   - The library listens only at the chosen interfaces and ports. If a chosen interface does not
#     exist, the message has those that exist.
#   - A chosen interface without carrier is awaited, and a warning names it. If it does not get the
#     carrier in time, the failure names it.
#   - After 5 s a rank reports the missing ranks, and the addresses that do not answer, with a hint
#     at firewalls. A host name that cannot be resolved ends the join in time.
#   - Rank 0 reports a caller with another secret, a process of another user on its host, another
#     number of ranks, a number that two ranks have, and an address that is not its own. Two ranks 0
#     on different hosts find each other.
#   - A stopped process is reported to the other host, although its system answers, and dfcclDestroy
#     does not wait for it.
#   - A killed rank is reported to the other host, and so is a host that is disconnected.
set -u
. "$(dirname "$0")/bed.sh"
join=$1
failed=0
fail() { echo "FAILED: $*" >&2; failed=1; }
bed_up 2
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_WORLD_SIZE
secret=DFCCL_SECRET=0123456789abcdef0123456789abcdef

# rank HOST NAME VARIABLE=VALUE... [-- ARGUMENT...]: starts a rank; its output goes to NAME.
# container: the same, in a new IPC namespace.
container() { inside=(unshare --ipc) && rank "$@" && inside=(); }
inside=()
rank() {
  local host=$1 name=$2 variables=()
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1"); shift; done
  [ $# -gt 0 ] && shift
  bed_on "$host" env "${variables[@]}" "${inside[@]}" timeout 60 "$join" "$@" >"$work/$name" 2>&1 &
}
all_through() { # WHAT NAME...
  local what=$1 name
  shift
  wait_for_ranks
  for name; do grep -q "is through" "$work/$name" || fail "$what: $name: $(cat "$work/$name")"; done
}
wait_for_ranks() { # but not for the processes of the bed
  local pid
  for pid in $(jobs -rp); do
    case " ${bed_keepers[*]} " in *" $pid "*) ;; *) wait "$pid" 2>/dev/null ;; esac
  done
}
await_stays() { # NAME...
  local name tries
  for name; do
    for ((tries = 0; tries < 1000; tries++)); do
      grep -q stays "$work/$name" && continue 2
      sleep 0.05
    done
    fail "$name does not stay after 50 s: $(cat "$work/$name")"
  done
}
says() { grep -q -- "$2" "$work/$1" || fail "$3: $1 says: $(cat "$work/$1")"; }

by_hand() { # ADDRESS: four ranks, two on each host
  rank 1 a RANK=0 WORLD_SIZE=4 MASTER_ADDR="$1" MASTER_PORT=29500 $secret
  rank 2 b RANK=1 WORLD_SIZE=4 MASTER_ADDR="$1" MASTER_PORT=29500 $secret
  rank 1 c RANK=2 WORLD_SIZE=4 MASTER_ADDR="$1" MASTER_PORT=29500 $secret
  rank 2 d RANK=3 WORLD_SIZE=4 MASTER_ADDR="$1" MASTER_PORT=29500 $secret
  all_through "by hand, $1" a b c d
}
by_hand 10.77.0.1
by_hand fd77:1::1
for r in 0 1; do
  rank $((r + 1)) t$r RANK=$r WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.1.1 \
    MASTER_PORT=29400 TORCHELASTIC_RUN_ID=x $secret
done
all_through torchrun t0 t1
for r in 0 1; do
  rank $((r + 1)) m$r OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
    DFCCL_ROOT=10.77.0.1:4000 $secret
done
all_through "Open MPI" m0 m1
for r in 0 1; do
  rank $((r + 1)) s$r SLURM_PROCID=$r SLURM_NTASKS=2 SLURM_NNODES=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 \
    SLURM_JOB_NODELIST=10.77.0.[1-2] $secret
done
all_through Slurm s0 s1

# A unique id contains a secret.
rank 1 i0 -- "$work/id" 0 2
rank 2 i1 -- "$work/id" 1 2
all_through "unique id" i0 i1
# Rank 0 is not its root here, and does not take the root for another rank 0 while it waits.
rank 1 o0 -- "$work/id.other" 0 3 1
rank 2 o1 -- "$work/id.other" 1 3 1
sleep 1
rank 2 o2 -- "$work/id.other" 2 3 1
all_through "a unique id that rank 1 made" o0 o1 o2
for r in 0 1; do
  rank $((r + 1)) l$r 'DFCCL_NET_INTERFACES=fe80::/10' -- "$work/id.local" $r 2
done
all_through "link-local addresses" l0 l1
bed_cut 2 0
for r in 0 1; do rank $((r + 1)) c$r -- "$work/id.cut" $r 2; done
all_through "one rail is cut" c0 c1
bed_join 2 0

# If no host has the address that rank 0 advertises, rank 0 connects to rank 1. A right address,
# with its port, is used.
rank 1 v0 RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
  DFCCL_NET_ADVERTISE=10.77.0.99 $secret
rank 2 v1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
all_through "an address of no host" v0 v1
rank 1 y0 RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 DFCCL_NET_PORTS=4100 \
  DFCCL_NET_ADVERTISE=10.77.1.1:4100 $secret
rank 2 y1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
all_through "an advertised address" y0 y1

# Two containers of one machine that share its network count as two hosts, also without any
# interface except lo.
rank 1 e0 RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
container 1 e1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
all_through "containers" e0 e1
rank 1 f0 DFCCL_NET_INTERFACES=lo -- "$work/id.lo" 0 2
container 1 f1 DFCCL_NET_INTERFACES=lo -- "$work/id.lo" 1 2
all_through "containers with lo alone" f0 f1

# A job of the loopback address has no listener, with a secret or without.
rank 1 g0 RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \
  DFCCL_INIT_TIMEOUT_MS=4000 $secret
sleep 0.7
[ -z "$(bed_on 1 ss -Hltn)" ] || fail "a job of one host listens: $(bed_on 1 ss -Hltn)"
wait_for_ranks
says g0 "rank 1 of 2 did not come" "one host"

# Secrets.
rank 1 n0 RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500
rank 2 n1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500
wait_for_ranks
says n0 "openssl rand -hex 32" "no secret"
says n1 "openssl rand -hex 32" "no secret"
rank 1 o0 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
  PMIX_NAMESPACE=1 $secret
wait_for_ranks
says o0 "set DFCCL_ROOT to its host and a free port there" "mpirun that says nothing of rank 0"
rank 1 w0 RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
  DFCCL_INIT_TIMEOUT_MS=8000 $secret
rank 2 w1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
  DFCCL_SECRET=another-secret-of-ours
wait_for_ranks
says w1 "has another secret than this rank" "another secret"
says w0 "rank 1 of 2 did not come" "another secret"
says w0 "a caller at 10.77.0.2 has another secret (DFCCL_SECRET" "another secret, rank 0"

# The other ranks contradict rank 0, or it is at another place than they expect.
for r in 0 1; do
  rank $((r + 1)) ws$r RANK=$r WORLD_SIZE=$((r + 2)) MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
done
wait_for_ranks
says ws0 "says that the job has 3 ranks" "another number of ranks, rank 0"
says ws1 "says that the job has 3 ranks" "another number of ranks"
rank 1 tw0 RANK=0 WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
rank 2 tw1 RANK=1 WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
rank 1 tw2 RANK=1 WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
wait_for_ranks
for name in tw0 tw1 tw2; do says $name "two processes claim rank 1 of 3" "a number twice"; done
elsewhere() { # ADDRESS NAME PORT: rank 0 on host 1
  rank 1 "$2" RANK=0 WORLD_SIZE=2 MASTER_ADDR="$1" MASTER_PORT="$3" $secret DFCCL_DEBUG=warn \
    DFCCL_INIT_TIMEOUT_MS=4000 "${@:4}"
}
elsewhere 10.77.0.2 el0 29500
elsewhere 10.99.9.9 el1 29501
elsewhere fd77:1::2 el2 29502
elsewhere 10.77.0.1 el3 29503
elsewhere 10.88.0.1 el4 29504 DFCCL_NET_ADVERTISE=10.88.0.1
wait_for_ranks
for name in el0 el1 el2; do
  says $name "is no address of the host of rank 0" "rank 0 elsewhere"
  says $name "did not come .*is no address of the host of rank 0" "rank 0 elsewhere, at the end"
done
for name in el3 el4; do
  grep -q "is no address" "$work/$name" && fail "rank 0 is where it should be: $(cat "$work/$name")"
done
# Two ranks 0: the one elsewhere finds the other one, also if it came first.
rank 2 tz1 RANK=0 WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
sleep 0.5
rank 1 tz0 RANK=0 WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
rank 1 tz2 RANK=1 WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 $secret
wait_for_ranks
for name in tz0 tz1 tz2; do
  says $name "two processes claim rank 0 of 3: .* at 10.77.0.2" "two ranks 0"
done
# An address of another host that passes calls on to rank 0 (NAT): it finds itself, and waits.
: >"$work/forward"
bed_on 2 python3 "$(dirname "$0")/forward.py" 10.77.0.2 29500 10.77.0.1 29500 >"$work/forward" &
forward=$!
for ((tries = 0; tries < 100; tries++)); do grep -q ready "$work/forward" && break; sleep 0.05; done
rank 1 fw0 RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.2 MASTER_PORT=29500 $secret DFCCL_DEBUG=warn
for ((tries = 0; tries < 400; tries++)); do
  grep -q passed "$work/forward" && break
  sleep 0.05
done
grep -q passed "$work/forward" || fail "rank 0 does not look for another one"
rank 1 fw1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.77.0.2 MASTER_PORT=29500 $secret
bed_keepers+=("$forward")
all_through "rank 0 behind a forwarder" fw0 fw1
kill "$(sed -n 's/^ready //p' "$work/forward")"
unset "bed_keepers[-1]"
wait "$forward"

# Two users of one host: each rank gets the reason.
users() { # ADDRESS NAME
  rank 1 "$2-0" RANK=0 WORLD_SIZE=2 MASTER_ADDR="$1" MASTER_PORT=29500 $secret \
    DFCCL_INIT_TIMEOUT_MS=4000
  inside=(setpriv --reuid 1002 --clear-groups)
  rank 1 "$2-1" RANK=1 WORLD_SIZE=2 MASTER_ADDR="$1" MASTER_PORT=29500 $secret \
    DFCCL_INIT_TIMEOUT_MS=4000
  inside=()
  wait_for_ranks
  says "$2-0" "runs as user 1002, rank 0 as user 0; the ranks" "two users, $1, rank 0"
  says "$2-1" "runs as user 0, rank 1 as user 1002; the ranks" "two users, $1, rank 1"
}
if bed_on 1 setpriv --reuid 1002 --clear-groups test -x "$join" 2>/dev/null; then
  users 127.0.0.1 us
  users 10.77.0.1 ut
  users host1 uv
else
  echo "not tried: user 1002 cannot execute $join"
fi

# Interfaces and ports.
for r in 0 1; do
  rank $((r + 1)) p$r RANK=$r WORLD_SIZE=2 MASTER_ADDR=10.77.1.1 MASTER_PORT=29500 STAY=1 $secret \
    DFCCL_NET_INTERFACES=10.77.1.0/24 DFCCL_NET_PORTS=50000-50009
done
await_stays p0 p1
for host in 1 2; do
  expected=$(printf '10.77.1.%s:50000\n127.0.0.1:50000' $host)
  [ "$(bed_on $host ss -Hltn | awk '{print $4}' | sort)" = "$expected" ] ||
    fail "host $host listens at $(bed_on $host ss -Hltn)"
done
kill -KILL "$(grep -o '[0-9]*$' "$work/p1")"
wait_for_ranks
says p0 "rank 1 died: its connection (host2, 10.77.1.2:50000) was lost" "a killed rank"
for r in 0 1; do
  rank $((r + 1)) k$r RANK=$r WORLD_SIZE=2 MASTER_ADDR=10.77.1.1 MASTER_PORT=29500 STAY=1 \
    DFCCL_NET_TIMEOUT_MS=2000 $secret
done
await_stays k0 k1
bed_cut 2 0
bed_cut 2 1
wait_for_ranks
# The loss is noticed by the heartbeat of the ranks, or by TCP a moment earlier.
silent='\(cannot be reached (HOST, .*): Connection timed out\|'
silent+='has not answered for 2000 ms (HOST, .*cut off\)'
says k0 "rank 1 ${silent//HOST/host2}" "a host that is cut off"
says k1 "rank 0 ${silent//HOST/host1}" "a host that is cut off"
bed_join 2 0
bed_join 2 1
# A stopped process: the system of its host continues to answer.
for r in 0 1; do
  rank $((r + 1)) t$r RANK=$r WORLD_SIZE=2 MASTER_ADDR=10.77.1.1 MASTER_PORT=29500 STAY=1 \
    DFCCL_NET_TIMEOUT_MS=1000 $secret
done
await_stays t0 t1
stopped=$(grep -o '[0-9]*$' "$work/t1")
kill -STOP "$stopped"
for ((tries = 0; tries < 1000; tries++)); do
  grep -q "is out" "$work/t0" && break
  sleep 0.02
done
kill -KILL "$stopped"
wait_for_ranks
says t0 "rank 1 has not answered for 1000 ms (host2, .*stopped or hangs" "a stopped rank"
says t0 "rank 0 is out" "dfcclDestroy beside a stopped rank"
rank 1 x0 RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 DFCCL_NET_INTERFACES==eth7 \
  $secret
wait_for_ranks
says x0 "it has .*rail1 (10.77.1.1" "a missing interface"

# Interfaces whose other end is not set up yet. The switch's end of a rail is set up when the rank
# has logged that it waits for the rail.
no_carrier() { ip -n "$bed_name-0" link set "host$1-1" down; }
carrier_when() { # HOST NAME: sets the end up when the rank that writes to NAME waits
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    grep -q "interface rail1 has no carrier; .* waits" "$work/$2" 2>/dev/null && break
    sleep 0.05
  done
  ip -n "$bed_name-0" link set "host$1-1" up
}
late_rail() { # HOST NAME NAME0 NAME1
  carrier_when "$1" "$2"
  all_through "a rail that comes later, host $1" "$3" "$4"
  says "$2" "interface rail1 has no carrier; .* waits" "a rail that comes later, host $1"
}
on_rail1=(DFCCL_NET_INTERFACES=rail1 DFCCL_DEBUG=warn DFCCL_INIT_TIMEOUT_MS=50000)
for late in 1 2; do
  no_carrier $late
  for r in 0 1; do
    rank $((r + 1)) u$late$r RANK=$r WORLD_SIZE=2 MASTER_ADDR=10.77.1.1 MASTER_PORT=29500 \
      "${on_rail1[@]}" $secret
  done
  late_rail $late u$late$((late - 1)) u${late}0 u${late}1
  no_carrier $late
  for r in 0 1; do rank $((r + 1)) v$late$r "${on_rail1[@]}" -- "$work/id.late$late" $r 2; done
  late_rail $late v$late$((late - 1)) v${late}0 v${late}1
done
no_carrier 1
rank 1 z0 RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.1.1 MASTER_PORT=29500 $secret \
  DFCCL_NET_INTERFACES=rail1 DFCCL_INIT_TIMEOUT_MS=700
# A job of one host does not need the interface.
rank 1 z1 DFCCL_NET_INTERFACES=rail1 RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29510
all_through "one host" z1
says z0 'is "rail1", but after [0-9]* ms interface rail1 has no carrier' "a rail that never comes"
ip -n "$bed_name-0" link set host1-1 up

# Hosts that do not answer.
rank 2 q1 RANK=1 WORLD_SIZE=3 MASTER_ADDR=10.77.0.9 MASTER_PORT=29500 DFCCL_DEBUG=warn \
  DFCCL_INIT_TIMEOUT_MS=9000 $secret
rank 1 q0 RANK=0 WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29501 DFCCL_DEBUG=warn \
  DFCCL_INIT_TIMEOUT_MS=9000 $secret
rank 2 d1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=no-such-host.invalid MASTER_PORT=29500 \
  DFCCL_INIT_TIMEOUT_MS=2000 $secret
wait_for_ranks
says d1 'host "no-such-host.invalid"' "a name"
says q1 "rank 1 of 3 has waited [5-8] s for rank 0: 10.77.0.9:29500" "a silent address"
says q1 "firewall .*DFCCL_NET_PORTS" "a silent address"
says q0 "ranks 1-2 of 3 have not come; they are awaited at 10.77.0.1:29501" "missing ranks"
[ $failed = 0 ] && echo "jobs of two hosts come up"
exit $failed
