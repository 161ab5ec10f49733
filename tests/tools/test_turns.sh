#!/bin/sh
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promise: dfccl-trace shows the turns of the daemon that DFCCL_TRACE_TURNS=1 adds to traces. There
# are as many preemptions as dfccl-demo counts: in the table, in the JSON object, in the file for
# Perfetto, and in the sum of the bars of --figure11. The longest waits have both ranks and the link.
# Messages of networks are a table, and tracks of each pair. Lost records are stated. Without turns
# in the traces, and for a malformed line, there is one sentence.
. "$(dirname "$0")/check.sh"
trace=$1 demo=$2 check=$3 bench=$4

mkdir "$work/job"
run 0 env DFCCL_TRACE="$work/job" DFCCL_TRACE_TURNS=1 "$demo" disorder -n 4 -c 8 -i 10 --json
preemptions=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["preemptions"])' "$work/out")
[ "$preemptions" -gt 0 ] || fail "the demonstration had no preemption"
run 0 "$trace" "$work/job" --json -o "$work/perfetto.json" --figure11 "$work/figure.svg"
json "sum(t['preempted'] for t in o['turns']) == $preemptions and all(t['done'] == t['taken'] == 80 and t['lost'] == 0 for t in o['turns'])"
json "all(w['rank'] != w['for_rank'] and w['link'] in ('send', 'receive') and w['us'] >= 0 and w['turns'] > 0 for w in o['waits'])"
json "[w['us'] for w in o['waits']] == sorted((w['us'] for w in o['waits']), reverse=True) and len(o['waits']) > 0"
python3 "$check" "$work/perfetto.json" "$work/figure.svg" "$preemptions" || fail "the files of a job"
run 0 "$trace" "$work/job"
out_has "^The longest waits of a block for another rank"
out_has "^ +[0-9.]+ +[0-9.]+ +[0-3] +[0-3]  (its message|a free slot) +[0-9]+ +[0-9]+  C[0-7]$"

# Waits of known lengths, in ns: rank 0 waits for the message of rank 1 in two turns (from 1900 to
# 5000) and again (from 5200 to 6000), and for a slot of rank 1 (200).
mkdir "$work/waits"
head_of() { # RANK
  printf '{"dfccl_trace":1,"rank":%d,"ranks":2,"host":"one","process":1,"clock_ns":0,"unix_ns":"1000000000000000000"}\n' "$1"
  echo '{"collective":1,"id":"7","name":"<grad>","operation":"AllReduce","type":"float32","bytes":8,"group":[0,1],"algorithm":"ring"}'
  echo '{"run":0,"of":1,"from":500,"to":6500,"status":0}'
}
turn() { # FROM TO END STEPS [LONGEST ON]
  printf '{"turn":1,"block":0,"from":%d,"to":%d,"end":"%s","queue":1,"pending":1,"steps":%d' "$1" "$2" "$3" "$4"
  [ $# -eq 4 ] || printf ',"polls":5,"waited":%d,"longest":%d,"on":"%s","peer":1' "$5" "$5" "$6"
  echo '}'
}
{ head_of 0
  echo '{"daemon":"start","block":0,"at":800,"queue":0}'
  echo '{"taken":1,"block":0,"at":900,"queue":1,"pending":1}'
  echo '{"load":1,"block":0,"at":950}'
  turn 1000 2000 preempted 3 100 receive
  turn 3000 3500 preempted 0 500 receive
  turn 5000 5600 kept 2 400 receive
  turn 6000 6400 "done" 4 200 send
  echo '{"save":1,"block":0,"at":6500}'
  echo '{"lost_turns":17,"block":0,"at":6600}'
  echo '{"daemon":"quit","block":0,"at":7000,"queue":0}'
} >"$work/waits/rank-0.trace"
head_of 1 >"$work/waits/rank-1.trace"
run 0 "$trace" "$work/waits" --json --figure11 "$work/waits.svg" -o "$work/waits.json"
json "o['turns'][0] == {'rank': 0, 'taken': 1, 'loads': 1, 'saves': 1, 'starts': 1, 'quits': 1, 'lost': 17, 'done': 1, 'preempted': 2, 'kept': 1}"
json "[(w['us'], w['at_us'], w['rank'], w['for_rank'], w['link'], w['turns'], w['polls'], w['collective']) for w in o['waits']] == [(3.1, 1.4, 0, 1, 'receive', 2, 10, '<grad>'), (0.8, 4.7, 0, 1, 'receive', 1, 5, '<grad>'), (0.2, 5.5, 0, 1, 'send', 1, 5, '<grad>')]"
python3 "$check" "$work/waits.json" "$work/waits.svg" 2 || fail "the files of two ranks"
grep -q "17 records are lost" "$work/waits.svg" || fail "the picture hides lost records"
run 0 "$trace" "$work/waits"
out_has "^ +3\.1 .* 0 +1  its message +2 +10  <grad>$"

# Messages of known times on two paths: 1.5 and 2.5 us there, one without a credit back.
message() { # FROM TO WAY NUMBER BYTES
  printf '{"message":1,"block":0,"from":%d,"to":%d,"way":"%s","peer":1,"number":%d,"bytes":%d}\n' "$@"
}
rm -rf "$work/messages" && mkdir "$work/messages"
{ head_of 0
  message 1000 2500 received 1 100
  message 2000 4500 received 2 200
  message 3000 3000 sent 1 300
  echo '{"lost_messages":4,"at":5000}'
} >"$work/messages/rank-0.trace"
run 0 "$trace" "$work/messages" --json -o "$work/messages.json"
json "o['messages'] == [{'rank': 0, 'peer': 1, 'way': 'sent', 'messages': 1, 'bytes': 300, 'us_median': 0, 'us_longest': 0, 'lost_on_rank': 4}, {'rank': 0, 'peer': 1, 'way': 'received', 'messages': 2, 'bytes': 300, 'us_median': 2, 'us_longest': 2.5, 'lost_on_rank': 4}]"
python3 - "$work/messages.json" <<'EOF' || fail "the tracks of messages"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
bars = [e for e in events if e.get("cat") == "message"]
names = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name"}
assert sorted((names[e["tid"]], e["args"]["bytes"], e["dur"]) for e in bars) == [
    ("from rank 1", 100, 1.5), ("from rank 1", 200, 2.5), ("to rank 1", 300, 0)], (bars, names)
received = [e["tid"] for e in bars if "from_rank" in e["args"]]
assert len(set(received)) == 2, "messages of one time share a track"
EOF
run 0 "$trace" "$work/messages"
out_has "^ +0 from +1 +2 +300 +2\.0 +2\.5$"
out_has "^rank 0: 4 messages are missing"

# A job over TCP: each side of a path has the same messages, also those without a credit at the end.
mkdir "$work/tcp"
run 0 env DFCCL_NET=tcp DFCCL_TRACE="$work/tcp" DFCCL_TRACE_TURNS=1 "$bench" allreduce --processes -n 2 -b 64 -e 256K -f 64 -i 5
run 0 "$trace" "$work/tcp" --json
json "{(m['rank'], m['peer'], m['way']) for m in o['messages']} == {(0, 1, 'sent'), (0, 1, 'received'), (1, 0, 'sent'), (1, 0, 'received')}"
json "all(m['lost_on_rank'] == 0 and [(o2['messages'], o2['bytes']) for o2 in o['messages'] if o2['rank'] == m['peer'] and o2['way'] != m['way']] == [(m['messages'], m['bytes'])] for m in o['messages'])"

run 1 "$trace" "$work/waits" --figure11 /no/such/directory/file
err_has "/no/such/directory/file cannot be written: "
[ ! -c /dev/full ] || { run 1 "$trace" "$work/waits" --figure11 /dev/full; err_has "/dev/full cannot be written: "; }
cp "$work/waits/rank-1.trace" "$work/job/rank-0.trace"
rm -rf "$work/none" && mkdir "$work/none" && head_of 0 >"$work/none/rank-0.trace"
run 1 "$trace" "$work/none" --figure11 "$work/none.svg"
err_has "the traces have no turns, which --figure11 draws: set DFCCL_TRACE_TURNS=1 for the job, too"
malformed() { # LINE WORDS
  { head_of 0; echo "$1"; } >"$work/none/rank-0.trace"
  run 1 "$trace" "$work/none"
  err_has "rank-0\.trace:4: $2"
}
malformed '{"turn":2,"block":0,"from":1,"to":2,"end":"done","queue":1,"pending":1,"steps":1}' "no earlier line has this number"
malformed '{"turn":1,"block":0,"from":3,"to":2,"end":"done","queue":1,"pending":1,"steps":1}' "the line about a turn lacks a member"
malformed '{"turn":1,"block":0,"from":1,"to":2,"end":"over","queue":1,"pending":1,"steps":1}' "the line about a turn lacks a member"
malformed "$(turn 1000 2000 preempted 3 100 receive | sed 's/"peer":1/"peer":2/')" "the line about a turn lacks a member"
malformed '{"taken":1,"block":-1,"at":1,"queue":1,"pending":1}' "the line about a turn lacks a member"
malformed "$(message 2 1 sent 1 1)" "the line about a message lacks a member"
malformed "$(message 1 2 lost 1 1)" "the line about a message lacks a member"
malformed "$(message 1 2 sent 1 1 | sed 's/"message":1/"message":2/')" "no earlier line has this number"
malformed '{"turn":"C1"}' "the line about a turn has no number"
finish
