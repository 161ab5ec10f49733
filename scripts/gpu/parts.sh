# shellcheck shell=bash disable=SC2154 # scripts/gpu-suite, which sources this, has the variables
# The parts of a stage. Each part has a name, a limit, its own output, and a line in the summary.
#
#   group NAME                     begins a group of parts that fail for a common reason; the rest
#                                  of the group is omitted after two hangs
#   part SECONDS NAME COMMAND...   runs a part. KIND is the format of the output: text (default),
#                                  json, probe (JSON lines) or tap. TAIL=N shows the last N lines of
#                                  a part that passes. TRIAL=1: a failure is a result, and no error.
#   skip NAME REASON               notes a part that cannot run
#
# A command that ends with status 77 was skipped. Its last line has the reason.

work='' number=0 hangs=0 worst=0 begun=$SECONDS current=none late=()

elapsed() { echo $((SECONDS - begun)); }
say() { printf '%s\n' "$*" | tee -a "$out/$stage.txt"; }
group() {
  current=$1 hangs=0
  [ "$list" = 1 ] || say "== $current, at $(elapsed) s"
}
wanted() { printf '%s\n' "$1" | grep -Eq -e "$only"; }

begin_stage() {
  work=$(mktemp -d) || exit 2
  trap end_of_suite EXIT
  trap 'exit 143' TERM INT HUP
  mkdir -p "$out" || exit 2
  rm -f "$out/$stage".{txt,log,json,tgz,hangs.txt}
  say "# dfccl $version, stage $stage, $gpu, $(date -u +%Y-%m-%dT%H:%MZ)"
  { nproc; ldd --version | head -n 1; [ "$emulated" = 1 ] ||
    { nvidia-smi; nvidia-smi -q -d CLOCK,PCI,PERFORMANCE; }; } >>"$out/$stage.log" 2>&1
  LD_LIBRARY_PATH=$libraries ldd "$demo" | sed -n 's/^\t*\(.*not found\)/missing: \1/p' |
    tee -a "$out/$stage.txt"
}

# A part has its own session, so it would outlive a suite that is ended from outside.
end_of_suite() {
  if [ -s "$work/running" ]; then kill_group "$(cat "$work/running")"; fi
  rm -rf "$work"
}

# The report ends with the omitted parts, so that a short report is not taken for a complete one.
end_stage() {
  [ ${#late[@]} = 0 ] ||
    say "left out, since the stage's time ($budget s) was over: $(printf '%s; ' "${late[@]}" |
    sed 's/; $//')"
  say "== end of $stage, after $(elapsed) s: $(cut -f 3 "$work/parts" 2>/dev/null | sort | uniq -c |
    awk '{ printf "%s%s %s", sep, $1, $2; sep = ", " }')"
  if command -v python3 >/dev/null; then
    "$tools/report" stage "$work" "$stage" "$version" "$gpu" "$(elapsed)" "${learnt_from:-}" \
      >"$out/$stage.json"
  else
    cp "$work/parts" "$out/$stage.tsv"
    say "no python3 on this machine: $stage.tsv instead of $stage.json, and no settings are saved"
  fi
  (cd "$work" && tar -czf - parts ./*.out ./*.err) >"$out/$stage.tgz" 2>/dev/null
  exit $worst
}

note() { # STATUS NAME SECONDS LIMIT COMMAND...
  local status=$1 name=$2 seconds=$3 limit=$4 command
  shift 4
  command=$*
  command=${command//$'\n'/ } # a part is one line
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$number" "$current" "$status" "$seconds" "$limit" \
    "${KIND:-text}" "$name" "$command" >>"$work/parts"
}

skip() { # NAME WHY
  wanted "$1" || return 0
  if [ "$list" = 1 ]; then echo "$1"; return 0; fi
  number=$((number + 1))
  note skip "$1" 0 0 "$2"
  say "skip  $1 ($2)"
}

# Both streams are cut in the middle, so that the log stays small.
append_output() { # FILE
  local bytes
  bytes=$(stat -c %s "$1" 2>/dev/null || echo 0)
  # The whole output is in STAGE.tgz.
  if [ "$(stat -c %s "$out/$stage.log")" -gt 12000000 ]; then return 0; fi
  if [ "$bytes" -le 400000 ]; then
    cat "$1"
  else
    head -c 200000 "$1"; printf '\n[... %s bytes ...]\n' $((bytes - 400000)); tail -c 200000 "$1"
  fi >>"$out/$stage.log"
}

show() { # LINES FILE...
  local lines=$1
  shift
  cat "$@" | tail -n "$lines" | cut -c 1-400 | sed 's/^/      | /' | tee -a "$out/$stage.txt"
}

kill_group() { # PID
  local pids
  pids=$("$tools/photograph" --members "$1")
  # shellcheck disable=SC2086 # numbers
  kill -TERM -- "-$1" $pids 2>/dev/null
  sleep 1
  # shellcheck disable=SC2086
  kill -KILL -- "-$1" $pids 2>/dev/null
}

# Also read by a test, with another shell.
is_wrong() {
  local pattern='"wrong": ?[1-9]|(^|[:;] )[1-9][0-9]* (of [0-9]+ )?result elements were wrong'
  pattern=$pattern'|Out of bounds values : [1-9]|^property: .*differs'
  grep -Eqs "$pattern" "$@"
}

# Leaves $work/status and $work/seconds. Must not run in a subshell, whose end the traps would
# await.
run_part() { # LIMIT CUT NAME COMMAND...
  local limit=$1 cut=$2 name=$3 pid status start=$SECONDS stdout=$work/$number.out \
    stderr=$work/$number.err
  shift 3
  if [ -n "$plant" ] && printf '%s\n' "$name" | grep -Eq -e "$plant"; then
    set -- env "$planted" "$@"
  fi
  setsid env LD_LIBRARY_PATH="$libraries" "$@" >"$stdout" 2>"$stderr" </dev/null &
  pid=$!
  echo $pid >"$work/running"
  while kill -0 $pid 2>/dev/null && [ $((SECONDS - start)) -lt "$limit" ]; do sleep 0.1; done
  if kill -0 $pid 2>/dev/null; then
    {
      printf '\n## %s, stage %s, after %s s\n' "$name" "$stage" $((SECONDS - start))
      "$tools/photograph" $pid "$stderr" | head -c 1500000
    } >"$work/$number.photograph" 2>&1
    cat "$work/$number.photograph" >>"$out/$stage.hangs.txt"
    kill_group $pid
    wait $pid 2>/dev/null
    status=$([ "$cut" = 1 ] && echo cut || echo HANG)
  else
    wait $pid
    case $? in
      0) status=ok ;;
      77) status=skip ;;
      *) status=FAIL ;;
    esac
    if [ $status = FAIL ] && [ "${TRIAL:-0}" = 1 ]; then status=no; fi
    if is_wrong "$stdout" "$stderr"; then status=WRONG; fi
  fi
  rm -f "$work/running"
  echo $((SECONDS - start)) >"$work/seconds"
  echo "$status" >"$work/status"
}

part() { # SECONDS NAME COMMAND...
  local limit=$1 name=$2 left cut=0 status seconds
  shift 2
  wanted "$name" || return 0
  if [ "$list" = 1 ]; then echo "$name"; return 0; fi
  number=$((number + 1))
  left=$((budget - $(elapsed)))
  [ "$limit" -le "$longest" ] || limit=$longest
  if [ $left -lt 5 ]; then
    late+=("$name")
    note late "$name" 0 "$limit" "$@"
    say "late  $name"
    return 0
  fi
  if [ $hangs -ge 2 ]; then
    note left "$name" 0 "$limit" "$@"
    say "left  $name (two parts of this group hang)"
    return 0
  fi
  if [ $left -lt "$limit" ]; then limit=$left cut=1; fi
  printf '\n## %s: %s\n' "$name" "$*" >>"$out/$stage.log"
  run_part "$limit" $cut "$name" "$@" 2>/dev/null
  status=$(cat "$work/status")
  seconds=$(cat "$work/seconds")
  append_output "$work/$number.out"
  append_output "$work/$number.err"
  printf '## %s: %s after %s s\n' "$name" "$status" "$seconds" >>"$out/$stage.log"
  note "$status" "$name" "$seconds" "$limit" "$@"
  tell "$status" "$name" "$seconds" "$limit"
}

tell() { # STATUS NAME SECONDS LIMIT
  local stdout=$work/$number.out stderr=$work/$number.err
  case $1 in
    ok) say "ok    $2 ($3 s)" ;;
    skip) say "skip  $2 ($(cat "$stdout" "$stderr" | tail -n 1))"; return 0 ;;
    cut) say "cut   $2 (the stage's time was over after $3 s of it)"; late+=("$2 (cut)") ;;
    no) say "no    $2 ($3 s)" ;;
    HANG) hangs=$((hangs + 1)) worst=$((worst | !${TRIAL:-0}))
    say "HANG  $2 (not done after $4 s; photograph in $stage.hangs.txt)" ;;
    *) worst=1; say "$1  $2 ($3 s)" ;;
  esac
  case $1 in
    ok) if [ "${KIND:-text}" != text ] && command -v python3 >/dev/null; then
          local outputs=("$stdout")
          [ "$KIND" != tap ] || outputs+=("$stderr")
          "$tools/report" line "$KIND" "${outputs[@]}" 2>/dev/null | sed 's/^/      | /' |
            tee -a "$out/$stage.txt"
        elif [ "${TAIL:-0}" -gt 0 ]; then
          show "$TAIL" "$stdout" "$stderr"
        fi ;;
    HANG) # the positions of ranks and threads from the dump of the library
      local lines='^dfccl rank\|sleeps in\|it waits\|block [0-9]*: run '
      sed -n "/^---- the library/,/^---- threads/{/$lines/p}" "$work/$number.photograph" |
        head -n 12 | cut -c 1-200 | sed 's/^/      | /' | tee -a "$out/$stage.txt" ;;
    *) show 6 "$stdout" "$stderr" ;;
  esac
}
