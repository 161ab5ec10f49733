# shellcheck shell=sh
# Functions of the command-line tests. Each check prints a failure; finish ends the script.

failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
}

# run STATUS COMMAND...: runs the command for at most $run_seconds and expects its exit status. Its
# output is left in $work/out and $work/err.
run_seconds=100
run() {
  expected=$1
  shift
  timeout "$run_seconds" "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
  if [ "$status" -ne "$expected" ]; then
    fail "exit status $status instead of $expected: $*"
    sed 's/^/  out: /' "$work/out" | head -n 20
    sed 's/^/  err: /' "$work/err" | head -n 20
  fi
}

# usage_error TOOL ARGUMENTS...: exit status 2, one sentence on standard error, nothing on standard
# output.
usage_error() {
  run 2 "$@"
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line on standard error: $*"
  [ ! -s "$work/out" ] || fail "standard output is not empty: $*"
  grep -q "^$(basename "$1"): ." "$work/err" || fail "the message does not begin with the name: $*"
}

# out_has PATTERN, err_has PATTERN: the last run printed a line that matches.
out_has() { grep -Eq -- "$1" "$work/out" || fail "standard output lacks '$1'"; }
err_has() { grep -Eq -- "$1" "$work/err" || fail "standard error lacks '$1'"; }

# json EXPRESSION: the last run's standard output is one JSON object, for which the Python
# expression over o holds.
json() {
  python3 - "$work/out" "$1" <<'PYTHON' || fail "JSON: $1"
import json, sys
o = json.load(open(sys.argv[1]))
assert isinstance(o, dict)
if not eval(sys.argv[2]):
    print(o)
    sys.exit(1)
PYTHON
}

# lost_output TOOL ARGUMENTS...: on a full device the tool fails, with one sentence.
lost_output() {
  [ -c /dev/full ] || return 0
  timeout 100 "$@" >/dev/full 2>"$work/err" </dev/null
  status=$?
  [ "$status" -eq 1 ] || fail "status $status with a full device: $*"
  [ "$(wc -l <"$work/err")" -eq 1 ] ||
    fail "not one sentence about a full device: $*: $(cat "$work/err")"
  grep -q "^$(basename "$1"): ." "$work/err" || fail "the message does not begin with the name: $*"
}

finish() {
  [ "$failures" -eq 0 ] || { echo "$failures checks failed"; exit 1; }
  echo "all checks passed"
  exit 0
}
