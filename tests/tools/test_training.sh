# shellcheck shell=sh
# Promise: bench/compare/training replays a trace with each engine that is there, in turns, and
# writes a table, the results as JSON, and a picture. Input that it cannot use gets a sentence.
#
#   test_training.sh SOURCE_DIRECTORY DFCCL_BENCH
set -u
. "$(dirname "$0")/check.sh"
training=$1/bench/compare/training bench=$2

# A comparison is about 15 replays, and a loaded machine takes seconds for each.
run_seconds=280
compare() {
  run 0 "$training" --bench "$bench" --traces autoccl-vgg19 --compute sleep --iterations 1 \
    --shrink 0.05 -o "$work/results.json" "$@"
}

compare --turns 2 --engines disordered,coordinator --picture "$work/picture.svg"
out_has '^\| trace \| compute \| ranks \| runs \| ordered, ms \| disordered / ordered'
out_has '^\| autoccl-vgg19 \| sleep \| 4 \| 24 \| [0-9.]+ \| [0-9.]+ \([0-9.]+-[0-9.]+\) \|'
cp "$work/results.json" "$work/out"
json "o['turns'] == 2 and o['hosts'] == 1 and len(o['results']) == 1"
json "{'ordered', 'disordered', 'coordinator'} == set(o['results'][0]['engines'])"
json "all(len(e['each']) == 2 for e in o['results'][0]['engines'].values())"
json "all(min(e['each']) > 0 and e['failures'] == 0 for e in o['results'][0]['engines'].values())"
run 0 python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' \
  "$work/picture-sleep.svg"
for class in disordered coordinator; do
  grep -q "<rect class=\"$class\" .*<title>$class: [0-9.]*</title>" "$work/picture-sleep.svg" ||
    fail "the picture has no bar of $class"
done

# Other libraries, as far as their modules were built. One that fails is reported: it may have a
# time limit of its own.
compare --turns 1 --engines mpi,gloo
err=$(cat "$work/err")
cp "$work/results.json" "$work/out"
for engine in mpi gloo; do
  case $err in
    *"left out: $engine: "*) json "'$engine' not in o['results'][0]['engines']" ;;
    *) json "(lambda e: e['failures'] == sum(one is None for one in e['each']))(
      o['results'][0]['engines']['$engine'])" ;;
  esac
done
json "o['results'][0]['engines']['ordered']['failures'] == 0"
run_seconds=100

refused() {
  run 2 "$training" --bench "$bench" "$@"
  err_has "^training: error: "
}
refused --traces resnet51
err_has "unknown trace 'resnet51'; known: resnet50-data"
refused --engines nccl
err_has "unknown engine 'nccl'"
refused --compute think
refused --ranks 6
err_has 'hybrids need a multiple of 4 ranks, not 6'
refused --hosts 3
err_has '4 ranks cannot be divided among 3 hosts'
refused --turns 0
run 2 "$training" --bench "$work/nothing"
err_has 'there is no program .*nothing; build it, or use --bench'
finish
