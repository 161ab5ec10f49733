#!/bin/sh
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promise: dfccl-trace reads the files that the ranks of a job wrote with DFCCL_TRACE. For each
# signature, or each collective, it prints the runs, their time and the last rank, and for each rank
# the sums. It names the runs that failed and the ranks that never submitted them. It converts the
# times of all hosts to one clock. It writes a file for Perfetto in which no two spans of a thread
# overlap. For an invalid trace it prints file and line. It accepts a trace that ends in the middle
# of a line.
. "$(dirname "$0")/check.sh"
trace=$1 demo=$2 seen=$3

usage_error "$trace"
usage_error "$trace" a b
usage_error "$trace" --no-such-option a
usage_error "$trace" --sotr=time a
err_has "unknown option --sotr=time; perhaps it should be --sort \(try --help\)"
run 0 "$trace" --help
out_has "^usage: dfccl-trace "
run 0 "$trace" --version
run 1 "$trace" "$work/nowhere"
err_has "nowhere/rank-\*.trace matches no file \(set DFCCL_TRACE=.*nowhere for the job; a rank makes its file when it has joined the job\)"

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

# The ranks' sums, and the collectives in another order.
run 0 "$trace" "$work/job" --json
json "[t['runs'] for t in o['traces']] == [40, 40, 40] and sum(t['last'] for t in o['traces']) == 40"
json "all(t['time_us'] > t['wait_us'] >= 0 and t['callbacks_us'] > 0 and t['synchronisations_us'] > 0 and t['failed'] == t['missing'] == t['waiting'] == 0 for t in o['traces'])"
json "o['problems'] == [] and o['failures'] == [] and all(c['partial'] == 0 and c['type'] for c in o['collectives'])"
run 0 "$trace" "$work/job"
out_has "^ *2 +40 +0 +0 +0 "
grep -q "Failed and partial" "$work/out" && fail "problems of a job that had none"
for key in name bytes time wait total runs failed partial operation id; do
  run 0 "$trace" "$work/job" --json --sort $key
  case $key in
  name) json "[c['name'] for c in o['collectives']] == sorted(c['name'] for c in o['collectives'])" ;;
  bytes) json "[c['bytes'] for c in o['collectives']] == sorted((c['bytes'] for c in o['collectives']), reverse=True)" ;;
  time) json "[c['time_us_median'] for c in o['collectives']] == sorted((c['time_us_median'] for c in o['collectives']), reverse=True)" ;;
  wait) json "[c['wait_us_median'] for c in o['collectives']] == sorted((c['wait_us_median'] for c in o['collectives']), reverse=True)" ;;
  total) json "[c['time_us_total'] for c in o['collectives']] == sorted((c['time_us_total'] for c in o['collectives']), reverse=True)" ;;
  *) json "[int(c['id']) for c in o['collectives']] == sorted(int(c['id']) for c in o['collectives'])" ;;
  esac
done
usage_error "$trace" "$work/job" --sort size
err_has "one of id, name, operation, bytes, runs, failed, partial, time, wait, total, not 'size'"

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
out_has "^The traces of ranks 0, 2 have no end"
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

# A broken job of four ranks. Rank 2 submits run 0 only, and its trace is whole. Rank 3 was killed
# after run 0, so its trace has no end. Ranks 0 and 1 wait in runs 1 and 2 until rank 0 gives up and
# rank 1 is killed. Collective 2 is registered with different counts; it has no run.
rm -rf "$work/broken" && mkdir "$work/broken"
head4() { # RANK
  printf '{"dfccl_trace":1,"rank":%d,"ranks":4,"host":"one","process":1,"clock_ns":0,"unix_ns":"1000000000000000000"}\n' "$1"
  echo '{"collective":1,"id":"7","name":"grad","operation":"AllReduce","type":"float32","bytes":8,"group":[0,1,2,3],"algorithm":"ring"}'
  echo '{"run":0,"of":1,"from":1000,"to":2000,"status":0}'
}
{ head4 0
  echo '{"collective":2,"id":"8","name":"odd","operation":"Broadcast","type":"int8","bytes":3,"group":[0,1],"algorithm":"ring"}'
  echo '{"failure":2,"status":9,"at":2500,"why":"rank 0 registered 3, rank 1 registered 4"}'
  echo '{"waiting":1,"from_run":1,"until_run":2,"from":3000}'
  echo '{"waiting":1,"from_run":1,"until_run":3,"from":3000}'
  echo '{"broken":1,"status":8,"at":9000,"why":"run 1 of rank 0 did not complete"}'
  echo '{"failure":1,"status":8,"at":9000,"why":"run 1 of rank 0 did not complete"}'
  for run in 1 2; do echo '{"run":'$run',"of":1,"from":3000,"to":9000,"status":8}'; done
  echo '{"end":"whole"}'
} >"$work/broken/rank-0.trace"
{ head4 1; echo '{"waiting":1,"from_run":1,"until_run":3,"from":4000}'; } >"$work/broken/rank-1.trace"
{ head4 2; echo '{"end":"whole"}'; } >"$work/broken/rank-2.trace"
head4 3 >"$work/broken/rank-3.trace"
run 0 "$trace" "$work/broken" --json
json "[(c['id'], c['runs'], c['failed'], c['partial']) for c in o['collectives']] == [('7', 1, 0, 2), ('8', 0, 0, 0)]"
json "[(p['id'], p['first_run'], p['last_run']) for p in o['problems']] == [('7', 1, 2)]"
json "[m['outcome'] for m in o['problems'][0]['members']] == ['failed', 'waiting', 'never submitted', 'not in its trace']"
json "o['problems'][0]['members'][0]['status'] == 8 and o['problems'][0]['members'][0]['error']"
json "[(t['runs'], t['failed'], t['waiting'], t['missing']) for t in o['traces']] == [(1, 2, 0, 0), (1, 0, 2, 0), (1, 0, 0, 2), (1, 0, 0, 2)]"
json "o['traces'][0]['failure'] == {'status': 8, 'why': 'run 1 of rank 0 did not complete'} and 'failure' not in o['traces'][1]"
json "sorted((f['id'], f['rank'], f['failure']['status']) for f in o['failures']) == [('7', 0, 8), ('8', 0, 9)]"
run 0 "$trace" "$work/broken" -o "$work/broken.json"
out_has "^ *1 +0 +2 .* AllReduce, float32, ring, grad$"
out_has '^AllReduce "grad" \(id 7\), runs 1 to 2:$'
out_has "^    rank 2 never submitted them; its last one is run 0$"
out_has "^    rank 3: not in its trace, which has no end; its last one is run 0$"
out_has "^    rank 1 submitted and still waited at the end of its trace$"
out_has "^    rank 0 failed: ."
out_has "^    rank 0 reported: run 1 of rank 0 did not complete$"
out_has '^Broadcast "odd" \(id 8\) failed before its first run:$'
out_has "^    rank 0 reported: rank 0 registered 3, rank 1 registered 4$"
out_has "^All collectives of rank 0 ended:$"
out_has "^The traces of ranks 1, 3 have no end"
python3 - "$work/broken.json" <<'PYTHON' || fail "a broken job in the file for Perfetto"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
marks = sorted((e["pid"], e["name"]) for e in events if e["ph"] == "i")
assert marks == [(0, "failure of all collectives"), (0, "failure of grad"), (0, "failure of odd"),
                 (2, "never submitted: grad, run 1"), (3, "not in its trace: grad, run 1")], marks
waiting = [e for e in events if e["ph"] == "X" and e["pid"] == 1 and e["args"]["status"] == 7]
assert [e["args"]["run"] for e in waiting] == [1, 2] and all(e["args"]["error"] for e in waiting)
labels = {e["pid"]: e["args"]["labels"] for e in events if e["name"] == "process_labels"}
assert "2 failed, 0 waiting, 0 missing" in labels[0] and "2 missing" in labels[2], labels
PYTHON
# Rank 3 was killed in run 1, of which rank 0 has the end and rank 1 a failure. An all-reduce needs all
# members, so rank 3 has submitted runs 1 and 2; a broadcast proves nothing.
for rank in 0 1 2 3; do
  { head4 $rank
    [ $rank -eq 3 ] || echo '{"run":1,"of":1,"from":3000,"to":4000,"status":'$((rank == 1 ? 6 : 0))'}'
    [ $rank -eq 3 ] || echo '{"run":2,"of":1,"from":5000,"to":6000,"status":0}'
    [ $rank -eq 3 ] || echo '{"end":"whole"}'
  } >"$work/broken/rank-$rank.trace"
done
run 0 "$trace" "$work/broken" --json
json "[(c['runs'], c['failed'], c['partial']) for c in o['collectives']] == [(2, 1, 0)]"
json "[(p['first_run'], p['last_run']) for p in o['problems']] == [(1, 1)] and o['traces'][3]['missing'] == 0"
json "[m['outcome'] for m in o['problems'][0]['members']] == ['completed', 'failed', 'completed', 'lost from its trace']"
run 0 "$trace" "$work/broken"
out_has "^    rank 3 submitted, too: only the end of its trace is lost$"
sed -i 's/AllReduce/Broadcast/' "$work"/broken/rank-*.trace
run 0 "$trace" "$work/broken" --json
json "[(c['runs'], c['failed'], c['partial']) for c in o['collectives']] == [(1, 0, 2)] and o['traces'][3]['missing'] == 2"
json "[p['members'][3]['outcome'] for p in o['problems']] == ['not in its trace'] * 2"
# An empty trace among others is a rank whose program was killed at its start.
: >"$work/broken/rank-3.trace"
run 0 "$trace" "$work/broken"
out_has "^The traces of 1 of 4 ranks are missing: rank 3\.$"
out_has "^1 trace file is empty"
out_has "^    rank 3: its trace is missing$"

# Collectives of one signature are one line and one track. Rank 1 executes the second one otherwise.
rm -rf "$work/alike" && mkdir "$work/alike"
for rank in 0 1; do
  { head_of $rank one 1
    for of in 1 2 3 4; do
      bytes=8 algorithm=ring
      [ $of -ne 4 ] || bytes=16
      [ $of -ne 2 ] || algorithm=tree
      echo '{"collective":'$of',"id":"'$of'","name":"grad '$of'","operation":"AllReduce","type":"float32","bytes":'$bytes',"group":[0,1],"algorithm":"'$algorithm'"}'
      echo '{"run":0,"of":'$of',"from":'$of'000,"to":'$of'500,"status":0}'
    done
    echo '{"end":"whole"}'
  } >"$work/alike/rank-$rank.trace"
done
run 0 "$trace" "$work/alike" -o "$work/alike.json"
out_has "^ *3 +0 +0 .* 8  AllReduce, float32, several algorithms, grad 1 and 2 more$"
out_has "^ *1 +0 +0 .* 16  AllReduce, float32, ring, grad 4$"
out_has "^grad 1 and 1 more, AllReduce of 8 bytes$"
out_has "^grad 2, id 2, AllReduce$"
python3 - "$work/alike.json" <<'PYTHON' || fail "tracks of signatures"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
tracks = sorted(e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 0)
assert tracks == ["grad 1 and 2 more", "grad 4"], tracks
assert len({e["tid"] for e in events if e["ph"] == "X"}) == 2
PYTHON
run 0 "$trace" "$work/alike" --json
json "[(s['bytes'], s['collectives'], s['runs']) for s in o['signatures']] == [(8, 3, 3), (16, 1, 1)]"
json "[c['signature'] for c in o['collectives']] == [0, 0, 0, 1]"
run 0 "$trace" "$work/alike" --each --sort bytes -o "$work/each.json"
[ "$(grep -cE "^ *1 .* AllReduce, float32, (ring|tree), grad .$" "$work/out")" -eq 4 ] || fail "--each"
python3 - "$work/each.json" <<'PYTHON' || fail "tracks in the order of --sort"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
order = {e["tid"]: e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
assert [names[t] for t in sorted(order, key=order.get)] == ["grad 4", "grad 1", "grad 2", "grad 3"]
PYTHON

# A switch without any run; the times of the file for Perfetto begin with it.
rm -rf "$work/idle" && mkdir "$work/idle"
for rank in 0 1; do
  { head_of $rank one 1
    echo "${described%?},\"at\":5000,\"from_run\":0}"; echo "${described%?},\"at\":7000,\"from_run\":0}"
  } >"$work/idle/rank-$rank.trace"
done
run 0 "$trace" "$work/idle" -o "$work/idle.json"
python3 - "$work/idle.json" <<'PYTHON' || fail "a switch without a run"
import json, sys
marks = [e["ts"] for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "i"]
assert marks == [0, 0], marks
PYTHON

# The progress of reading long traces is shown on a terminal.
rm -rf "$work/long" && mkdir "$work/long"
{ head_of 0 one 1; echo "$described"
  awk 'BEGIN { for (run = 0; run < 140000; run++)
    printf "{\"run\":%d,\"of\":1,\"from\":%d,\"to\":%d,\"status\":0}\n", run, run * 10, run * 10 + 5 }'
} >"$work/long/rank-0.trace"
"$seen" terminal '9[0-9]%: reading .*rank-0.trace' "$trace" "$work/long" || fail "no progress"

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
refuse '{"waiting":1,"from_run":2,"until_run":2,"from":1}' "from_run and until_run are not a range"
refuse '{"waiting":1,"from_run":2,"until_run":3,"from":-1}' "from is not a time"
refuse '{"waiting":2,"from_run":2,"until_run":3,"from":1}' "no earlier line has this number"
refuse '{"failure":1,"status":0,"at":1,"why":""}' "the failure lacks status or why"
refuse '{"failure":1,"status":1,"at":-1,"why":""}' '"at" is not a time'
refuse '{"failure":2,"status":1,"at":1,"why":""}' "no earlier line has this number"
refuse '{"broken":1,"status":1,"at":1}' "the failure lacks status or why"
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
