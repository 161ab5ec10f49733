# shellcheck shell=bash disable=SC2034,SC2154 # scripts/gpu-suite and the stages share variables
# The environment of all parts, their sizes, and the settings that the stage smoke has saved.

export TEST_BACKEND=cuda DFCCL_DEBUG_SIGNAL=1 CUDA_MODULE_LOADING=${CUDA_MODULE_LOADING:-EAGER}
cuda=(--backend cuda)
tap=(-j1 --tap)
lazy=(env CUDA_MODULE_LOADING=LAZY)

if [ "$emulated" = 1 ]; then
  export DFCCL_TUNING=set:cuda_threads=32,quit_polls=100,spin_front=20 DFCCL_CUDA_ARENA_MB=2
  many=2 several=2 collectives=3 runs=2 rounds=2 programs=1 ranks_tried="2"
  sizes=(-b 8 -e 4K -f 512 -i 2 -w 1) all_sizes=("${sizes[@]}") words_sizes=("${sizes[@]}") \
    large=("${sizes[@]}")
  batches=(-b 256 -e 256 -i 2) iterations=20 event_sizes=(-e 4K) warm_seconds=0 nccl_most=64 \
    behaviours=(callbacks)
else
  many=8 several=4 collectives=8 runs=200 rounds=7 programs=500 ranks_tried="2 4 8"
  sizes=(-b 8 -e 64M -f 8) all_sizes=(-b 8 -e 1G -f 8) words_sizes=(-b 8 -e 256K -f 4) \
    large=(-b 16M -e 256M -f 16)
  batches=() iterations=4000 event_sizes=() warm_seconds=3 nccl_most=536870912
  # The tests that the CUDA device must pass (tests/on_cuda_emulator/meson.build); streams are in
  # the stage smoke.
  # results comes last: it alone may take half a minute.
  behaviours=(reductions callbacks opposite_order run rerun groups priorities \
    device_synchronize deregister contexts leftovers
    lent_buffers memory waiting stats sq_full mismatch invalid_arguments init abort \
      abort_collectives timeout departures peer_killed
    diagnostics tuning record idle broken configuration results)
fi

# Thresholds that the stage smoke compares. Each is an environment; the default is the first.
# On CUDA a poll counts as a microsecond.
patience=("" "DFCCL_TUNING=set:spin_front=50,spin_boost=6"
  "DFCCL_TUNING=set:spin_front=50,spin_boost=2" "DFCCL_TUNING=set:spin_front=20,spin_boost=1"
  "DFCCL_TUNING=set:spin_front=10,spin_boost=1")
connections_tried="32 8 1"
if [ "$emulated" = 1 ]; then connections_tried=32; fi

# Prints NAME=VALUE. Numbers of the tuning table are added to the file and the numbers that the
# environment has already, and count more.
joined() {
  case $1 in
    DFCCL_TUNING=set:*)
      printf '%s' "DFCCL_TUNING=${DFCCL_TUNING:+$DFCCL_TUNING,}${1#DFCCL_TUNING=}" ;;
    *) printf '%s' "$1" ;;
  esac
}
# Under compute-sanitizer everything takes long, and kernels may come one after the other.
tiny=(env
  "$(joined DFCCL_TUNING=set:spin_front=20,spin_boost=1,quit_polls=50,cuda_threads=64)"
  DFCCL_MAX_BLOCKS=2)

# The file `learnt` has lines of these forms; what the environment has already counts more. A table
# file of the environment may set the same numbers, so saved numbers are not added to it.
learnt_lines='^(CUDA_DEVICE_MAX_CONNECTIONS=[0-9]+'
learnt_lines+='|DFCCL_TUNING=set:[a-z_]+=[0-9]+(,[a-z_]+=[0-9]+)*)$'
take_over() {
  local file line name given
  learnt_from=
  for file in "${LEARNT-}" "$out/learnt" "$folder/learnt"; do
    if [ -n "$file" ] && [ -r "$file" ]; then learnt_from=$file; break; fi
  done
  if [ -z "$learnt_from" ]; then
    say "no saved settings: no file \`learnt\` of the stage smoke in \$OUT or beside gpu-suite," \
      "and no \$LEARNT; the defaults are used"
  elif ! grep -Fqx "# gpu: $gpu" "$learnt_from"; then
    say "the saved settings in $learnt_from are of another GPU, and are not used"
    learnt_from=
  else
    while read -r line; do
      name=${line%%=*} given=${DFCCL_TUNING-}
      if [ "$name" = DFCCL_TUNING ] && [[ $given == set:* ]]; then
        line=$line,$given
        unset DFCCL_TUNING
      elif [ "$name" = DFCCL_TUNING ] && [ -n "$given" ]; then
        say "the saved $line is not used, since DFCCL_TUNING is $given"
      fi
      if [ -z "${!name+x}" ]; then export "${line?}"; fi
    done < <(grep -E "$learnt_lines" "$learnt_from")
    say "saved settings, from $learnt_from: $(grep -E "$learnt_lines" "$learnt_from" | tr '\n' ' ')"
  fi
  # Each rank has two streams. With eight queues for sixteen streams, one stream would wait behind
  # another.
  export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-32}
}

# An idle GPU has low clocks.
warm_up() {
  if [ $warm_seconds = 0 ]; then return 0; fi
  part 30 "clocks up, before $1" "$probe" warm $warm_seconds
  [ "$list" = 1 ] ||
    say "      | clocks: $(nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw \
    --format=csv,noheader 2>/dev/null)"
}
probe_part() { # SECONDS NAME COMMAND...
  if [ -x "$probe" ] || [ "$list" = 1 ]; then
    KIND=probe part "$@"
  else
    skip "$2" "no gpu-probe in this build: it needs nvcc"
  fi
}
disorder() { # SECONDS NAME [NAME=VALUE]... OPTION...
  local limit=$1 name=$2 settings=()
  shift 2
  while [ $# -gt 0 ] && [[ $1 == *=* ]]; do settings+=("$(joined "$1")") && shift; done
  KIND=json part "$limit" "$name" env "${settings[@]}" "$demo" disorder "$@" --json "${cuda[@]}"
}
table() { # SECONDS NAME [NAME=VALUE]... OPERATION OPTION...
  local limit=$1 name=$2 settings=()
  shift 2
  while [ $# -gt 0 ] && [[ $1 == *=* ]]; do settings+=("$(joined "$1")") && shift; done
  KIND=json part "$limit" "$name" env "${settings[@]}" "$bench" "$@" --json "${cuda[@]}"
}
