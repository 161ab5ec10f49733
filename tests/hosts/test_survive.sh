#!/usr/bin/env bash
# Promise: ranks go on when others are killed, with ranks on two and on three hosts, and on one host
# with all pairs connected by the network: test_survive.sh KILLS [JOBS].
set -u
here=$(dirname "$0")
jobs=${2:-8}
# 77: no rights; the bed prints the reason.
"$here/property" "$1" 2 --seed 11 --jobs "$jobs" || exit
"$here/property" "$1" 3 --seed 12 --jobs "$jobs" || exit
DFCCL_NET=tcp "$1" --seed 13 --jobs "$jobs"
