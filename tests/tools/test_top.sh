# shellcheck shell=sh
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promises of dfccl-top: It shows the ranks of a job of another terminal, by a process or by the name
# of the program, and names the rank and the collective if a rank is stopped, has not registered or
# not run a collective, or is slow, if members differ, and if threads wait in a circle. It answers
# while every thread of the job hangs. A job that does not exist, belongs to another user, has
# another version or ends meanwhile gives one sentence and status 1; the terminal is restored.
# Sockets of dead processes are removed. Callers that ask nonsense do not harm a job.
. "$(dirname "$0")/check.sh"
top=$1 worker=$2 tools=$(dirname "$0")
# The name of the program is the name of the jobs. The system keeps 15 characters.
name=top_$$
ln -s "$(realpath "$worker")" "$work/$name"
worker=$work/$name
XDG_RUNTIME_DIR=$work/sockets
export XDG_RUNTIME_DIR
mkdir -m 700 "$XDG_RUNTIME_DIR"

pids='' r0='' r1='' r2='' r3=''
end_job() {
  # shellcheck disable=SC2086 # a list of numbers
  [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
  for pid in $pids; do wait "$pid" 2>/dev/null; done
  pids=
}
trap 'end_job; rm -rf "$work"' EXIT

# await COUNT: until so many ranks are in their situation
await() {
  tries=0
  while [ "$(cat "$work"/rank.* | wc -l)" -lt "$1" ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { fail "the ranks did not start: $(cat "$work"/rank.*)"; finish; }
    sleep 0.05
  done
}
# job SITUATION [VARIABLE=VALUE...]: four ranks, each a process; the number of rank R is in $rR
job() {
  end_job
  rm -f "$work"/rank.*
  situation=$1
  shift
  for rank in 0 1 2 3; do
    env "$@" RANK=$rank WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 \
      MASTER_PORT=$((20000 + $$ % 20000)) "$worker" "$situation" >"$work/rank.$rank" 2>&1 &
    eval "r$rank=$!"
    pids="$pids $!"
  done
  await 4
}
# threads SITUATION: four ranks of one process, $pids
threads() {
  end_job
  rm -f "$work"/rank.*
  "$worker" "$1" 4 >"$work/rank.all" 2>&1 &
  pids=$!
  await 4
}
# sees PROCESS EXPRESSION...: dfccl-top prints an object for which the expressions hold, once the
# ranks have come to their situation on a busy machine.
sees() {
  process=$1 tries=0
  shift
  while run 0 "$top" --json "$process"; ! python3 -c 'import json, sys
o = json.load(open(sys.argv[1]))
v = o["verdict"]
sys.exit(not all(eval(e) for e in sys.argv[2:]))' "$work/out" "$@" 2>"$work/why"; do
    tries=$((tries + 1))
    [ $tries -lt 20 ] || { fail "never: $*: $(cat "$work/out" "$work/why")"; return; }
  done
}
verdict() { # KIND RANKS COLLECTIVE: an expression
  echo "v['kind'] == '$1' and v['ranks'] == $2 and v['collective'] == $3"
}

run 0 "$top" --help; out_has '^usage: dfccl-top'
usage_error "$top" a b
usage_error "$top" --flight
usage_error "$top" --svg
usage_error "$top" ''
usage_error "$top" $$; err_has 'is no terminal; use --once or --json'
run 1 "$top" --once none_$$; err_has "no DFCCL job of this user is named 'none_$$'"
run 1 "$top" --once $$; err_has "process $$ has no DFCCL job"
run 1 "$top" --once 999999999; err_has 'there is no process 999999999'
run 1 "$top" --json 0123456789abcdef; err_has "is named '0123456789abcdef'"

# ---- processes that run
job busy
sees "$r1" "[r['rank'] for r in o['ranks']] == [0, 1, 2, 3] and [r['pid'] for r in o['ranks']] == [$r0, $r1, $r2, $r3]" \
  "o['program'] == '$name' and all(r['state'] == 'running' and r['name'] == 'gradients' and r['runs_per_s'] > 0 and r['bytes_per_s'] > 0 for r in o['ranks'])" \
  "set(o['ranks'][0]) == {'rank', 'host', 'pid', 'state', 'collective', 'name', 'run', 'cause', 'waits_for', 'since_s', 'since_is_least', 'runs_per_s', 'bytes_per_s', 'preemptions_per_s', 'quits_per_s', 'queue', 'late_ms', 'calls'}" \
  "set(o) == {'job', 'program', 'ranks', 'verdict'} and set(v) == {'kind', 'ranks', 'collective', 'name', 'registration', 'sentence'}"
digest=$(python3 -c "import json; print(json.load(open('$work/out'))['job'])")
run 0 "$top" --once "$name"; out_has "^job $digest $name, 4 ranks"; out_has '^ +3 .* 7 gradients'
run 0 "$top" --once "$digest" --svg "$work/picture.svg"; out_has '^ +3 '
python3 -c "import xml.dom.minidom, sys; d = xml.dom.minidom.parse(sys.argv[1]); assert len(d.getElementsByTagName('circle')) == 4" \
  "$work/picture.svg" || fail 'the picture'
run 1 "$top" --svg /no/such/file "$name"; err_has 'cannot write /no/such/file'
lost_output "$top" --once "$name"
lost_output "$top" --json "$name"
find "$XDG_RUNTIME_DIR" -type s ! -perm 600 | grep -q . && fail 'a socket that others may use'

# ---- the flight recorder
usage_error "$top" "$name" --flight "$work" --once; err_has '--flight goes alone'
run 1 "$top" "$name" --flight /no/such/directory; err_has 'cannot write /no/such/directory/rank-0'
run 0 "$top" "$name" --flight "$work"; out_has '^4 of 4 ranks: '
python3 -c 'import json, sys
for rank in range(4):
    o = json.load(open(f"{sys.argv[1]}/rank-{rank}.flight.json"))
    assert o["rank"] == rank and o["reason"] == "dfccl-top" and o["failure"] is None and not o["lost"], o
    assert len(o["runs"]) > 100 and {c["name"] for c in o["collectives"]} == {"gradients"}
    assert sum(r["state"] == "ended" and r["status"] == "dfcclSuccess" for r in o["runs"]) > 100
' "$work" || fail 'the files of the flight recorder'
rm "$work"/rank-?.flight.json

# ---- a stopped process
kill -STOP "$r2"
run 1 "$top" "$name" --flight "$work"; out_has '^3 of 4 ranks'
err_has "rank 2 \\(process $r2\\) does not answer"
sees "$r0" "$(verdict stopped '[2]' "'7'")" \
  "o['ranks'][2]['state'] == 'silent' and o['ranks'][2]['pid'] == $r2 and any(2 in r['waits_for'] for r in o['ranks'])"
run 0 "$top" --once "$r2" --svg "$work/picture.svg"
out_has "^rank 2 \\(process $r2 on .*\\) does not answer; ranks 0, 1 and 3 wait for it in collective 7 \\(\"gradients\"\\)"
grep -q 'marker-end' "$work/picture.svg" || fail 'no arrow'
kill -CONT "$r2"
sees "$r0" "o['ranks'][2]['state'] == 'running'"

# ---- callers of all kinds
python3 "$tools/top_callers.py" "$XDG_RUNTIME_DIR/dfccl-view-$digest-$r0-0" "$r0" ||
  fail 'callers that ask nonsense'
sees "$r0" "all(r['state'] == 'running' for r in o['ranks'])"

# ---- a terminal, and the end of the job
python3 "$tools/top_terminal.py" "$top" "$r1" "$pids" || fail 'the terminal'
end_job
run 1 "$top" --once "$name"; err_has "is named '$name'"
[ -z "$(ls "$XDG_RUNTIME_DIR")" ] || fail "sockets of dead processes: $(ls "$XDG_RUNTIME_DIR")"

# ---- other situations
job late
sees "$r3" "$(verdict slow '[2]' "'7'")" "o['ranks'][2]['late_ms'] > 10"
threads registration
sees "$pids" "$(verdict missing '[2]' "'7'")" \
  "v['registration'] and all(o['ranks'][r]['state'] == 'waiting' and o['ranks'][r]['waits_for'] == [2] and o['ranks'][r]['calls'][0]['call'] == 'dfcclWait' for r in (0, 1, 3))"
run 0 "$top" --once "$pids"
out_has '^rank 2 \(.*\) has not registered collective 7 \("gradients"\); ranks 0, 1 and 3 wait for it'
job run
sees "$r1" "$(verdict missing '[2]' "'7'")" "not v['registration'] and o['ranks'][2]['state'] == 'idle'"

# A second job of the same name.
first=$pids
"$worker" mismatch 4 >"$work/rank.second" 2>&1 &
second=$!
pids="$first $second"
await 8
run 1 "$top" --once "$name"; err_has '2 jobs fit: name one by its digest or by one of its processes'
out_has " $name +4 +$second"; out_has " $name +4 +$r0 $r1 $r2 $r3"
run 1 "$top" --json "$name"; json "sorted(len(j['processes']) for j in o['jobs']) == [1, 4]"
sees $second "$(verdict mismatch '[0, 1, 2, 3]' "'7'")" \
  "'registered 1000 elements, rank 2 registered 500' in v['sentence']"

job circle
sees "$r2" "$(verdict circle '[0, 1]' "'10'")"
run 0 "$top" --once "$r2"
out_has '^rank 0 waits in collective 10 \("a"\) for rank 1, which waits in collective 11 \("b"\) for rank 0: a circle$'

# Every thread of the job hangs.
threads held
sees "$pids" "all(r['state'] == 'callback' and r['name'] == 'gradients' for r in o['ranks'])"
end_job
rm -f "$work"/rank.*
DFCCL_VIEW=0 "$worker" busy 4 >"$work/rank.all" 2>&1 &
pids=$!
await 4
run 1 "$top" --once "$pids"; err_has 'has no DFCCL job, or was started with DFCCL_VIEW=0'

# ---- another user
nobody=$work/nobody
printf '#!/bin/sh
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
' >"$nobody"
chmod 755 "$nobody"
refused() { # COMMAND...: status 1, with one sentence
  timeout 100 "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
  [ $status -eq 1 ] && [ "$(wc -l <"$work/err")" -eq 1 ] || fail "status $status: $*"
}
try_users() {
  job run
  refused "$nobody" "$top" --once "$r0"
  err_has "process $r0 belongs to user root \(0\); only that user can watch its job"
  refused "$nobody" "$top" --once
  err_has 'no DFCCL job of this user runs on this host; one of user root'
  end_job
  rm -f "$work"/rank.*
  chmod 777 "$XDG_RUNTIME_DIR"
  run 1 "$top" --once "$r0" # removes the sockets
  "$nobody" "$worker" run 4 >"$work/rank.all" 2>&1 &
  pids=$!
  await 4
  # The mode of the socket does not stop root, but the rank does.
  python3 -c "import glob, socket, struct
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(glob.glob('$XDG_RUNTIME_DIR/dfccl-view-*-0')[0])
try:
    s.send(struct.pack('<QII', 0x7761746368636466, 1, 16))  # its own user would get the version
    assert s.recv(100) == b''
except (BrokenPipeError, ConnectionResetError):
    pass" || fail 'the rank answers another user'
  refused "$top" --once "$(cd "$XDG_RUNTIME_DIR" && echo dfccl-view-*-0 | cut -d- -f3)"
  err_has 'belongs to user .* \(65534\); only that user can watch it'
}
chmod 755 "$work" "$XDG_RUNTIME_DIR"
if [ "$(id -u)" != 0 ] || ! "$nobody" "$worker" 2>"$work/err" || ! "$nobody" "$top" --version >"$work/out" 2>&1; then
  echo 'skipped: callers of another user (this needs root, setpriv, and a build that all may read)'
else
  try_users
fi
finish
