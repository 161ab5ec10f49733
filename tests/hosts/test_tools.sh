#!/usr/bin/env bash
# Promises of --env: test_tools.sh DEMO BENCH INFO: ranks of three hosts, started by hand, run the
# demonstration and the benchmark; rank 0 alone prints; every element is right; the number of ranks
# is the launcher's. dfccl-info net shows the path, the address, the security and the connections of
# each pair on each rail, and the interfaces of each host.
set -u
. "$(dirname "$0")/bed.sh"
demo=$1 bench=$2 info=$3
bed_up 3
work=$(mktemp -d)
trap 'bed_down; rm -rf "$work"' EXIT
unset LOCAL_WORLD_SIZE
fail() {
  echo "$*" >&2
  tail -n 50 "$work"/* >&2
  exit 1
}

# Six ranks, two on each host. The output of rank R goes to R, its errors to R.errors.
job() {
  local rank pids=() status=0 pid
  for rank in 5 4 3 2 1 0; do
    bed_on $((rank / 2 + 1)) env RANK=$rank WORLD_SIZE=6 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
      DFCCL_SECRET=0123456789abcdef0123456789abcdef timeout 100 "$@" >"$work/$rank" \
        2>"$work/$rank.errors" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}
# On a busy machine a rank may wait for others for 5 s, and then logs a warning.
silent() {
  [ -z "$(cat "$work"/[1-5])" ] &&
    ! grep -vE '^dfccl\[[0-9]+\] warn: rank [0-9]+ (of 6 )?(has waited|waits)' \
      "$work"/[1-5].errors >&2 ||
    fail "$1: another rank than 0 has printed"
}

job "$demo" disorder --env -i 10 --json || fail "the demonstration failed"
grep -q '"ranks": *6,.*"completed": *480,.*"wrong": *0,' <(tr -d '\n\t' <"$work/0") ||
  fail "the demonstration's report"
silent demonstration
job "$bench" allgather --env -b 64 -e 64K -f 32 -i 5 || fail "the benchmark failed"
[ "$(grep -cE '^ +[0-9]+ ' "$work/0")" = 3 ] && grep -q "ranks 6" "$work/0" ||
  fail "the benchmark's table"
silent benchmark
job "$bench" allreduce --env -b 256K -e 1M -i 20 || fail "the benchmark of larger messages failed"
[ "$(grep -cE "^ +[0-9]+ " "$work/0")" = 3 ] || fail "the table of larger messages"
job "$bench" allreduce --env -n 2
grep -q "the launcher says how many ranks" "$work/0.errors" || fail "-n beside --env"
job "$info" net --env || fail "the pairs"
silent pairs
[ "$(grep -cE '^ +[0-9] +[0-9]  shared memory +within the host +[0-9.]+ +[0-9.]+$' "$work/0")" = 3 \
  ] || fail "pairs of one host"
[ "$(grep -cE '^ +[0-9] +[0-9]  tcp +(10.77|.fd77:).*:[0-9]+ +auth +[0-9.]+ +[0-9.]+$' "$work/0")" \
  = 12 ] || fail "pairs of two hosts"
[ "$(grep -cE '^ +[024]  rail0 +10.77.0.[123]/24 +[0-9a-z]+ +yes$' "$work/0")" = 3 ] ||
  fail "each rank's interfaces"
job env DFCCL_NET_SECURITY=encrypt "$info" net --env --json || fail "the pairs' object"
silent "pairs' object"
python3 - "$work/0" <<'PYTHON' || fail "the pairs' object"
import json, sys
o = json.load(open(sys.argv[1]))
for pair in o["pairs"]:
    near = pair["from"] // 2 == pair["to"] // 2
    assert pair["security"] == ("within the host" if near else "encrypt"), pair
    assert len(pair["connections"]) == (0 if near else 3), pair
    assert near or pair["connections"][1]["stands"], pair
for rank in o["ranks"]:
    rails = {i["address"] for i in rank["interfaces"] if i["used"]}
    assert {f"10.77.{r}.{rank['rank'] // 2 + 1}" for r in (0, 1)} <= rails, rank
PYTHON
bed_on 2 env DFCCL_NET_INTERFACES='!10.77.0.0/16' "$info" net >"$work/0" || fail "the interfaces"
grep -qE '^rail0 +10.77.0.2/24 +[0-9a-z]+ +no$' "$work/0" &&
  grep -qE '^rail1 +fd77:1::2/64 +[0-9a-z]+ +yes$' "$work/0" ||
  fail "the interfaces' table"
pids=()
for rank in 0 1; do
  bed_on $((rank + 1)) env RANK=$rank WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
    DFCCL_INIT_TIMEOUT_MS=5000 \
    DFCCL_SECRET=0123456789abcdef0123456789abcdef timeout 100 "$info" net --env --json \
      >"$work/$rank" 2>"$work/$rank.errors" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
grep -q '^{"error":"rank.* did not come .*"ranks":\[{"rank":0,"host":"host1"' "$work/0" &&
  [ ! -s "$work/1" ] ||
  fail "the object of a job that does not come up"
bed_on 2 "$info" net --json | grep -q '"name":"rail1","address":"10.77.1.2","prefix":24' ||
  fail "the interfaces' object"
echo "demonstration and benchmark on three hosts"
