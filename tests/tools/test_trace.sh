#!/bin/sh
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promise: dfccl-trace reads the files that the ranks of a job wrote with DFCCL_TRACE. For each
# collective it prints the runs, their time and the last rank. It converts the times of all hosts to
# one clock. It writes a file for Perfetto in which no two spans of a thread overlap. For an invalid
# trace it prints file and line. It accepts a trace that ends in the middle of a line.
. "$(dirname "$0")/check.sh"
trace=$1 demo=$2

usage_error "$trace"
usage_error "$trace" a b
usage_error "$trace" --no-such-option a
run 0 "$trace" --help
out_has "^usage: dfccl-trace "
run 0 "$trace" --version
run 1 "$trace" "$work/nowhere"
err_has "nowhere/rank-\*.trace matches no file"

# The traces of one job.
mkdir "$work/job"
run 0 env DFCCL_TRACE="$work/job" "$demo" disorder -n 3 -c 4 -i 10 --sync
run 0 "$trace" "$work/job" --json
json "o['ranks'] == 3 and [t['rank'] for t in o['traces']] == [0, 1, 2] and all(t['whole'] for t in o['traces'])"
json "len(o['collectives']) == 4 and all(c['runs'] == 10 and c['failed'] == 0 for c in o['collectives'])"
json "all(c['operation'] == 'AllReduce' and c['members'] == 3 and c['time_us_median'] > 0 for c in o['collectives'])"
run 0 "$trace" "$work/job" -o "$work/perfetto.json"
out_has "AllReduce"
python3 - "$work/perfetto.json" <<'PYTHON' || fail "the file for Perfetto"
import collections, json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
spans = [e for e in events if e["ph"] == "X"]
named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
runs = [e for e in spans if "run" in e.get("args", {})]
assert len(runs) == 3 * 4 * 10, len(runs)
assert any(e["name"] == "dfcclDeviceSynchronize" for e in spans)
threads = collections.defaultdict(list)
for e in spans:
    assert (e["pid"], e["tid"]) in named, e
    threads[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
for thread in threads.values():
    thread.sort()
    for (_, end), (begin, _) in zip(thread, thread[1:]):
        assert begin >= end - 0.002, (end, begin)
PYTHON
run 1 "$trace" "$work/job" -o /no/such/directory/file
err_has "/no/such/directory/file cannot be written"
lost_output "$trace" "$work/job"

# Two hosts. The clock of rank 1 is 7 s behind; the runs prove at least 6.9 s. Rank 2 has the same
# clock as rank 1.
mkdir "$work/hosts"
head_of() { # RANK HOST UNIX_NS
  printf '{"dfccl_trace":1,"rank":%d,"ranks":3,"host":"%s","process":1,"clock_ns":0,"unix_ns":"%s"}\n' "$1" "$2" "$3"
}
described='{"collective":1,"id":"18446744073709551615","name":"a \"name\"","operation":"AllReduce","bytes":8,"group":[0,1,2],"algorithm":"a \"file\""}'
{ head_of 0 one 1000000000000000000; echo "$described"
  echo '{"run":0,"of":1,"from":1000000000,"to":1100000000,"status":0}'
  } >"$work/hosts/rank-0.trace"
{ head_of 1 two 999999993000000000; echo "$described"
  echo '{"run":0,"of":1,"from":1050000000,"to":1090000000,"status":0}'; echo '{"end":"whole"}'
  } >"$work/hosts/rank-1.trace"
{ head_of 2 two 999999993000000500; echo "$described"
  echo '{"run":0,"of":1,"from":1060000000,"to":1100000000,"status":0}'; printf '{"run":1,"of":1,"fr'
  } >"$work/hosts/rank-2.trace"
run 0 "$trace" "$work/hosts" --json
json "[t['host'] for t in o['traces']] == ['one', 'two', 'two'] and [t['whole'] for t in o['traces']] == [False, True, False]"
# No end of rank 1 or 2 may precede the submission of rank 0, so the difference is at least
# 7 s - 90 ms.
json "[round(t['clock_moved_us']) for t in o['traces']] == [0, 6910000, 6910000]"
json "o['collectives'] == [dict(o['collectives'][0], id='18446744073709551615', name='a \"name\"', runs=1, last_share=1)]"
run 0 "$trace" "$work/hosts" -o "$work/two.json"
out_has "The clock of rank 1 \(two\) was moved by 6910000.0 us"
out_has "The trace of rank 2 has no end"
python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/two.json" ||
  fail "a name with quotes"

# A failed run, a run without elements, and a run with pieces of different sizes may end on a member
# before another member submits them.
described2='{"collective":2,"id":"2","name":"none","operation":"AllReduce","bytes":0,"group":[0,1],"algorithm":"ring"}'
described3='{"collective":3,"id":"3","name":"uneven","operation":"AllGatherV","bytes":8,"group":[0,1],"algorithm":"direct"}'
rm -rf "$work/early" && mkdir "$work/early"
{ head_of 0 one 1000000000000000000; printf '%s\n' "$described" "$described2" "$described3"
  for of in 1 2 3; do
    echo '{"run":0,"of":'$of',"from":1000,"to":2000,"status":'$((of == 1 ? 8 : 0))'}'
  done
} >"$work/early/rank-0.trace"
{ head_of 1 two 1000000000000000000; printf '%s\n' "$described" "$described2" "$described3"
  for of in 1 2 3; do
    echo '{"run":0,"of":'$of',"from":5000,"to":6000,"status":'$((of == 1 ? 6 : 0))'}'
  done
} >"$work/early/rank-1.trace"
run 0 "$trace" "$work/early" --json
json "[t['clock_moved_us'] for t in o['traces']] == [0, 0]"

# Rank 2 registers for the first time an id that the others have used in another group.
rm -rf "$work/again" && mkdir "$work/again"
group_of() { # NUMBER GROUP
  printf '{"collective":%d,"id":"1","name":"again","operation":"AllReduce","bytes":8,"group":[%s],"algorithm":"ring"}\n' "$1" "$2"
  echo '{"run":0,"of":'"$1"',"from":'"$1"'000,"to":'"$1"'500,"status":0}'
}
for rank in 0 1; do
  { head_of $rank one 1; group_of 1 0,1; group_of 2 0,1,2; } >"$work/again/rank-$rank.trace"
done
{ head_of 2 one 1; group_of 2 0,1,2; } >"$work/again/rank-2.trace"
run 0 "$trace" "$work/again" --json
json "[(c['members'], c['runs']) for c in o['collectives']] == [(2, 1), (3, 1)]"
[ "$("$trace" "$work/again" | grep -c "ring, again$")" -eq 2 ] || fail "two groups are not two rows"

# The configuration of each run, and its reason: a switch at run 2 that is written before the end of
# run 1; and the same for an older trace.
rm -rf "$work/switch" && mkdir "$work/switch"
for rank in 0 1; do
  { head_of $rank one 1
    echo "${described%?},\"blocks\":1,\"slots\":4,\"slot_bytes\":64,\"from_run\":0,\"at\":5,\"purpose\":\"registered\",\"why\":\"a rule\"}"
    echo '{"run":0,"of":1,"from":1000,"to":2000,"status":0}'
    echo "${described%?},\"algorithm\":\"ring\",\"switch\":1,\"from_run\":2,\"at\":2500,\"purpose\":\"candidate\",\"why\":\"a trial\"}" |
      sed 's/"algorithm":"a \\"file\\"",//'
    echo '{"run":1,"of":1,"from":2000,"to":4000,"status":0}'
    echo '{"run":2,"of":1,"from":4000,"to":9000,"status":0}'
    echo '{"run":3,"of":1,"from":9000,"to":14000,"status":0}'
  } >"$work/switch/rank-$rank.trace"
done
run 0 "$trace" "$work/switch" --json
json "[(c['from_run'], c['runs'], c['time_us_median'], c['purpose'], c['why']) for c in
  o['collectives'][0]['configurations']] == [(0, 2, 1.5, 'registered', 'a rule'), (2, 2, 5, 'candidate', 'a trial')]"
run 0 "$trace" "$work/switch" -o "$work/switch.json"
out_has "^ *0 +2 +1.5  a .file., 1 block, 4 slots of 64 bytes: a rule"
out_has "^ *2 +2 +5.0  ring, .*: a trial"
python3 - "$work/switch.json" <<'PYTHON' || fail "switches in the file for Perfetto"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
runs = [(e["args"]["run"], e["args"]["why"]) for e in events if e["ph"] == "X" and e["pid"] == 1]
assert runs == [(0, "a rule"), (1, "a rule"), (2, "a trial"), (3, "a trial")], runs
marks = [(e["pid"], e["name"], e["ts"], e["args"]["from_run"]) for e in events if e["ph"] == "i"]
assert marks == [(0, "candidate", 1.5, 2), (1, "candidate", 1.5, 2)], marks
PYTHON
for rank in 0 1; do
  sed -i 's/,"switch.*/}/; s/,"from_run.*/}/' "$work/switch/rank-$rank.trace"
done
run 0 "$trace" "$work/switch" --json
json "[(c['from_run'], c['runs'], c['why']) for c in o['collectives'][0]['configurations']] == [(0, 1, ''), (1, 3, '')]"

# Invalid traces.
refuse() { # LINES SENTENCE [LINE]
  rm -rf "$work/bad" && mkdir "$work/bad"
  { head_of 0 one 1000000000000000000; echo "$described"; printf '%s\n' "$1"
  } >"$work/bad/rank-0.trace"
  run 1 "$trace" "$work/bad"
  err_has "rank-0.trace:${3:-3}: $2"
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one sentence about: $1"
}
refuse 'x' "the line is no JSON object"
refuse '[]' "the line is no JSON object"
refuse '{}' "the line does not have a format of DFCCL_TRACE"
refuse '{"run":0,"of":2,"from":1,"to":2,"status":0}' "no earlier line has this number"
refuse '{"run":0,"of":1,"from":3,"to":2,"status":0}' "from and to are not times in nanoseconds"
refuse '{"run":0,"of":1,"from":-3,"to":2,"status":0}' "from and to are not times in nanoseconds"
refuse '{"run":0,"of":1,"from":1,"to":1e300,"status":0}' "from and to are not times in nanoseconds"
refuse '{"run":0,"of":1,"from":1,"to":2305843009213693952,"status":0}' \
  "from and to are not times in nanoseconds"
refuse "${described%?},\"from_run\":1,\"at\":9223372036854775808}" '"at" is not a time'
refuse '{"run":0,"of":1,"from":1,"to":2}' "the run has no status"
refuse '{"run":0.5,"of":1,"from":1,"to":2,"status":0}' "the line does not have"
refuse '{"collective":2,"id":"x","name":"","operation":"","bytes":1,"group":[0],"algorithm":""}' \
  "the collective lacks"
refuse "${described%?},\"from_run\":3}
${described%?},\"from_run\":2}" "from_run is less" 4
refuse '{"collective":2,"id":"1","name":"","operation":"","bytes":1,"group":[3],"algorithm":""}' \
  "the group has a rank"
refuse '{"collective":2,"id":"1","name":"","operation":"","bytes":1,"group":[],"algorithm":""}' \
  "the collective has no group"
refuse '{"collective":2,"id":"1","name":"","operation":"","bytes":1,"group":[0,0,0,0],"algorithm":""}' "the collective has no group"
: >"$work/bad/rank-0.trace"
run 1 "$trace" "$work/bad"
err_has "the file is empty"
head_of 3 one 1 >"$work/bad/rank-0.trace"
run 1 "$trace" "$work/bad"
err_has "rank-0.trace:1: rank or ranks is out of range"
head_of 0 one 1 >"$work/bad/rank-0.trace"
head_of 0 one 1 >"$work/bad/rank-1.trace"
run 1 "$trace" "$work/bad"
err_has "rank-1.trace:1: another file has the same rank"

finish
