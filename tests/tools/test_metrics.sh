# shellcheck shell=sh
#
# Promises of DFCCL_METRICS: each rank writes a file, or answers at a socket of its user, in the
# text format of OpenMetrics. The sums equal dfcclGetStats. A rank that others wait for is named. A
# bad value is refused with a sentence. A place without rights, or a full disk, costs one warning,
# and the job goes on.
. "$(dirname "$0")/check.sh"
demo=$1 worker=$2 tools=$(dirname "$0")
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tools
export PYTHONDONTWRITEBYTECODE PYTHONPATH
pids=''
end_job() {
  # shellcheck disable=SC2086 # a list of numbers
  [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
  for pid in $pids; do wait "$pid" 2>/dev/null; done
  pids=
}
trap 'end_job; rm -rf "$work"' EXIT

# ---- bad values
refuse() { # VALUE PATTERN
  run 1 env DFCCL_METRICS="$1" "$demo" disorder -n 2 -c 2 -i 2
  grep -Eq -- "DFCCL_METRICS.*$2" "$work/out" "$work/err" ||
    fail "'$1' lacks '$2': $(cat "$work/err")"
}
refuse '' 'must have 1 to'
refuse /tmp/x 'is "/tmp/x"; it must be file:PATH or unix:PATH'
refuse file: 'is "file:"; it must be'
refuse file:relative-%r 'PATH must begin with /'
refuse tcp:/x 'is "tcp:/x"'
refuse "file:$work/x" 'must contain %r'
refuse "unix:/$(printf '%0120d' 0)%r" 'the path of a socket has at most 10[0-9] characters'

# ---- files
run 0 env DFCCL_METRICS="file:$work/rank-%r-%p.prom" "$demo" disorder -n 3 -c 4 -i 10 --json
[ "$(find "$work" -name 'rank-?-*.prom' | wc -l)" -eq 3 ] || fail 'three files'
find "$work" -name '*.??????' | grep -q . && fail 'a part of a file'
python3 - "$work" <<'PYTHON' || fail 'the sums'
import glob, json, pathlib, sys
import openmetrics
demo = json.load(open(sys.argv[1] + "/out"))
sums = {"preemptions": 0, "quits": 0, "runs": 0}
for path in glob.glob(sys.argv[1] + "/*.prom"):
    m = openmetrics.parse(pathlib.Path(path).read_text())
    runs = openmetrics.total(m, "dfccl_run_seconds_count")
    assert runs == openmetrics.total(m, "dfccl_run_bytes_count") == 40, runs
    assert openmetrics.total(m, "dfccl_run_seconds_count", collective="allreduce") == 40
    assert openmetrics.total(m, "dfccl_run_seconds_sum") > 0
    assert openmetrics.total(m, "dfccl_submitted_sqes_total") == 40
    assert openmetrics.total(m, "dfccl_failed_runs_total") == 0
    assert openmetrics.total(m, "dfccl_outstanding_runs") == 0
    sums["runs"] += runs
    sums["preemptions"] += openmetrics.total(m, "dfccl_preemptions_total")
    sums["quits"] += openmetrics.total(m, "dfccl_voluntary_quits_total")
assert sums["runs"] == demo["completed"], (sums, demo)
assert sums["preemptions"] == demo["preemptions"], (sums, demo)
assert sums["quits"] >= 3 * demo["voluntary_quits_per_rank"] - 0.5, (sums, demo)
PYTHON
if command -v promtool >/dev/null; then
  # It expects the older format, in which help names the sample of a counter: status 3.
  promtool check metrics <"$(find "$work" -name 'rank-0-*.prom')" >"$work/out" 2>&1
  [ $? -eq 3 ] && ! grep -v ' no help text$' "$work/out" || fail "promtool: $(cat "$work/out")"
fi

# ---- no room
run 0 env DFCCL_DEBUG=warn DFCCL_METRICS="file:/no/such/directory/%r" \
  "$demo" disorder -n 2 -c 2 -i 2
[ "$(grep -c 'no metrics at /no/such/directory' "$work/err")" -eq 2 ] || fail 'one warning a rank'
if mkdir "$work/full" && mount -t tmpfs -o size=4096 none "$work/full" 2>/dev/null; then
  head -c 4096 /dev/zero >"$work/full/all"
  run 0 env DFCCL_DEBUG=warn DFCCL_METRICS="file:$work/full/%r" "$demo" disorder -n 1 -c 2 -i 2
  err_has "no metrics at $work/full/0 .*No space left"
  [ "$(ls "$work/full")" = all ] || fail 'a part of a file'
  umount "$work/full"
fi
echo mine >"$work/taken-0"
run 0 env DFCCL_DEBUG=warn DFCCL_METRICS="unix:$work/taken-%r" "$demo" disorder -n 1 -c 2 -i 2
err_has "no metrics at $work/taken-0 .*exists"
grep -q mine "$work/taken-0" || fail 'the file of somebody else was replaced'

# ---- a socket, and a stopped rank
for rank in 0 1 2 3; do
  env RANK=$rank WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 \
    MASTER_PORT=$((20000 + ($$ + 7) % 20000)) DFCCL_METRICS="unix:$work/m%r" \
    "$worker" busy >"$work/rank.$rank" 2>&1 &
  eval "r$rank=$!"
  pids="$pids $!"
done
tries=0
while [ "$(cat "$work"/rank.? | wc -l)" -lt 4 ]; do
  tries=$((tries + 1))
  [ $tries -lt 600 ] || { fail "the ranks did not start: $(cat "$work"/rank.?)"; finish; }
  sleep 0.05
done
python3 "$tools/metrics_callers.py" "$work/m0" || fail 'callers'
# shellcheck disable=SC2154 # assigned by eval
kill -STOP "$r2"
python3 - "$work/m0" <<'PYTHON' || fail 'the wait for the stopped rank'
import socket, sys, time
import openmetrics
def waits():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(sys.argv[1])
    s.shutdown(socket.SHUT_WR)
    text = b""
    while piece := s.recv(65536):
        text += piece
    m = openmetrics.parse(text.decode())
    return openmetrics.total(m, "dfccl_peer_wait_seconds_total", peer="2"), text.decode()
end = time.monotonic() + 20
while waits()[0] < 1:
    if time.monotonic() > end:
        sys.exit(waits()[1])
    time.sleep(0.2)
PYTHON
end_job
finish
