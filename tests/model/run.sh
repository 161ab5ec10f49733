#!/usr/bin/env bash
# Checks the SPIN models: tests/model/run.sh [MODEL...]
#
# Each model is checked as it is, which must end without an error after a search of the whole state
# space. It is then checked once with each planted bug, which must end with an error, so that the
# checker itself is tested. The script prints "ok NAME" or "not ok NAME" for each check. The exit
# status is 0 only if all are ok.
set -u -o pipefail
models=$(cd "$(dirname "$0")" && pwd) || exit 1
command -v spin >/dev/null || { echo "skipped: spin is not installed"; exit 77; }
compiler=${CC:-cc}
command -v "${compiler%% *}" >/dev/null || { echo "skipped: no C compiler"; exit 77; }

# For each model: the variants that must hold, and the bugs (VARIANT+BUG if a bug belongs to one
# variant).
declare -A holds=(
  [sq]="-" [cq]="VARIANT=0 VARIANT=1 VARIANT=2" [completion]="-" [link]="- LAZY" [bell]="- DEEP"
  [poller]="-" [lend]="- SEIZE" [preemption]="-" [full]="-" [limit]="-" [tenant]="-"
  [view]="DEATHS=2 JOIN+SILENT=1+DEATHS=0"
  [unmap]="- NOTIFIED_LATE EXPORTED" [epoch]="- DEATH" [resume]="- PORTS LENDS LEAVES PORTS+LEAVES"
)
declare -A bugs=(
  [sq]="RECORD_LATE COUNT_LATE NO_LAP FIRST_FREES NO_FULL"
  [cq]="VARIANT=0+RESULT_LATE VARIANT=1+RESULT_LATE VARIANT=2+RESULT_LATE VARIANT=0+TAIL_EARLY
        VARIANT=1+NO_LAP VARIANT=2+TORN_TICKET VARIANT=2+NOT_FREED"
  [completion]="RESET_LATE STATUS_LATE"
  [link]="PUBLISH_EARLY RELEASE_EARLY NO_CREDIT NO_LAP NO_DRAIN LAZY+NO_CREDIT LAZY+TOO_LAZY"
  [bell]="NO_FENCE_RINGER NO_FENCE_SLEEPER NO_RECHECK TICKET_LATE DEEP+DEEP_LATE
        DEEP+NO_FENCE_RINGER"
  [poller]="NO_LAST_LOOK NO_HAND_OVER NO_CLAIM FOREIGN NO_WAKE"
  [lend]="NO_BORROW LOOK_FIRST NO_REVOKE REVOKE_ANYWAY SEIZE+UNCHECKED"
  [preemption]="IN_ORDER ONE_SLOT"
  [full]="LOAD CLEAR_EARLY LOOK_EARLY"
  [limit]="ONLY_ON_ARRIVAL AT_ONCE ACCEPT"
  [unmap]="ANYWAY NO_DRAIN KEPT_REACH SAME_NUMBER OPEN_EARLY CLOSE_LATE NO_WINDOW
        EXPORTED+FREE_AT_ONCE EXPORTED+CLOSE_AT_ONCE"
  [epoch]="LEAST_FLOOR OWN_FLOOR NO_HOLD EARLY AT_ONCE NO_CANCEL ANY_NUMBER
        DEATH+HOLDS_ON DEATH+COMMITS"
  [resume]="UNACKED PART_LOST TWICE SLOT_EARLY CREDIT_EARLY COUNT_ON PORTS+COUNT_ON PORTS+NO_EPOCH
        ASIDE PORTS+NO_STATE LENDS+LENT_WHERE LEAVES+NO_QUESTION LEAVES+OLD_ANSWER"
  [view]="MOST NO_SETTLING NO_CATCH_UP+DEATHS=2 FORGIVE+DEATHS=2 NO_NOTICE+JOIN+SILENT=1+DEATHS=2"
  [tenant]="COUNT_FIRST GONE_EARLY NO_REGISTRATION LOOK_FIRST"
)
order=(sq full cq completion link lend unmap resume bell poller limit tenant epoch preemption view)
[ $# -gt 0 ] && order=("$@")

place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
failed=0

check() { # MODEL OPTIONS EXPECTED_ERRORS(0|1); status 1: it is not as expected
  local model=$1 options=$2 expected=$3 flags=() name=$1 option out optimise=-O1
  [ "$model" != view ] || optimise=-O0 # its 4 MB of C take longer to optimise than to run
  for option in ${options//+/ }; do
    [ "$option" = - ] || { flags+=("-D$option"); name+="/$option"; }
  done
  out=$place/${name//\//_}
  mkdir -p "$out"
  cp "$models/$model.pml" "$out"
  if ! (cd "$out" && spin "${flags[@]}" -a "$model.pml" &&
    "$compiler" -w "$optimise" -DSAFETY -DMEMLIM=1024 \
        -DCOLLAPSE -o pan pan.c && timeout 100 ./pan -m200000) >"$out/log" 2>&1 </dev/null; then
    echo "not ok $name: it could not be checked"; tail -n 20 "$out/log"; return 1
  fi
  local errors states
  errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$out/log")
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$out/log")
  if [ -z "$errors" ]; then
    echo "not ok $name: no verdict"; tail -n 20 "$out/log"; return 1
  elif [ "$expected" = 0 ] && { [ "$errors" != 0 ] ||
    grep -q 'max search depth too small\|out of memory\|Search not completed' "$out/log"; }; then
    echo "not ok $name: $errors errors"
    (cd "$out" && spin "${flags[@]}" -t -p "$model.pml") 2>&1 | tail -n 60; return 1
  elif [ "$expected" = 1 ] && [ "$errors" = 0 ]; then
    echo "not ok $name: the planted bug was not found ($states states)"; return 1
  elif [ "$expected" = 0 ]; then
    echo "ok $name: holds in all $states states"
  else
    echo "ok $name: found ($(sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/\1/p' "$out/log"))"
  fi
}

# One check runs on each processor, and prints its whole output at once.
running=0
begin() { # arguments of check
  if [ "$running" = "$(nproc)" ]; then end; fi
  (said=$(check "$@" 2>&1); status=$?; printf '%s\n' "$said"; exit $status) &
  running=$((running + 1))
}
end() { wait -n || failed=1; running=$((running - 1)); }

for model in "${order[@]}"; do
  [ -n "${holds[$model]+x}" ] || { echo "no such model: $model" >&2; exit 2; }
  for variant in ${holds[$model]}; do begin "$model" "$variant" 0; done
  for bug in ${bugs[$model]}; do begin "$model" "$bug" 1; done
done
while [ "$running" -gt 0 ]; do end; done
exit $failed
