# shellcheck shell=sh
# Promise: each trace of bench/traces/generate names its source, has as many calls as its model and
# its layout need, and is replayed with no element wrong, scaled down.
#
#   test_replay_traces.sh DFCCL_BENCH GENERATE
set -u
. "$(dirname "$0")/check.sh"
bench=$1 generate=$2

# trace NAME COUNTS CALLS [OPTION]...: CALLS of all ranks; COUNTS scales the numbers of calls.
trace() {
  name=$1 counts=$2 calls=$3
  shift 3
  run 0 "$generate" "$name" "$@" -o "$work/$name.jsonl"
  head -n 1 "$work/$name.jsonl" | grep -q '"source": "[^"]*20[0-9][0-9]' || fail "$name: no source"
  run 0 "$bench" replay "$work/$name.jsonl" --scale "0.00001:$counts:0" --iterations 1 --json
  json "o['file_calls'] == $calls and o['runs'] == o['calls'] and o['wrong'] == 0"
}

trace resnet50-data 1 $((4 * 161)) --ranks 4
trace resnet50-data 1 $((2 * 5)) --ranks 2 --bucket-mb 25
trace vit-base-data 1 $((2 * 12 * 12)) --ranks 2
trace vit-large-data 1 $((2 * 24 * 12)) --ranks 2
# Two all-reduces in each layer, forward and backward, in each microbatch.
trace vit-base-tensor 1 $((2 * 12 * 2 * 2 * 2)) --ranks 2 --microbatches 2
trace vit-large-tensor 1 $((2 * 24 * 2 * 2)) --ranks 2 --microbatches 1
# The same on half of the ranks in each stage, messages of two ranks, and gradients.
trace vit-base-hybrid 1 $((8 * 12 * 2 + 2 * 8 + 8 * 6 * 12)) --microbatches 1
trace vit-large-hybrid 1 $((4 * 24 * 2 + 2 * 4)) --sizes 2x1x2 --microbatches 1
trace gpt2-hybrid 1 $((2 * 4 + 4 * 24 * 12)) --sizes 1x2x2 --microbatches 1
trace autoccl-phi2 0.002 $((4 * (3120 + 2064 + 1))) --ranks 4
trace autoccl-llama 0.002 $((2 * (6240 + 1 + 4128 + 1))) --ranks 2
trace autoccl-yi 0.0002 $((2 * (61440 + 93184))) --ranks 2
trace autoccl-vgg19 1 $((4 * 6)) --ranks 4
# Parameters of each layer twice, gradients once, and the embedding.
trace zero3-7b 1 $((2 * (3 * 32 + 2))) --ranks 2
trace zero3-13b 1 $((2 * (3 * 40 + 2))) --ranks 2
sizes=$(grep allreduce "$work/autoccl-vgg19.jsonl" | grep -o '"bytes": [0-9]*' | sort -u -k 2n)
case $sizes in
*'411058176'*) ;;
*) fail "the largest all-reduce of VGG-19 has not 392 MiB: $sizes" ;;
esac
run 2 "$generate" resnet
run 2 "$generate" gpt2-hybrid --sizes 2x2
run 2 "$generate" gpt2-hybrid --tflops 0
finish
