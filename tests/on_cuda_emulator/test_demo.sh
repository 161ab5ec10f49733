#!/bin/sh
# Promises of the demo with --backend cuda on the emulated runtime, through the public API:
#   - Disordered all-reduces complete and every element is right: with ranks as threads and as
#     processes (IPC), with device synchronisations, with every block polling the SQ and with the
#     relay, on a device that holds one block at a time, and with all three completion queues;
#     and with a device for each rank, as threads and as processes.
#   - If any CUDA call fails, or the device is lost at any time, the demo ends, either with the
#     right results or with an error message.
# Usage: test_demo.sh DEMO DIRECTORY_OF_LIBCUDA runs|failures [STEP]
demo=$1 part=$3 step=${4:-1} failed=0 number=0
export LD_LIBRARY_PATH="$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# Few lanes and little patience: what takes no time on a GPU takes some here.
base=set:cuda_threads=32,quit_polls=100,spin_front=20
export DFCCL_TUNING=$base DFCCL_CUDA_ARENA_MB=2
export CUDA_EMULATOR_DEVICES=1
sentences=$(mktemp) || exit 1
trap 'rm -f "$sentences"' EXIT

fail() {
  echo "not ok - $*"
  sed 's/^/# /' "$sentences"
  failed=$((failed + 1))
}

# Arguments: an environment, then options. The run must end with right results.
right() {
  number=$((number + 1))
  what=$*
  settings=
  while [ $# -gt 0 ] && [ "${1#*=}" != "$1" ]; do settings="$settings $1" && shift; done
  # shellcheck disable=SC2086 # the settings are words
  if env $settings timeout -k 5 120 "$demo" disorder --backend cuda "$@" >"$sentences" 2>&1 &&
    grep -q 'every element is right' "$sentences"; then
    echo "ok - demo $what"
  else
    fail "demo $what"
  fi
}

# Runs the demo with a call that fails, or at which the device is lost. The demo must end, with an
# error message if it has no results.
ends() { # VARIABLE NUMBER
  env "$1=$2" timeout -k 5 120 "$demo" disorder -n 2 -c 1 -i 1 --backend cuda >"$sentences" 2>&1
  status=$?
  case $status in
  0) grep -q 'every element is right' "$sentences" || fail "$1=$2: done, and not right" ;;
  1) grep -q '^dfccl-demo: ' "$sentences" || fail "$1=$2: no sentence" ;;
  *) fail "$1=$2: status $status" ;;
  esac
}

if [ "$part" = runs ]; then
  right -n 2 -c 3 -i 3
  right -n 3 -c 4 -i 2 --sync
  right -n 2 -c 3 -i 2 --processes
  right -n 2 -c 3 -i 2 --processes --sync
  right DFCCL_TUNING=$base,words_max=65536 -n 3 -c 3 -i 2
  right DFCCL_TUNING=$base,cuda_relay=0 -n 2 -c 3 -i 2
  right DFCCL_TUNING=$base,words_max=0 -n 2 -c 3 -i 2
  right DFCCL_TUNING=$base,preempt_every=1 -n 2 -c 3 -i 2
  right CUDA_EMULATOR_MULTIPROCESSORS=1 -n 2 -c 3 -i 2
  right CUDA_EMULATOR_MULTIPROCESSORS=1 DFCCL_MAX_BLOCKS=2 -n 2 -c 3 -i 2
  right DFCCL_TUNING=$base,cq=packed -n 2 -c 2 -i 2
  right DFCCL_TUNING=$base,cq=slots -n 2 -c 2 -i 2
  right CUDA_EMULATOR_DEVICES=3 -n 3 -c 4 -i 2
  right CUDA_EMULATOR_DEVICES=2 -n 3 -c 3 -i 2 --processes
else
  for variable in CUDA_EMULATOR_FAIL CUDA_EMULATOR_LOSE; do
    call=1
    while [ $call -le 200 ]; do
      ends $variable $call
      call=$((call + step))
    done
    [ $failed -gt 0 ] || echo "ok - $variable=1 to 200, every ${step}th"
    number=$((number + 1))
  done
fi
echo "1..$number"
[ $failed = 0 ]
