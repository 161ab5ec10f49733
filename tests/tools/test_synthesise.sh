# shellcheck shell=sh
# Promises of dfccl-synthesise: for each row of unequal ports the plan is proven, no faster than its
# bound, and its ports carry what the closed form says; files in MSCCL's XML are taken by dfccl-info
# and executed by dfccl-bench without a wrong element; bad input has one sentence and status 2.
#
#   test_synthesise.sh SYNTHESISE INFO BENCH
set -u
. "$(dirname "$0")/check.sh"
tool=$1 info=$2 bench=$3

network() { printf '%s' "$1" >"$work/network.json"; }
# Reads one number of the JSON object.
number() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" "$work/out" | head -1; }
refused() {
  run 2 "$@"
  [ ! -s "$work/out" ] || fail "printed something: $*"
  [ "$(wc -l <"$work/err")" = 1 ] || fail "not one line: $*: $(cat "$work/err")"
}

mkdir "$work/plans"
# row NAME OPERATION RANKS PORTS ROOT BUSIEST PERCENT: the busiest port's time, in ms over a port of
# 1 GB/s for 16 MB, at the most; and the predicted part of the bound's speed, at the least.
row() {
  network "{\"between\": {\"GBps\": 1, \"latency_us\": 0}, $4}"
  run 0 "$tool" "$work/network.json" "$2" -n "$3" --root "$5" --json --xml "$work/plans/$1.xml"
  awk -v busiest="$(number busiest_us)" -v most="$6" -v least="$7" -v bound="$(number bound_us)" \
    -v predicted="$(number predicted_us)" 'BEGIN {
      exit !(busiest <= most * 16777.216 * 1.0001 && predicted >= busiest * 0.9999 &&
        (bound == "" || predicted * least <= bound * 100) &&
        (bound == "" || busiest >= bound * 0.9999))}' ||
    fail "$1: busiest $(number busiest_us), predicted $(number predicted_us)," \
      "bound $(number bound_us); at most $6 units, at least $7 %"
}
row equal allreduce 4 '"ports": []' 0 1.57 90
row half allreduce 4 '"ports": [{"host": 3, "GBps": 0.5}]' 0 2 90
row quarter allreduce 4 '"ports": [{"host": 3, "GBps": 0.25}]' 0 4 90
row half_of_8 allreduce 8 '"ports": [{"host": 7, "GBps": 0.5}]' 0 2.05 90
row two_halves allreduce 4 '"ports": [{"host": 1, "GBps": 0.5}, {"host": 3, "GBps": 0.5}]' 0 2.05 90
row gather allgather 4 '"ports": [{"host": 3, "out_GBps": 0.25}]' 0 1.01 90
row scatter reducescatter 4 '"ports": [{"host": 3, "in_GBps": 0.25}]' 0 1.01 85
row spread broadcast 4 '"ports": [{"host": 1, "out_GBps": 0.25}]' 0 1.01 90
row collect reduce 4 '"ports": [{"host": 3, "in_GBps": 0.25}]' 0 1.01 90
row pair allreduce 4 '"pairs": [{"from": 0, "to": 1, "GBps": 0.125}]' 0 1.55 90
row root broadcast 4 '"ports": [{"host": 1, "out_GBps": 0.25}]' 2 1.01 90

run 0 "$info" files "$work/plans"
for plan in half gather scatter spread pair; do out_has "$plan.*prove"; done
for pair in allreduce:half allreduce:pair allgather:gather reducescatter:scatter broadcast:spread \
  reduce:collect; do
  run 0 env DFCCL_ALGORITHMS="$work/plans" "$bench" "${pair%:*}" -n 4 --algorithm \
    "file:${pair#*:}" -b 1000 -e 1000000 -f 1000 -i 3 --check
done

# ---- engines and output
network '{"between": {"GBps": 1}, "ports": [{"host": 3, "GBps": 0.5}]}'
run 0 "$tool" "$work/network.json" allreduce -n 4 --engine weighted --explain -o "$work/trees.json"
out_has 'weighted, 3 trees'
out_has 'host 3, NIC 0, out'
out_has 'parent of each rank'
grep -q '"weight"' "$work/trees.json" || fail "the file of trees lacks weights"
run 0 "$tool" "$work/network.json" allreduce -n 4 --engine forest
out_has 'forest,'
network '{"switches": 1, "links": [{"from": "rank 0", "to": "switch 0", "GBps": 2},
  {"from": "rank 1", "to": "switch 0", "GBps": 1}, {"from": "rank 1", "to": "rank 2", "GBps": 1}]}'
run 0 "$tool" "$work/network.json" allgather -n 3
out_has 'forest,'
run 1 "$tool" "$work/network.json" allgather -n 3 --engine weighted
err_has 'is for hosts of one rank each below one switch'

# ---- bad input
network '{"links": [{"from": "rank 0", "to": "rank 1", "GBps": 1}]}'
refused "$tool" "$work/network.json" allgather -n 3
err_has 'line 1: rank 0 cannot be reached from rank 2'
network '{"ports": [{"host": 7, "GBps": 1}]}'
refused "$tool" "$work/network.json" allreduce -n 4
err_has 'network.json: line 1: ports\[0\].host: expected a whole number from 0 to 3, not 7'
network '{'
refused "$tool" "$work/network.json" allreduce -n 4
err_has 'line 1'
network '{}'
refused "$tool" "$work/network.json" allreduce -n 4 --engine milp
err_has 'CBC'
refused "$tool" "$work/network.json" alltoall -n 4
err_has "not 'alltoall'"
refused "$tool" "$work/network.json" allreduce
err_has 'number of ranks'
refused "$tool" "$work/network.json" allreduce -n 65
refused "$tool" "$work/network.json" allreduce -n 4 --root 1
err_has 'has no root'
refused "$tool" "$work/network.json" broadcast -n 4 --root 4
refused "$tool" "$work/nothing.json" allreduce -n 4
err_has 'cannot be opened'
finish
