#!/bin/sh
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promise: bench/compare measures and checks every library that is installed on this machine, keeps
# the figures, adds rounds to them, reports them, and leaves no process behind. The test asserts no
# time, and ignores failures of the other libraries. It is skipped on a machine without MPI.
. "$(dirname "$0")/check.sh"
compare=$1/bench/compare/compare
build=$2

usage_error() { run 2 "$@"; } # the messages are those of argparse
usage_error "$compare"
usage_error "$compare" run --ranks 1
usage_error "$compare" run -b 2
usage_error "$compare" run --operations sort
usage_error "$compare" run --libraries nccl
usage_error "$compare" run --inputs half
# A variant is refused if a part of it would have no effect: a name of another library, a variable
# that is none of the library's settings, and a number that does not belong to DFCCL_TUNING.
for variant in nameless dfccl:DFCCL_TUNE=1 openmpi-mem:DFCCL_TUNE=1 :DFCCL_TUNE=1 \
  x:slots=2 x:OMPI_TUNE=1 x:DFCCL_TUNES=1 "x:DFCCL_TUNING=set:slots=2,DFCCL_SPIN_FRONT=2" \
  "x:DFCCL_TUNE=1,slots=2" "x:DFCCL_TUNING=set:slots=2,Slots=2"; do
  usage_error "$compare" run --variant "$variant"
  grep -q "error: argument --variant: .*'" "$work/err" || fail "variant $variant: not said why"
done

measure() { # STATUS OPTIONS...
  expected=$1
  shift
  timeout 400 "$compare" run --build "$build" --libraries dfccl,bound,openmpi,mpich --rounds 1 -b \
    64 -e 64K \
    -f 1024 --milliseconds 1 --timeout 100 --retries 1 --require-peer --out "$work/figures" "$@" \
    >"$work/out" 2>"$work/err" </dev/null
  status=$?
  if [ "$status" -eq 77 ]; then cat "$work/out"; exit 77; fi
  [ "$status" -eq "$expected" ] ||
    { fail "exit status $status: compare run $*"; cat "$work/out" "$work/err"; }
  grep '^failed: [om]p' "$work/out" # failures of other libraries are printed, and not counted
}

measure 0 --operations allreduce
out_has '^allreduce, 2 ranks, inputs written$'
out_has '^wrong elements: none$'
measure 0 --operations allreduce,alltoall --append
run 0 cat "$work/figures"
json "sorted(o['points']) == sorted('2 %s %d written' % (p, b) for p in ('allreduce', 'alltoall') for b in (64, 65536))"
json "all(len(p['rounds']) == (2 if p['operation'] == 'allreduce' else 1) and p['wrong'] == {} \
  and all(r['us'][n] > 0 for r in p['rounds'] for n in ('dfccl', 'dfccl-mem', 'bound')) \
  for p in o['points'].values())"
json "not [f for f in o['failures'] if f['library'] in ('dfccl', 'bound')]"
json "len(o['runs']) == 2 and o['runs'][0]['machine']['cores'] > 0"
json "all(p['inputs'] == 'written' for p in o['points'].values())"
json "o['runs'][0]['machine']['line_ns'] is None or o['runs'][0]['machine']['line_ns'] > 0"

# DFCCL again: with another setting, of a build that is named, of one that does not exist, and with
# a setting that the library refuses, which proves that settings reach the ranks.
measure 0 --operations broadcast --append --variant few:DFCCL_TUNING=set:slots=2,quit_polls=50 \
  --inputs both --variant \
  named:"$build" \
  --variant none:"$work/none" --variant bad:DFCCL_TUNING=set:slots=many
out_has '^ *bytes .* few .* few-mem .* named .* named-mem '
grep -q "^left out: none: $work/none/bench/compare/compare-dfccl does not exist$" "$work/err" ||
  fail "not said what is left out"
grep -q '^bad, 2 ranks: .*slots is "many"' "$work/err" || fail "a setting did not reach the ranks"
run 0 cat "$work/figures"
json "all(r['us'][n] > 0 for p in o['points'].values() if p['operation'] == 'broadcast' for r in p['rounds'] \
  for n in ('few', 'few-mem', 'named', 'named-mem')) \
  and not any(n in r['us'] for p in o['points'].values() for r in p['rounds'] for n in ('none', 'bad'))"

# Hosts: available libraries start on both. A number of ranks that cannot be divided among the
# hosts, and figures of another number of hosts, are refused.
timeout 200 "$compare" run --build "$build" --libraries dfccl,bound,openmpi,mpich,gloo --hosts 2 \
  --rounds 1 -b 64 -e 64 --milliseconds 1 \
  --operations allreduce --timeout 60 --retries 0 --out "$work/hosts" >"$work/out" 2>"$work/err" \
    </dev/null
status=$?
if [ "$status" -ne 77 ]; then
  [ "$status" -eq 0 ] ||
    { fail "exit status $status: compare run --hosts 2"; cat "$work/out" "$work/err"; }
  out_has '^# 2 hosts: network namespaces of that machine$'
  run 0 cat "$work/hosts"
  json "not [f for f in o['failures'] if f['library'] == 'dfccl'] and o['points']['2 allreduce 64 written']['rounds'][0]['us']['dfccl'] > 0"
  run 1 "$compare" report "$work/figures" "$work/hosts"
  grep -q 'figures of 1 and of 2 hosts do not go into one table' "$work/err" ||
    fail "figures of different hosts were mixed"
fi
run 77 "$compare" run --build "$build" --libraries dfccl --hosts 2 --ranks 3
grep -q '3 ranks cannot be shared out evenly among 2 hosts' "$work/err" || fail "not said why"

printf 'before\n<!-- compare-summary: begin -->\n<!-- compare-summary: end -->\n<!-- compare: begin -->\nold\n<!-- compare: end -->\nafter\n' >"$work/docs"
run 0 "$compare" report "$work/figures" "$work/figures" --svg "$work/svg" --json "$work/merged" \
  --docs "$work/docs"
run 0 cat "$work/docs"
out_has '^before$'
out_has '^after$'
out_has '^\| bytes \| allreduce \| broadcast \| alltoall \|$'
out_has '^\| 2 ranks, ordinary memory, inputs written \| [0-9]* of [0-9]* points \| '
out_has '^\| 2 ranks, ordinary memory, inputs untouched \| [0-9]* of [0-9]* points \| '
if grep -q '^old$' "$work/out"; then fail "the old table is still there"; fi

# The short table of another document, at the same time. No line of prose or of a command has more
# than 120 columns. A document without markers is refused.
printf '<!-- compare-points: begin -->\nold\n<!-- compare-points: end -->\n' >"$work/short"
run 0 "$compare" report "$work/figures" --docs "$work/docs" --docs "$work/short"
run 0 cat "$work/short"
out_has '^\| ranks, inputs \| bytes \| allreduce \| broadcast \| alltoall \|$'
out_has '^\| 2, written \| [0-9]* K*B \| [0-9.,]* \([0-9.,]*, [0-9.,]*\) \| '
if grep -q '^old$' "$work/out"; then fail "the old short table is still there"; fi
long=$(grep -hv '^|' "$work/docs" "$work/short" | awk 'length > 120')
[ -z "$long" ] || fail "lines over 120 columns: $long"

# Figures of two machines are not mixed: each has its tables, and one table has both.
run 0 python3 -c 'import json, sys
figures = json.load(open(sys.argv[1]))
for one in figures["runs"]: one["machine"].update(cpu="Another one", line_ns=77)
json.dump(figures, open(sys.argv[2], "w"))' "$work/figures" "$work/other"
run 0 "$compare" report "$work/figures" "$work/other"
out_has '^# A: .*'
out_has '^# B: Another one, .*, a cache line to the other processor and back 77 ns, '
out_has '^ *ranks *operation *inputs *bytes *A *B$'
out_has '^ *2 *allreduce *written *64 B *[0-9.,]* \([0-9.,]*, [0-9.,]*\) *[0-9.,]* \('
run 0 "$compare" report "$work/figures" "$work/other" --docs "$work/docs" --docs "$work/short"
run 0 cat "$work/docs"
out_has '^\| Another one, [0-9]* cores: 2 ranks, ordinary memory, inputs written \| '
out_has '^\| 2 \| allreduce \| written \| 64 B \| [0-9.,]* \([0-9.,]*, [0-9.,]*\) \| [0-9.,]* \('
echo 'no marker' >"$work/bare"
run 1 "$compare" report "$work/figures" --docs "$work/bare"
grep -q 'has no markers' "$work/err" || fail "not said that the document has no markers"
run 0 cat "$work/merged"
json "all(len(p['rounds']) in (2, 4) for p in o['points'].values()) and len(o['runs']) == 6"
run 0 python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/svg"
finish
