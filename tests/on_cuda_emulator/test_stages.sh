#!/bin/sh
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promises of scripts/gpu-suite, tested on the emulated runtime:
#   - Each stage ends, and leaves text, JSON for programs, and in the stage smoke saved settings.
#   - A part that hangs is diagnosed, with the dump of the library and the positions of the threads.
#     After two hangs the rest of the group is omitted. A suite that is ended from outside leaves no
#     part running. A wrong result is reported as one. The parts for which there was no time are
#     named.
# Usage: test_stages.sh GPU_SUITE BUILD smoke|behaviour|performance|peers|plants NCCL
suite=$1 build=$2 part=$3 failed=0 number=0
export NCCL_LIBRARY="$4" CUDA_EMULATOR_DEVICES=1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

check() { # WHAT COMMAND...
  what=$1
  shift
  number=$((number + 1))
  if "$@" >"$work/said" 2>&1; then
    echo "ok - $what"
  else
    echo "not ok - $what"
    sed 's/^/# /' "$work/said" "$work"/out/*.txt | cut -c 1-300 | head -n 200
    failed=$((failed + 1))
  fi
}
play() { # STATUS STAGE OPTION...: the stage ends with this status
  wanted=$1
  shift
  rm -rf "$work/out"
  FAKE_NCCL_VERSION=${FAKE_NCCL_VERSION-23000} LEARNT=${LEARNT-} OUT=$work/out timeout -k 5 240 \
    "$suite" "$@" --build "$build" >"$work/printed" 2>&1
  status=$?
  [ $status = "$wanted" ] || { echo "status $status, not $wanted"; cat "$work/printed"; return 1; }
}
says() { # PATTERN FILE
  grep -Eq -e "$1" "$work/out/$2" || { echo "$2 does not say: $1"; cat "$work/out/$2"; return 1; }
}
json() { # STAGE EXPRESSION of o and of s, the statuses by name
  python3 -c "import json, sys
o = json.load(open(sys.argv[1])); s = {p['name']: p['status'] for p in o['parts']}
assert $2, o['count']" "$work/out/$1.json"
}
demo_of_this_test() { # prints its number
  # shellcheck disable=SC2013 # the names have no blanks
  for each in $(grep -lz "^STARTED_BY=$$\$" /proc/[0-9]*/environ 2>/dev/null); do
    if grep -qs '^dfccl-demo' "${each%environ}comm"; then basename "${each%/environ}"; return 0; fi
  done
  return 1
}
end_from_outside() {
  STARTED_BY=$$ OUT=$work/out "$suite" smoke --build "$build" --only 'two ranks, one' --plant \
    'two ranks' CUDA_EMULATOR_STALL=1 >"$work/printed" 2>&1 &
  for _ in $(seq 100); do # up to 20 s
    ! demo_of_this_test || break
    sleep 0.2
  done
  left=$(demo_of_this_test) || { echo "no part has begun"; return 1; }
  kill -TERM $!
  wait $!
  ! left=$(demo_of_this_test) ||
    { echo "process $left of a part goes on"; kill -KILL "$left"; return 1; }
}

if [ "$part" != plants ]; then
  check "$part goes through" play 0 "$part"
  check "$part says how it ended" says '^== end of .*: [0-9]+ ok' "$part.txt"
  check "$part has JSON" json "$part" \
    "o['stage'] == '$part' and set(s.values()) <= {'ok', 'skip'} and o['count']['ok'] >= 10"
  case $part in
  smoke)
    check "smoke has saved settings" says '^CUDA_DEVICE_MAX_CONNECTIONS=[0-9]+$' learnt
    check "its thresholds have times" says '^# patience default: [0-9.]+ s$' learnt
    ;;
  peers)
    check "NCCL is beside ours" json peers "all(p['result'][0]['bytes'] == 8 for p in o['parts'] if p['name'].startswith('NCCL: allreduce'))"
    FAKE_NCCL_VERSION=22907 check "a stage with an old NCCL" play 0 peers --only NCCL
    check "says that it is too old" says \
      '^skip  NCCL: allreduce, 2 ranks .NCCL 2.29.7 is older than 2.30' peers.txt
    ;;
  performance)
    check "events have figures by collective" json performance "[c['runs'] for p in o['parts'] if p['name'] == 'events by collective' for c in p['result']['collectives']] == [12] * 8"
    check "and the ring" json performance "all(len(e) == 4 and 0 <= e[1] <= 4 and e[3] <= 8 for p in o['parts'] if p['name'] == 'events by collective' for e in p['result']['ring'])"
    check "overheads have figures" json performance "any('preparing' in r['phase'] for p in o['parts'] if p['name'] == 'overhead' for r in p['result']['results'])"
    ;;
  esac
else
  check "a stage with parts that hang" play 1 smoke --only 'two ranks' --limit 6 --plant \
    'two ranks' CUDA_EMULATOR_STALL=1
  check "reports it" says '^HANG  two ranks, one collective' smoke.txt
  check "what a rank waits for is in the summary" says '\| +it waits until it is run by rank [01]' \
    smoke.txt
  check "after two the rest is left out" says '^left  two ranks, synchronised' smoke.txt
  check "the photograph has the library's dump" says \
    '^dfccl rank [01] of 2, .* 1 runs outstanding' smoke.hangs.txt
  check "and the threads" says 'dfccl-demo [A-Z] .* call [0-9]+' smoke.hangs.txt
  if command -v gdb >/dev/null && ! grep -q 'not permitted' "$work/out/smoke.hangs.txt"; then
    check "and the stack of the thread that is stuck" says ' cuMemcpy ' smoke.hangs.txt
  fi
  check "JSON has it" json smoke \
    "o['count'] == {'HANG': 2, 'left': 1} and o['left_out'] == ['two ranks, synchronised']"

  # The group is killed as a test runner kills it; a hang must not survive this.
  setsid sh -c 'setsid sleep 60 & wait' &
  group=$!
  for _ in $(seq 100); do # up to 20 s
    members=$("$(dirname "$suite")/gpu/photograph" --members $group | tr '\n' ' ')
    [ "$(echo "$members" | wc -w)" -lt 2 ] || break
    sleep 0.2
  done
  check "a child with a group of its own belongs to the photograph: $members" [ "$(echo "$members" |
    wc -w)" = 2 ]
  # shellcheck disable=SC2086 # numbers
  kill $members

  check "a suite that is ended from outside ends its part" end_from_outside

  eval "$(sed -n '/^is_wrong()/,/^}/p' "$(dirname "$suite")/gpu/parts.sh")"
  echo 'dfccl-demo: 30 result elements were wrong' >"$work/wrong"
  check "wrong elements in words are wrong" is_wrong "$work/wrong"
  echo '4 of 4 runs completed in 0.01 s; 3 of 524416 result elements were wrong.' >"$work/wrong"
  check "and among others" is_wrong "$work/wrong"
  echo '4 of 4 runs completed in 0.01 s; 0 of 524416 result elements were wrong.' >"$work/right"
  is_right() { ! is_wrong "$@"; }
  check "none is right" is_right "$work/right"
  check "a stage with a wrong result" play 1 behaviour --only 'no words' --plant 'no words' \
    CUDA_EMULATOR_SPOIL=4
  check "reports it" says '^WRONG  no words' behaviour.txt
  check "JSON has it, with what was said" json behaviour \
    "s == {'no words': 'WRONG'} and any('wrong' in l for l in o['parts'][0]['lines'])"

  check "a stage without time" play 0 performance --seconds 0
  check "names what it left out" says \
    '^left out, since .*: disorder; disorder, synchronised; overhead;' performance.txt
  check "a stage whose time ends in a part" play 0 behaviour --seconds 6 --only 'no words' --plant \
    'no words' CUDA_EMULATOR_STALL=1
  check "says which" says "^left out, since .*: no words \(cut\)" behaviour.txt

  printf '# gpu: emulated\nDFCCL_TUNING=set:fetch_polls=77\nPATH=1\n' >"$work/learnt"
  LEARNT=$work/learnt check "saved settings" play 0 behaviour --only 'no words'
  check "are used, and no other" says '^saved settings, from .*: DFCCL_TUNING=set:fetch_polls=77 $' behaviour.txt
  sed 's/emulated/another/' "$work/learnt" >"$work/other"
  LEARNT=$work/other check "the settings of another GPU" play 0 behaviour --only 'no words'
  check "are not" says 'are of another GPU, and are not used' behaviour.txt

  for names in first:smoke second:behaviour third:performance fourth:peers; do
    "$suite" "${names%:*}" --list >"$work/by_order"
    "$suite" "${names#*:}" --list >"$work/by_purpose"
    check "${names%:*} is ${names#*:}" cmp "$work/by_order" "$work/by_purpose"
  done
  check "the parts of the last stage have names" [ -s "$work/by_order" ]
fi
echo "1..$number"
[ $failed = 0 ]
