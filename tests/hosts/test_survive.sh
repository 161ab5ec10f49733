#!/usr/bin/env bash
# Promises, with ranks on two and on three hosts: ranks go on when others are killed; when hosts or
# ranks cannot reach each other, one part at most goes on. Also on one host with all pairs connected
# by the network: test_survive.sh KILLS PARTITIONS [JOBS [TIMEOUT_MS]].
set -u
here=$(dirname "$0")
kills=$1 partitions=$2 jobs=${3:-6} timeout=${4:-2000}
# 77: no rights; the bed prints the reason.
"$here/property" "$kills" 2 --seed 11 --jobs "$jobs" || exit
"$here/property" "$kills" 3 --seed 12 --jobs "$jobs" || exit
DFCCL_NET=tcp "$kills" --seed 13 --jobs "$jobs" || exit
command -v nft >/dev/null || { echo 'skipped: nft is not installed'; exit 77; }
some=$(((jobs + 1) / 2))
for event in cut pair refuse stop slow late; do
  # Nobody may be excluded in the last two, so a busy machine needs more time for answers.
  [[ $event != slow ]] || timeout=$((2 * timeout))
  "$here/property" "$partitions" 3 --event $event --seed 14 --jobs "$some" --timeout "$timeout" ||
    exit
done
