# shellcheck shell=sh
# Promises of the command line of dfccl-sim: usage, exit statuses, JSON keys, several files, hostile
# input, and that long work shows rows and progress early.
#
#   test_cli.sh DFCCL_SIM EXAMPLES_DIRECTORY SEEN_EARLY
set -u
sim=$1 examples=$2 seen=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() { echo "FAILED: $*"; failed=1; }

# expect STATUS COMMAND...: runs the command with its output in $work/out and $work/err.
expect() {
  wanted=$1
  shift
  "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
  [ "$status" = "$wanted" ] ||
    fail "status $status, expected $wanted: $* ($(head -c 300 "$work/err"))"
}

# An error is one sentence on standard error, and nothing on standard output.
refuse() {
  expect 2 "$@"
  [ -s "$work/out" ] && fail "printed something: $*"
  [ "$(wc -l <"$work/err")" = 1 ] || fail "not one line: $*: $(cat "$work/err")"
}

has() { grep -q -- "$1" "$work/out" || fail "no \"$1\" in: $(head -c 400 "$work/out")"; }
says() { grep -q -- "$1" "$work/err" || fail "no \"$1\" in: $(head -c 400 "$work/err")"; }

# ---- usage
expect 0 "$sim" --help; has 'dfccl-sim run CONFIG.json'
expect 0 "$sim" run --help; has 'Exit status'
expect 0 "$sim" --version; has '^dfccl-sim [0-9]'
refuse "$sim"; says 'expected a command'
refuse "$sim" fly; says 'unknown command "fly"'
refuse "$sim" run; says 'configuration file'
refuse "$sim" run --wings x; says 'unknown option "--wings"$'
refuse "$sim" run --roudns=3 x; says 'unknown option "--roudns=3"; perhaps it should be --rounds'
refuse "$sim" run "$examples/3d-64-gpus.json" --rounds many
says '--rounds: expected a whole number'
refuse "$sim" run "$examples/3d-64-gpus.json" --rounds; says '--rounds needs a value'
refuse "$sim" run "$examples/3d-64-gpus.json" --threads 0; says '--threads'
refuse "$sim" run "$examples/3d-64-gpus.json" extra; says 'one argument too many'
refuse "$sim" run "$examples/3d-64-gpus.json" --order sideways; says 'concat or roundrobin'
refuse "$sim" run "$work/nothing.json"; says 'nothing.json: cannot be opened'
refuse "$sim" run "$work"; says 'cannot be read'
refuse "$sim" run "$examples/3d-64-gpus.json" --check reference --engine dense; says '--engine'
refuse "$sim" run "$examples/3d-64-gpus.json" --engine oracle; says 'small configurations'

# ---- run
expect 0 "$sim" run "$examples/3d-64-gpus.json" --rounds 4000 --json
[ "$(wc -l <"$work/out")" = 1 ] || fail "not one line of JSON"
for key in model order check engine gpus groups collectives rounds deadlocks ratio ci95 seconds \
  seed; do
  has "\"$key\":"
done
has '^{.*}$'; has '"rounds":4000'; has '"gpus":64'; has '"collectives":25600'
has '"engine":"sparse"'
deadlocks() { sed 's/.*"deadlocks":\([0-9]*\).*/\1/' "$work/out"; }
one=$(deadlocks)
expect 0 "$sim" run "$examples/3d-64-gpus.json" --rounds 4000 --json --threads 7
[ "$(deadlocks)" = "$one" ] || fail "seven threads: $(deadlocks) deadlocks, one: $one"
expect 0 "$sim" run "$examples/3d-64-gpus.json" --rounds 4000 --json --seed 18446744073709551615
has '"seed":18446744073709551615'
[ "$(deadlocks)" = "$one" ] && fail "another seed changes nothing"
expect 0 "$sim" run "$examples/free-8-gpus.json" --rounds 300 --engine dense --json
dense=$(deadlocks)
expect 0 "$sim" run "$examples/free-8-gpus.json" --rounds 300 --engine oracle --json
oracle=$(deadlocks)
expect 0 "$sim" run "$examples/free-8-gpus.json" --rounds 300 --json
[ "$dense" = "$(deadlocks)" ] && [ "$oracle" = "$dense" ] ||
  fail "dense $dense, oracle $oracle, sparse $(deadlocks)"
expect 0 "$sim" run "$examples/free-8-gpus.json" --rounds=50 --check=reference --order=roundrobin \
  --json
has '"check":"reference"'; has '"order":"roundrobin"'; has '"engine":"reference"'
expect 0 "$sim" run "$examples/3d-64-gpus.json" --rounds 100; has 'rounds deadlock'
has 'MiB of memory'

# ---- table1
expect 0 "$sim" table1 --rounds 2000 --json
for key in id model grouping disorder sync paper ratio ci95 reference_ratio reference_ci95 agrees \
  note; do
  has "\"$key\":"
done
[ "$(grep -o '"id":' "$work/out" | wc -l)" = 18 ] || fail "table1 has not 18 rows"
expect 0 "$sim" table1
yes=$(grep -c ' yes ' "$work/out")
[ "$yes" -ge 5 ] || fail "only $yes rows agree with the paper: $(cat "$work/out")"
# The column agrees with the notes for any number of rounds; after very few it is empty.
for rounds in 30 300 1600 3000 32000; do
  for seed in 1 2 3; do
    expect 0 "$sim" table1 --rounds "$rounds" --seed "$seed"
    # shellcheck disable=SC2013 # notes are words
    for note in $(sed -n 's/^\(([0-9])\) .*\(no reading gives\|the reading that fits\).*/\1/p' \
      "$work/out"); do
      grep -q " yes *$note" "$work/out" &&
        fail "agrees, and no reading does: $rounds rounds, seed $seed"
    done
    [ "$rounds" -gt 30 ] || ! grep -q ' yes ' "$work/out" ||
      fail "$rounds rounds agree with the paper"
  done
done

# ---- check
expect 3 "$sim" check "$examples/schedule-opposite.json"; has 'GPU 0 waits for "layer0#0"'
has 'held back by GPU 1'
expect 3 "$sim" check "$examples/schedule-opposite.json" --json
has '{"deadlock":true,"cycle":\[{"gpu":0,"waits_for":"layer0#0"'; has '"held_by":1}'
expect 0 "$sim" check "$examples/schedule-opposite.json" --model sync --json
has '"deadlock":false,"cycle":\[\]'
expect 3 "$sim" check "$examples/schedule-three-gpus.json"; has 'GPU 2 waits for "c#0"'
echo '{"gpus":{"0":[{"coll":"x#0","group":"all"},{"sync":true},{"coll":"y#0","group":"all"}]},"groups":{"all":[0,1]}}' >"$work/rank-0.json"
echo '{"gpus":{"1":[{"coll":"y#0","group":"all"},{"sync":true},{"coll":"x#0","group":"all"}]},"groups":{"all":[0,1]}}' >"$work/rank-1.json"
expect 3 "$sim" check "$work/rank-0.json" "$work/rank-1.json"; has '2 GPUs, 1 group,'
expect 3 "$sim" check "$work/rank-0.json"; has 'which GPU 1 never invokes (it has no events at all)'
expect 3 "$sim" check "$work/rank-0.json" --json; has '"never_invoked_by":\[1\]'; has '"cycle":\[\]'
# In recordings that end before their programs, only a circle, or a member whose list is complete,
# proves a deadlock.
recording() { # FILE GPU RECORDED EVENT...
  file=$1 gpu=$2 recorded=$3 events=
  shift 3
  for event; do events="$events${events:+,}{\"coll\":\"$event#0\",\"group\":\"all\"}"; done
  echo "{\"gpus\":{\"$gpu\":[$events]},\"groups\":{\"all\":[0,1,2]},\"recorded\":\"$recorded\"}" \
    >"$work/$file.json"
}
cut() { expect "$1" "$sim" check "$work/r0.json" "$work/r1.json" "$work/r2.json" ${2:+"$2"}; }
recording r0 0 whole a b; recording r1 1 'cut short' a; recording r2 2 whole a b
cut 0
has '^the recording of GPU 1 is cut short: '; has '^no deadlock as far as recorded, but GPUs wait'
has '2 GPUs wait for "b#0" of group "all", which GPU 1 never invokes as far as recorded'
cut 0 --json
has '"deadlock":false'; has '"unfinished":\[{"gpu":1,"recorded":"cut short"}\],"unfinished_count":1'
has '"never_invoked_by":\[1\]'
recording r1 1 'so far' a b
cut 0; has '^the recording of GPU 1 has no end: '
has '^no deadlock as far as recorded: every collective completes'
recording r1 1 'cut short' b a
cut 3; has '^the recording of GPU 1 is cut short: '
has '^DEADLOCK, whatever the timing: as far as recorded, 3 GPUs never'
has 'GPU 0 waits for "a#0"'
recording r1 1 'cut short' a; recording r2 2 whole a
cut 3; has '"b#0" of group "all", which GPU 1 and 1 other member never invoke as far as recorded'
recording r1 1 whole a b; recording r2 2 whole a b
cut 0; has '^no deadlock: every'; grep -q recording "$work/out" &&
  fail "a whole recording is called something else"
cut 0 --json; has '"unfinished":\[\],"unfinished_count":0'
recording r1 1 'half' a b
refuse "$sim" check "$work/r1.json"
says 'recorded: expected "whole", "so far" or "cut short", not "half"'
refuse "$sim" check "$work/rank-0.json" "$work/rank-0.json"; says 'gpus.0: a file before it'
echo '{"gpus":{},"groups":{"all":[1,0]}}' >"$work/other.json"
refuse "$sim" check "$work/rank-0.json" "$work/other.json"; says 'groups.all: the members differ'
# Traces of torch: the circle has numbers and places of calls; pickles and mixtures are refused.
dump() { # RANK OPERATION...
  file=$work/rank_$1.json entries='' record=0
  shift
  for operation; do
    entries="$entries${entries:+,}{\"record_id\":$record,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":$((record + 1)),"
    entries="$entries\"profiling_name\":\"nccl:$operation\",\"frames\":[{\"name\":\"step\",\"filename\":\"train.py\",\"line\":4$record}]}"
    record=$((record + 1))
  done
  printf '{"version":"2.10","pg_config":{"0":{"ranks":"[0, 1]"}},"entries":[%s]}\n' "$entries" \
    >"$file"
}
dump 0 all_reduce broadcast; dump 1 all_reduce broadcast
expect 0 "$sim" check "$work/rank_0.json" "$work/rank_1.json"; has '4 calls'
has '^no deadlock as far as recorded: every'
dump 1 broadcast all_reduce
expect 3 "$sim" check "$work/rank_0.json" "$work/rank_1.json"
has 'GPU 0 waits for "all_reduce #1" of group "0 (default_pg)", held back by GPU 1'
has '^    GPU 0: its call 1, at train.py:40 in step$'
has '^    GPU 1: its call 2, at train.py:41 in step$'
expect 3 "$sim" check --json "$work/rank_0.json" "$work/rank_1.json"
has '"call":1,"at":"train.py:40 in step","held_by_call":2,"held_by_at":"train.py:41 in step"}'
has '"notes":\[\]'
expect 0 "$sim" check --model sync "$work/rank_0.json" "$work/rank_1.json"
dump 1 all_reduce
expect 0 "$sim" check "$work/rank_0.json" "$work/rank_1.json"
has 'the last call of GPU 1 is "all_reduce #1"'
refuse "$sim" check "$work/rank_0.json" "$work/rank-0.json"
says 'rank-0.json: a schedule, but .*rank_0.json is a trace'
cp "$work/rank_0.json" "$work/again_rank_0.json"
refuse "$sim" check "$work/rank_0.json" "$work/again_rank_0.json"
says 'rank 0: a file before it has'
cp "$work/rank_0.json" "$work/dump"
refuse "$sim" check "$work/dump" "$work/rank_1.json"; says 'dump: which rank is it'
expect 3 "$sim" check "$work/dump"; has 'neither the file nor its name has the rank'

# ---- no collective
for nothing in '{"schema":"1.0.1","nodes":[]}' '{"pg_config":{},"entries":[]}' '[{"a":1}]'; do
  printf '%s\n' "$nothing" >"$work/rank_0.json"
  expect 0 "$sim" check "$work/rank_0.json"; has '^0 collectives were found'
  if grep -q 'no deadlock' "$work/out"; then fail 'a judgement on nothing'; fi
  expect 0 "$sim" check "$work/rank_0.json" --json; has '"collectives":0,'
done
printf '\200\002}q.' >"$work/rank_9"
refuse "$sim" check "$work/rank_9"; says 'rank_9: a pickle.*python -m dfccl.flight to-json'
refuse "$sim" check; says 'schedule file'

# ---- sweep and explain
expect 0 "$sim" sweep "$examples/3d-64-gpus.json" --disorder 1e-3:1e-2:3 --sync 1e-3:1e-2:2 \
  --rounds 200 --csv
has '^disorder,sync,rounds,deadlocks,ratio,ci95_low,ci95_high$'
[ "$(wc -l <"$work/out")" = 7 ] || fail "sweep: $(wc -l <"$work/out") lines of CSV"
expect 0 "$sim" sweep "$examples/3d-64-gpus.json" --disorder 1e-3:1e-2:3 --sync 1e-3:1e-2:2 \
  --rounds 200 --svg "$work/map.svg"
grep -q 'synchronisation probability' "$work/map.svg" && grep -q '</svg>' "$work/map.svg" ||
  fail "no picture"
expect 0 "$sim" sweep "$examples/single-queue-64-gpus.json" --disorder 1e-7:1e-5:5 --rounds 200 \
  --svg "$work/curve.svg" --csv "$work/curve.csv"
grep -q '<polyline' "$work/curve.svg" || fail "no curve"
[ "$(wc -l <"$work/curve.csv")" = 6 ] || fail "no table"
# A picture labels both ends and the decades, shows small ratios on a logarithmic axis, and prints a
# 0 with its bound.
labels() { sed -n "s/.*class=\"$1\".*>\\([^<]*\\)<\\/text>.*/\\1/p" "$2" | tr '\n' ' '; }
expect 0 "$sim" sweep "$examples/single-queue-64-gpus.json" --disorder 3e-10:2e-6:6 --rounds 4000 \
  --svg "$work/small.svg"
[ "$(labels x "$work/small.svg")" = "3e-10 1e-9 1e-8 1e-7 1e-6 2e-6 " ] ||
  fail "x labels: $(labels x "$work/small.svg")"
[ "$(labels y "$work/small.svg")" = "0.001% 0.01% 0.1% 1% 10% 100% " ] ||
  fail "y labels: $(labels y "$work/small.svg")"
grep -q 'in % (log scale)' "$work/small.svg" || fail "small ratios on a linear axis"
grep -q '0 of 4000, below 0.0959%</title></path>' "$work/small.svg" || fail "a 0 without its bound"
grep -q '>0 of 4000:</text>' "$work/small.svg" ||
  fail "the legend does not tell what none seen means"
expect 0 "$sim" sweep "$examples/single-queue-64-gpus.json" --disorder 2e-6:1e-5:5 --rounds 400 \
  --svg "$work/wide.svg"
[ "$(labels x "$work/wide.svg")" = "2e-6 5e-6 1e-5 " ] ||
  fail "x labels: $(labels x "$work/wide.svg")"
grep -q 'in %</text>' "$work/wide.svg" || fail "ratios of one size on a logarithmic axis"
expect 0 "$sim" sweep "$examples/3d-64-gpus.json" --disorder 1e-4:3e-2:6 --sync 1e-3:1e-2:4 \
  --rounds 400 --svg "$work/map.svg"
[ "$(labels x "$work/map.svg")" = "1e-4 0.001 0.01 0.03 " ] ||
  fail "x labels: $(labels x "$work/map.svg")"
[ "$(labels y "$work/map.svg")" = "0.001 0.002 0.005 0.01 " ] ||
  fail "y labels: $(labels y "$work/map.svg")"
grep -q '>&lt;0.95%</text>' "$work/map.svg" || fail "a cell's 0 without its bound"
grep -q '>none seen</text>' "$work/map.svg" || fail "no legend of none seen"
expect 0 "$sim" sweep "$examples/3d-64-gpus.json" --disorder 1e-6:3e-2:2 --rounds 400
has ' <0.951 '
refuse "$sim" sweep "$examples/3d-64-gpus.json" --disorder 1:2; says 'FIRST:LAST:POINTS'
refuse "$sim" sweep "$examples/3d-64-gpus.json" --disorder 0.1:0.01:3; says '--disorder'
refuse "$sim" sweep "$examples/3d-64-gpus.json"; says '--disorder'
expect 1 "$sim" sweep "$examples/3d-64-gpus.json" --disorder 1e-3:1e-2:2 --rounds 10 --svg \
  "$work/no/map.svg"
expect 0 "$sim" explain "$examples/single-queue-64-gpus.json" --seed 1 --round 0
has '^Round 0 of seed 1'
round=$(sed -n 's/.*--round \([0-9]*\)$/\1/p' "$work/out")
if [ -n "$round" ]; then
  expect 0 "$sim" explain "$examples/single-queue-64-gpus.json" --seed 1 --round "$round"
  has 'DEADLOCK'; has 'The circle'; has 'in its expected order: every collective completes'
fi

# ---- output that goes nowhere is a failed run
if [ -c /dev/full ]; then
  config=$examples/3d-64-gpus.json sweep="--disorder 1e-3:1e-2:2 --rounds 10"
  for arguments in --help --version 'table1 --rounds 10' 'table1 --rounds 10 --json' \
    "check $examples/schedule-opposite.json" "check $examples/schedule-opposite.json --json" \
    "run $config --rounds 10" "run $config --rounds 10 --json" "explain $config" \
    "sweep $config $sweep" "sweep $config $sweep --csv" "sweep $config $sweep --csv /dev/full" \
    "sweep $config $sweep --svg /dev/full" "sweep $config $sweep --svg -"; do
    # shellcheck disable=SC2086
    "$sim" $arguments >/dev/full 2>"$work/err"
    status=$?
    [ "$status" = 1 ] || fail "status $status with a full disk: $arguments"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "not one sentence about a full disk: $arguments"
    says 'cannot be written'
    grep -q ' -: ' "$work/err" && fail "standard output is called \"-\": $arguments"
  done
fi

# ---- time
expect 0 "$sim" time allreduce -n 8 -b 1K..4K --network "$examples/network-fat-tree.json"
has 'among 8 ranks on 1 host;'; has ' ring '
has '^ *1024 fastest: '; has '^ *4096 fastest: '
# Work that takes minutes or hours on any machine: its first rows and its progress come early.
early() { "$seen" "$@" || fail "not seen early: $*"; }
long_time='time allreduce -n 64 -b 4K..16G --slot 1K'
# shellcheck disable=SC2086 # a list of words
{
  early pipe 'fastest: ' "$sim" $long_time
  early terminal 'ring, [0-9]+ bytes: [0-9.]+%, [0-9]+ s' "$sim" $long_time --algorithm ring
}
early terminal 'hierarchical, [0-9]+ bytes: [0-9.]+%' \
  "$sim" time allreduce -n 1024 -b 64M --network "$examples/network-fat-tree.json" \
  --algorithm hierarchical
for threads in 1 2; do
  early terminal 'rounds: [0-9.]+%, [0-9]+ s, about [0-9]+ s left' "$sim" run \
    "$examples/3d-64-gpus.json" --check reference --rounds 10000000 --threads $threads
  early terminal 'rounds: [0-9.]+%' "$sim" run "$examples/3d-64-gpus.json" --rounds 1000000000 \
    --engine dense --threads $threads
  early terminal 'rounds: [0-9.]+%' "$sim" run "$examples/3d-64-gpus.json" --rounds 1000000000 \
    --threads $threads
done
early terminal '[a-z0-9-]+: [0-9.]+%' "$sim" table1 --reference --threads 2
early pipe 'free \(1,8\) +161 +1e-05' "$sim" table1 --rounds 10000000
expect 0 "$sim" time broadcast -n 6 --algorithm ring --json; has '"operation":"broadcast"'
has '"bound_percent":'; has '"slots_us":'
expect 0 "$sim" time allgather -n 4 --algorithm ring --trace "$work/trace.json"
grep -q '"waits for a message of rank 3"' "$work/trace.json" || fail "no wait in the picture"
refuse "$sim" time; says 'time needs one operation'
refuse "$sim" time allreduce; says 'number of ranks'
refuse "$sim" time allreduce -n 4097; says 'from 2 to 4096'
refuse "$sim" time allreduce -n 8 -b 4..1; says 'such as 16M..1G, not "4..1"'
refuse "$sim" time allreduce -n 8 -b 65G; says 'not "65G"'
refuse "$sim" time allreduce -n 8 --slot 8; says '--slot: expected a size from 64'
refuse "$sim" time allreduce -n 8 --algorithm bruck; says 'allreduce has no algorithm "bruck"'
refuse "$sim" time allreduce -n 8 --algorithm twolevel; says 'twolevel needs several hosts'
refuse "$sim" time allreduce -n 8 --trace "$work/trace.json"; says 'needs one --algorithm'
refuse "$sim" time allgather -n 2048 -b 64G --slot 64 --algorithm ring; says 'take larger slots'
network() {
  printf '%s' "$1" >"$work/network.json"
  refuse "$sim" time allreduce -n 8 --network "$work/network.json"
}
network '{"ranks_per_host": 0}'
says 'ranks_per_host: expected a whole number from 1 to 4096, not 0'
network '{"ranks_per_host": [4, 3]}'; says 'has 7 ranks, not 8'
network '{"ranks_per_host": [4, 4, 1]}'; says 'has more than 8 ranks'
network '{"between": {"GBps": 0}}'; says 'between.GBps is 0; it must be a number from 1e-9'
network '{"between": {"speed": 1}}'; says 'between.speed: unknown key'
network '{"between": 3}'; says 'between is 3, not an object'
network '{"switch": {"hosts": 2}}'; says 'switch.GBps is missing'
network '{"switch": {"GBps": 2}}'; says 'switch.hosts is missing'
network '{"inside": {"GBps": 1, "GBps": 2}}'; says 'GBps'
network '{"wire": 1}'; says 'wire: unknown key'
network '{"contention": 0}'; says 'contention is 0; it must be true or false'
network '['; says 'network.json'
network '{
"ports": [{"host": 3, "GBps": 0}]}'
says 'network.json: line 2: ports\[0\].GBps is 0; it must be a number from 1e-9'
network '{"ports": [{"host": 8, "GBps": 1}]}'
says 'ports\[0\].host: expected a whole number from 0 to 7, not 8'
network '{"ports": [{"host": 1, "out_GBps": -2}]}'; says 'ports\[0\].out_GBps is -2'
network '{"ports": [{"host": 1, "rank": 1, "GBps": 1}]}'
says 'must have one of host, rank and switch'
network '{"ports": [{"host": 1}]}'; says 'has neither a rate nor a latency'
network '{"ports": [{"host": 1, "GBps": 1, "in_GBps": 2}]}'
says 'has GBps, and out_GBps or in_GBps too'
network '{"ports": {"host": 1}}'; says 'ports is an object, not a list'
network '{"pairs": [{"from": 1, "to": 1, "GBps": 1}]}'; says 'must have two different hosts'
network '{"pairs": [{"from": 0, "to": 1, "GBps": 1},
{"from": 1, "to": 0, "out_GBps": 1}]}'; says 'two rates from host 1 to host 0'
network '{"links": [
{"from": "rank 0",
"to": "rank 9", "GBps": 1}]}'; says 'line 3: links\[0\].to is "rank 9"; it must be "rank N"'
network '{"links": [{"from": "rank 0", "to": "rank 1", "GBps": 1}]}'
says 'rank 0 cannot be reached from rank 2'
network '{"switches": 1}'; says 'switches needs links'
network '{"switches": 300, "links": []}'; says 'expected a whole number from 0 to 256, not 300'

# ---- hostile input ends in one sentence, soon
for text in '' '{' '[' 'null' '{"groups":' '{"rounds":99999999999999999999999999}' '{"model":{}}' \
  '{"a":1,"a":2}'; do
  printf '%s' "$text" >"$work/bad.json"
  refuse "$sim" run "$work/bad.json"
  refuse "$sim" check "$work/bad.json"
done
head -c 3000000 /dev/zero | tr '\0' '[' >"$work/bad.json"
refuse "$sim" check "$work/bad.json"; says 'nested too deeply'
: >"$work/zeros.json"
truncate -s 1G "$work/zeros.json"
refuse timeout 60 "$sim" run "$work/zeros.json"; says 'longer than the 64 MiB'
refuse timeout 60 "$sim" check "$work/zeros.json"; says 'longer than the 512 MiB'

[ "$failed" = 0 ] && echo "all as expected"
exit "$failed"
