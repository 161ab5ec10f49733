#!/bin/sh
# lint: allow-file(columns) the expectations are Python expressions of one line
#
# Promise: dfccl-bench prints the format that scripts for nccl-tests read, checks every element of
# every type and operator, and its JSON and exit statuses are those of the contract.
. "$(dirname "$0")/check.sh"
bench=$1 seen=$2

usage_error "$bench"
usage_error "$bench" frobnicate
err_has "there is no operation 'frobnicate' \(try"
usage_error "$bench" allreduc
err_has "there is no operation 'allreduc'; perhaps it should be allreduce \(try --help\)"
usage_error "$bench" allreduce --jsn
err_has "unknown option --jsn; perhaps it should be --json "
usage_error "$bench" allreduce reduce
usage_error "$bench" allreduce -n 0
usage_error "$bench" allreduce -b 1T
usage_error "$bench" allreduce -b -1
usage_error "$bench" allreduce -b 64K -e 8
usage_error "$bench" allreduce -f 1
usage_error "$bench" allreduce -d complex
usage_error "$bench" allreduce -o xor
usage_error "$bench" allreduce --alloc gpu
usage_error "$bench" allreduce --backend tpu
usage_error "$bench" allreduce --what
usage_error "$bench" allreduce -a quick
usage_error "$bench" alltoall -a ring
usage_error "$bench" allreduce --out table
usage_error "$bench" tune -a ring
usage_error "$bench" tune -n 1
usage_error "$bench" allreduce --rounds 3
usage_error "$bench" allreduce --seed 3
usage_error "$bench" disorder --rounds 0
usage_error "$bench" disorder --seed 0
usage_error "$bench" disorder --in-place
usage_error "$bench" disorder -a bruck
usage_error "$bench" allreduce --survive 3
usage_error "$bench" tune --survive 1
usage_error "$bench" allreduce --survive 1 --backend cuda
usage_error "$bench" events --backend cuda --processes
run 0 "$bench" --help
out_has 'usage: dfccl-bench'
run 0 "$bench" --version
out_has '^dfccl-bench [0-9]+\.[0-9]+\.[0-9]+$'

# The columns: size count type redop root, then time algbw busbw #wrong, twice.
run 0 "$bench" allreduce -n 3 -b 1K -e 4K -i 5
out_has '^# +size +count +type +redop +root +time +algbw +busbw +#wrong +time +algbw +busbw +#wrong$'
number='[0-9]+(\.[0-9]+)?'
for row in '1024 +256' '2048 +512' '4096 +1024'; do
  out_has "^ +$row +float +sum +-1( +$number){3} +0( +$number){3} +0$"
done
out_has '^# Out of bounds values : 0 OK$'
out_has '^# Avg bus bandwidth    : [0-9.e+-]+ $'
run 0 "$bench" reduce -n 2 -b 64 -e 64 -i 2 -o max -d double
out_has "^ +64 +8 +double +max +0 "
run 0 "$bench" alltoall -n 4 -b 1K -e 1K -i 2
out_has "^ +1024 +64 +float +none +-1 "
run 0 "$bench" allgather -n 3 -b 1K -e 1K -i 2 --in-place
out_has "^ +1008 +84 +float +none +-1( +N/A){4}( +$number){3} +0$"

# The JSON output, and the factor between algbw and busbw.
for case in 'allreduce 1.5' 'allgather 0.75' 'reducescatter 0.75' 'alltoall 0.75' 'broadcast 1' \
  'reduce 1'; do
  operation=${case% *} factor=${case#* }
  for mode in '' '--processes' '--alloc dfccl' '--in-place' \
    '--processes --alloc dfccl --in-place'; do
    # shellcheck disable=SC2086
    run 0 "$bench" "$operation" -n 4 -b 64 -e 256K -f 64 -i 3 -w 1 --json $mode
    json "list(o) == ['op', 'ranks', 'backend', 'results'] and o['op'] == '$operation' \
      and o['ranks'] == 4 and o['backend'] == 'cpu' \
      and [r['bytes'] for r in o['results']] == [64, 4096, 262144] \
      and all(list(r) == ['bytes', 'time_us_min', 'time_us_median', 'algbw_GBps', 'busbw_GBps', \
        'wrong'] for r in o['results']) \
      and all(r['wrong'] == 0 and 0 < r['time_us_min'] <= r['time_us_median'] \
        and abs(r['busbw_GBps'] - $factor * r['algbw_GBps']) <= 1e-6 * r['algbw_GBps'] \
        and abs(r['bytes'] / r['time_us_median'] / 1e3 - r['algbw_GBps']) \
          <= 1e-6 * r['algbw_GBps'] for r in o['results'])"
  done
done

# A named algorithm gives right results; tune writes a table that the library reads.
for case in 'allreduce doubling' 'allreduce rabenseifner' 'allgather bruck' \
  'reducescatter halving' \
  'broadcast scatter-allgather' 'reduce doubletree' 'reduce rabenseifner' \
  'allgather pat' 'reducescatter pat' 'alltoall direct'; do
  run 0 "$bench" "${case% *}" -n 3 -b 4K -e 64K -f 16 -i 3 -w 1 -a "${case#* }"
  out_has '^# Out of bounds values : 0 OK$'
done
run 0 "$bench" tune -n 4 -b 1K -e 32K -f 32 -i 2 --out "$work/table"
"$seen" terminal '[1-9][0-9]?%, about [0-9]+ (s|min) left: [a-z]+, [24] ranks' "$bench" tune -n 4 \
  --out "$work/partial" || fail "tune does not show its share"
grep -qx 'dfccl-tuning 1' "$work/table" || fail "the table has no first line"
for words in '# date: ' '# machine: ' '# processor: ' '# version: ' '# command: dfccl-bench ' \
  '# allreduce 2 process 32768:.* auto ' '# alltoall 4 host 32768:.* auto ' \
  '# [a-z]+ [24] (process|host) 32768:.*/32K '; do # the times decide which algorithm tries it
  grep -Eq "^$words" "$work/table" || fail "the table lacks '$words'"
done
run 0 env DFCCL_TUNING="$work/table" "$bench" allreduce -n 3 -b 1K -e 32K -f 32 -i 2
out_has '^# Out of bounds values : 0 OK$'
sed '1a\
allwrong 2 * any ring' "$work/table" >"$work/wrong"
run 1 env DFCCL_TUNING="$work/wrong" "$bench" allreduce -n 2 -b 8 -e 8 -i 2
err_has "wrong:[0-9]+: .*allwrong"

# A calibration lies in the cache directory, and jobs take it; its rules are those that won. So one
# is put there that certainly fits.
run 0 env XDG_CACHE_HOME="$work/cache" "$bench" tune --quick -n 2 -b 1M -e 1M -i 1
out_has "^$work/cache/dfccl/calibration-[0-9a-f]+.table\$"
calibration=$(ls "$work"/cache/dfccl/*)
grep -q '^# calibrated: dfccl ' "$calibration" || fail "the calibration does not name its machine"
echo 'allreduce 2 * process doubling slot=64K' >>"$calibration"
run 0 env XDG_CACHE_HOME="$work/cache" DFCCL_CALIBRATION=1 "$bench" allreduce -n 2 -b 1K -e 1K \
  --explain
out_has "of the machine's calibration .DFCCL_CALIBRATION., line [0-9]+: allreduce"
run 0 env XDG_CACHE_HOME="$work/cache" DFCCL_CALIBRATION=0 "$bench" allreduce -n 2 -b 1K -e 1K \
  --explain
out_has 'of the built-in table: allreduce'
run 0 "$bench" tune -n 2 -b 1M -e 1M -i 1 --rounds 3 --out "$work/long" # long lines of times
run 0 env DFCCL_TUNING="$work/long" "$bench" allreduce -n 2 -b 1M -e 1M -i 2
run 0 "$bench" allreduce -n 2 -b 1K -e 1K -i 2 -a 'ring slot=256 slots=8'
usage_error "$bench" allreduce -n 2 -a 'ring slots=7'
usage_error "$bench" allreduce --quick

# Files are measured like algorithms. A file that is refused is named and omitted.
mkdir "$work/algorithms"
cat >"$work/algorithms/swap.xml" <<'XML'
<algo name="swap" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="1" outofplace="1">
<gpu id="0"><tb id="0" send="1" recv="1" chan="0"><step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1"/></tb></gpu>
<gpu id="1"><tb id="0" send="0" recv="0" chan="0"><step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1"/></tb></gpu>
</algo>
XML
echo nonsense >"$work/algorithms/wrong.xml"
run 0 env DFCCL_ALGORITHMS="$work/algorithms" "$bench" tune -n 2 -b 1K -e 1K -i 1 --out \
  "$work/files_table"
err_has 'left out: .*wrong.xml:1: '
if ! grep -q 'swap.xml.*built without' "$work/err"; then
  grep -q '^# allgather 2 process 1024:.* file:swap.xml ' "$work/files_table" ||
    fail 'the file was not measured'
fi
rm "$work/algorithms/wrong.xml"
run 0 env DFCCL_ALGORITHMS="$work/algorithms" DFCCL_TUNING="$work/files_table" "$bench" allgather \
  -n 2 -b 1K -e 1K -i 2
out_has '^# Out of bounds values : 0 OK$'

# Every type with every operator; three ranks, so that avg divides by an awkward number.
for type in int8 uint8 int16 uint16 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 \
  f8e5m2; do
  operators="sum prod max min avg"
  case $type in *int*) operators="$operators band bor bxor" ;; esac
  for operator in $operators; do
    run 0 "$bench" allreduce -n 3 -b 64 -e 64000 -f 1000 -i 1 -w 0 -d $type -o "$operator" --json
    grep -Eq '("wrong": ?0[,}].*){2}' "$work/out" || fail "$type $operator: $(cat "$work/out")"
  done
done

# The operations that NCCL's first versions did not have, as threads and processes, and the options
# that they refuse.
for operation in gather scatter scan exclusivescan sendrecv barrier allgatherv reducescatterv gatherv scatterv \
  alltoallv neighbours; do
  ranks=3
  [ $operation = sendrecv ] && ranks=2
  for mode in '' --processes --in-place; do
    case $operation$mode in alltoallv--in-place | neighbours--in-place) continue ;; esac
    run 0 "$bench" $operation -n $ranks -b 64 -e 64000 -f 1000 -i 1 -w 0 -d int16 $mode
    out_has '^# Out of bounds values : 0 OK$'
  done
done
run 2 "$bench" sendrecv -n 3
run 2 "$bench" alltoallv --in-place
run 2 "$bench" scan -a flat

# --survive: right results, in place and out of place; the settling round shows in the plan.
for survive in 0 1 2; do
  for operation in allreduce alltoall; do
    for mode in '' --processes; do
      # shellcheck disable=SC2086
      run 0 "$bench" $operation -n 3 -b 64 -e 64000 -f 1000 -i 2 -w 1 --survive $survive $mode
      out_has '^# Out of bounds values : 0 OK$'
    done
  done
done

run 0 "$bench" allreduce -b 8 -e 8 -i 1 --check=0 --json
json "o['results'][0]['wrong'] is None"
run 0 "$bench" overhead -i 100 --json
json "o['op'] == 'overhead' and o['ranks'] == 1 and len(o['results']) >= 6"
json "all(r['time_us_min'] <= r['time_us_median'] for r in o['results'])"

# disorder: every mode at every size. No collective is preempted if thresholds are never reached.
modes="['ordered', 'disordered', 'patient', 'blocking']"
for mode in '' '--processes' '--processes --alloc dfccl' '-a ring -d int8 -o max'; do
  # shellcheck disable=SC2086
  run 0 "$bench" disorder -n 3 -b 64 -e 64K -f 1024 -i 4 -w 1 --rounds 2 --json $mode
  json "list(o) == ['op', 'ranks', 'backend', 'processes', 'collectives', 'rounds', 'seed', 'results'] \
    and (o['op'], o['ranks'], o['collectives'], o['rounds'], o['seed']) == ('disorder', 3, 8, 2, 1) \
    and [(r['bytes'], r['mode']) for r in o['results']] \
      == [(b, m) for b in (64, 65536) for m in $modes] \
    and all(r['wrong'] == 0 and r['batches'] == 4 and 0 < r['time_us_min'] <= r['time_us_median'] \
      and 0 < r['ratio_first_quartile'] <= r['ratio_median'] <= r['ratio_third_quartile'] \
      and r['preemptions'] >= 0 and r['quits'] >= 0 and r['compared_with'] in $modes \
      and (r['mode'] != 'patient' or r['preemptions'] == 0) for r in o['results'])"
done
# The thresholds that are never reached are added to a user's table: in both contexts each run is
# preempted, as the table demands.
printf 'dfccl-tuning 1\nset preempt_every 1\n' >"$work/preempting"
for tuning in "$work/preempting" "$work/preempting,set:slots=8" set:preempt_every=1; do
  run 0 env DFCCL_TUNING="$tuning" "$bench" disorder -n 2 -b 64 -e 64 -i 2 --rounds 2 --json
  json "all(r['preemptions'] > 0 for r in o['results'] if r['mode'] in ('ordered', 'patient'))"
done
run 0 "$bench" disorder -n 2 -b 256 -e 256 --rounds 2 --seed 7 --check=0
out_has "^# batches of 8 all-reduces, float sum; rounds: 2 seed: 7 validation: 0$"
for mode in 'ordered .* N/A  of patient' 'disordered .* of ordered' \
  'patient .* 0.00 .* of ordered' \
  'blocking .* of ordered'; do
  out_has "^ +256 +[0-9]+ +$mode$"
done

# A run whose output is lost has failed. The launcher prints the head of the table, and the process
# of rank 0 prints its rows.
lost_output "$bench" --help
lost_output "$bench" --version
for mode in '' '--json' '--processes' '--processes --json'; do
  # shellcheck disable=SC2086
  lost_output "$bench" allreduce -b 8 -e 8 -i 1 $mode
done
for mode in '' '--json'; do
  # shellcheck disable=SC2086
  lost_output "$bench" disorder -b 256 -e 256 -i 1 --rounds 1 $mode
  # shellcheck disable=SC2086
  lost_output "$bench" overhead -i 3 $mode
done
lost_output "$bench" tune -n 2 -b 8 -e 8 -i 1
if [ -c /dev/full ]; then
  run 1 "$bench" tune -n 2 -b 8 -e 8 -i 1 --out /dev/full
  err_has 'cannot write the table'
fi
for command in 'allreduce -b 8 -e 1M' 'disorder -b 256 -e 1M -f 2 -i 3 --rounds 3'; do
  # The reader ends after the head of the table. The next write fails, since SIGPIPE is ignored.
  # shellcheck disable=SC2086
  (trap '' PIPE; timeout 100 "$bench" $command --processes 2>"$work/err" </dev/null; echo $? \
    >"$work/status") | head -n 6 >"$work/out"
  [ "$(cat "$work/status")" -eq 1 ] ||
    fail "status $(cat "$work/status") when the reader of the table leaves: $command"
  err_has 'standard output cannot be written'
done

# Over TCP among three processes, a buffer is lent to two readers at once, and both return it.
export DFCCL_NET=tcp
for algorithm in doubling twolevel ring; do
  run 0 timeout 60 "$bench" allreduce -n 3 --processes -a $algorithm -b 64K -e 1M -f 4 -i 20
  out_has 'Out of bounds values : 0 OK'
done
unset DFCCL_NET

# --explain: the configuration of a 2 KB broadcast of 4 ranks, and its reasons.
run 0 "$bench" broadcast -n 4 --processes -b 2K -e 2K --explain
out_has '^2048 bytes$'
out_has 'algorithm: .*, since '
out_has 'form: .*, since '
out_has 'lend: nothing, since '
# Slots for pieces of different sizes are as large as the largest piece. Ranks that share a core use
# 16 of them.
run 0 taskset -c "$(taskset -cp $$ |
  sed 's/.*: *\([0-9]*\).*/\1/')" "$bench" gatherv -n 4 --processes -b 128 -e 128 --explain
out_has 'rings: 16 slots .*, since some ranks wait for nobody, and may run ahead'
run 0 "$bench" allreduce -n 2 -b 8 -e 8K -f 1024 --explain --json
json "list(o) == ['op', 'ranks', 'backend', 'explanations'] and [e['bytes'] for e in o['explanations']] == [8, 8192]"
json "all(e['algorithm'] and 'since' in e['why'] for e in o['explanations'])"
usage_error "$bench" tune --explain
lost_output "$bench" allreduce -b 8 -e 8 --explain

# --bound, for this machine and for a network: 2 hosts, 1 GB/s, 10 us: 10 us + 1 MB / 1 GB/s.
run 0 "$bench" allreduce -n 2 -b 1M -e 1M -i 3 --bound
out_has 'bound \(us\) and reached'
cat >"$work/network.json" <<'END'
{"ranks_per_host": 1, "between": {"latency_us": 10, "GBps": 1}}
END
run 0 "$bench" broadcast -n 2 -b 1000000 -e 1000000 -i 3 --bound --network "$work/network.json" \
  --json
json "abs(o['results'][0]['bound_us'] - 1010) < 0.01 and o['results'][0]['reached_percent'] > 0"
run 0 "$bench" barrier -n 2 -i 3 --bound
out_has 'N/A *N/A$'
usage_error "$bench" allreduce --network "$work/network.json"
usage_error "$bench" allreduce --bound --network /nowhere
usage_error "$bench" tune --bound
finish
