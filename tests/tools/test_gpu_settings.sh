#!/bin/sh
# Promise: scripts/gpu/settings.sh adds numbers of the tuning table to the table file and the
# numbers of the environment. It uses only the saved settings that the environment does not have.
. "$(dirname "$0")/check.sh"
settings=$1/scripts/gpu/settings.sh

printf '# gpu: a\nDFCCL_TUNING=set:spin_front=20,spin_boost=2\nCUDA_DEVICE_MAX_CONNECTIONS=8\n' \
  >"$work/learnt"

# settings TUNING COMMANDS EXPECTED: what the commands print, with DFCCL_TUNING set to TUNING, or
# without it if TUNING is empty
settings() {
  # shellcheck disable=SC2016 # the inner shell expands the variables
  said=$(env -u DFCCL_TUNING -u CUDA_DEVICE_MAX_CONNECTIONS ${1:+"DFCCL_TUNING=$1"} \
    LEARNT="$work/learnt" bash -uc '
    emulated=0 gpu=a out=/nowhere folder=/nowhere list=1
    settings=$0 commands=$1
    say() { :; }
    . "$settings"
    eval "$commands"' "$settings" "$2") || fail "status $?: $2 with '$1'"
  [ "$said" = "$3" ] || fail "$2 with '$1': '$said' instead of '$3'"
}
join='joined DFCCL_TUNING=set:slots=8'
settings '' "$join" DFCCL_TUNING=set:slots=8
settings set:lend=0 "$join" DFCCL_TUNING=set:lend=0,set:slots=8
settings my.table "$join" DFCCL_TUNING=my.table,set:slots=8
settings my.table,set:lend=0 "$join" DFCCL_TUNING=my.table,set:lend=0,set:slots=8
settings my.table 'joined DFCCL_MAX_BLOCKS=2' DFCCL_MAX_BLOCKS=2
# shellcheck disable=SC2016 # likewise
tiny='echo "${tiny[1]}"'
settings my.table "$tiny" \
  DFCCL_TUNING=my.table,set:spin_front=20,spin_boost=1,quit_polls=50,cuda_threads=64
# shellcheck disable=SC2016 # likewise
take='take_over; echo "$DFCCL_TUNING $CUDA_DEVICE_MAX_CONNECTIONS"'
settings '' "$take" 'set:spin_front=20,spin_boost=2 8'
settings set:spin_front=5 "$take" 'set:spin_front=20,spin_boost=2,set:spin_front=5 8'
settings my.table "$take" 'my.table 8'
settings my.table,set:lend=0 "$take" 'my.table,set:lend=0 8'
finish
