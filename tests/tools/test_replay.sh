# shellcheck shell=sh
# Promise: dfccl-bench replay executes every call that a trace has a counterpart for, in the order
# of the file or in a random one on each rank, by each engine, with no element wrong. It counts and
# names the calls that have none. Input that cannot be replayed gets one sentence that names the
# file and the place, with status 2, before anything runs.
#
#   test_replay.sh DFCCL_BENCH DFCCL_DEMO DFCCL_SIM REPLAY_TRACES
set -u
. "$(dirname "$0")/check.sh"
bench=$1 demo=$2 sim=$3
python3 "$4" "$work" || fail "no traces"

# complete_run CALLS FILE...: all calls run, and all elements are right.
complete_run() {
  calls=$1
  shift
  run 0 "$bench" replay "$@" --iterations 1 --json
  json "o['runs'] == o['calls'] == o['file_calls'] == $calls and o['wrong'] == 0 == o['left_out']"
}

for order in given shuffle; do
  complete_run 18 "$work"/param_rank?.json --order $order
  complete_run 10 "$work"/execution_rank?.json --order $order
  complete_run 16 "$work"/flight_rank?.json --order $order
  complete_run 4 "$work"/lines_rank?.jsonl --order $order
  for engine in dfccl coordinator first-step; do
    complete_run 76 "$work/program.jsonl" --engine $engine --order $order
  done
done
complete_run 76 "$work/program.jsonl" --order priority
complete_run 76 "$work/program.jsonl" --engine ordered
complete_run 76 "$work/program.jsonl" --processes --order shuffle --compute sleep -n 4
complete_run 76 "$work/program.jsonl" --processes --engine coordinator --compute memory
complete_run 10 "$work/execution_rank0.json" -n 2
json "o['ranks'] == 2 and o['seconds'] > 0"
json "abs(o['hidden_s'] - o['communication_s'] + o['exposed_s']) < 1e-9"
run 0 "$bench" replay "$work/program.jsonl" --scale 0.5:0.5:2 --json
json "o['runs'] == o['calls'] == 60 and o['file_calls'] == 76 and o['wrong'] == 0"
run 0 "$bench" replay "$work/program.jsonl" --engine coordinator
out_has '^  rounds of an iteration  +[0-9.]+$'
out_has '^  wrong elements  +0$'

# A recording of this library, and the verdict of the simulator about the same files.
mkdir "$work/record"
DFCCL_RECORD=$work/record run 0 "$demo" disorder -n 2 -c 6 -i 2
recorded=$(cat "$work"/record/rank-*.json | grep -c '"coll"')
complete_run "$recorded" "$work"/record/rank-0.json "$work"/record/rank-1.json --order shuffle
run 0 "$sim" check "$work/program.jsonl"
out_has '76 calls'

# Calls without a counterpart.
run 0 "$bench" replay "$work"/short_rank?.json --json
json "o['left_out'] == 3 and o['runs'] == 10 and o['file_calls'] == 13"
json "any('broadcast' in name for name in o['left_out_calls'])"
err_has '^note: 3 of 13 calls have no counterpart'
run 0 "$bench" replay "$work"/message_rank?.json --json
json "o['left_out'] == 1 and o['runs'] == 4 and 'from 0 to 1' in o['left_out_calls'][0]"
err_has '1 of 2 members call it'

# refused PATTERN ARGUMENTS...: one sentence, nothing runs.
refused() {
  pattern=$1
  shift
  usage_error "$bench" replay "$@"
  err_has "$pattern"
}
refused 'unknown.jsonl: line 2, collective: unknown operation "allshuffle"' "$work/unknown.jsonl"
{
  echo '{"trace":"many","ranks":1048576}'
  yes '{"collective":"barrier"}' | head -1000
} >"$work/many.jsonl"
refused '1000 lines for each of 1048576 ranks are more than' "$work/many.jsonl"
refused 'negative.jsonl: line 2, bytes: expected .*-4' "$work/negative.jsonl"
refused 'twice.jsonl: line 1, group: a rank is in the group twice' "$work/twice.jsonl"
refused 'overlap.jsonl: line 1, group: the groups overlap' "$work/overlap.jsonl"
refused 'no-group.jsonl: line 2, group: .* "tp"' "$work/no-group.jsonl"
refused 'no-rank.jsonl: line 2, group: there is no rank 5 of 2' "$work/no-rank.jsonl"
refused 'no-size.jsonl: line 1, bytes: is missing' "$work/no-size.jsonl"
refused 'key.jsonl: line 1: unknown key "bites"' "$work/key.jsonl"
refused 'depends.jsonl: line 1, depends: .*"later"' "$work/depends.jsonl"
refused 'root.jsonl: line 1, root: .*2' "$work/root.jsonl"
refused 'nothing.jsonl: there are no calls' "$work/nothing.jsonl"
refused 'cut.jsonl: line 2, column [0-9]+: .*cut short' "$work/cut.jsonl"
refused 'empty.jsonl: .*the file is empty' "$work/empty.jsonl"
refused 'no.jsonl: cannot be opened' "$work/no.jsonl"
refused 'param-unknown.json: call 1: unknown operation "all_shuffle' "$work/param-unknown.json" -n 2
refused 'param-negative.json: \[0\].in_msg_size: .*-4' "$work/param-negative.json" -n 2
refused 'flight-negative.json: entries\[1\].input_sizes' "$work/flight-negative.json" -n 2
refused 'circle_rank0.json: 2 ranks wait for each other in a circle' "$work"/circle_rank?.json
refused 'rank 1 of 3 has no file' "$work"/gap_rank?.jsonl
refused 'rank 1 of 2 has no file' "$work/flight_rank0.json"
refused 'ranks 0 and 1 differ in .* "x#0"' "$work"/differ-?.json
refused 'without op, type and count' "$(dirname "$0")/../simulator/corpus/schedule_circle.json"
refused 'the program of 4 ranks, not of 3' "$work/program.jsonl" -n 3
refused 'buffers need .* use --scale' "$work/program.jsonl" --scale 1000000
refused "option --scale wants .* '0'" "$work/program.jsonl" --scale 0
refused "option --scale wants" "$work/program.jsonl" --scale 1:2
refused "option --engine: unknown word 'dfcl'; perhaps it should be dfccl" x --engine dfcl
refused "option --order: unknown word" x --order sorted
refused "engine ordered has the order of the file" x --engine ordered --order shuffle
refused 'replay wants a file'
truncate -s 4G "$work/large.jsonl"
refused 'large.jsonl: longer than the 512 MiB' "$work/large.jsonl"
lost_output "$bench" replay "$work/program.jsonl" --json
finish
