#!/usr/bin/env bash
# Starts ranks with a real launcher: run.sh PROGRAM mpirun.openmpi|mpirun.mpich
#
# Promises: All ranks of a job find each other, also if some are started through a shell, if two
# jobs run at one time, and if one job follows another. The exit status is 77 (skipped) if the
# launcher is not installed.
set -u -o pipefail
program=$1 launcher=$2
command -v "$launcher" >/dev/null || { echo "$launcher is not installed"; exit 77; }
ranks=5
start=("$launcher" -n)
case $launcher in
  *openmpi*) export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
             start=("$launcher" --oversubscribe -n) ;;
esac
# Variables of a launcher that has started this script would be taken for those of the tested one.
unset RANK WORLD_SIZE PMI_RANK PMI_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE

# Runs a command that prints one line for each rank. The lines must be of one job, one for each
# rank.
one_job() { # FILE COMMAND...
  local file=$1
  shift
  # Each job has its own directory, since two Open MPI jobs that start at one time conflict when
  # they make the one in /tmp.
  mkdir "$file.tmp"
  TMPDIR=$file.tmp timeout 90 "$@" >"$file" ||
    { echo "failed ($?): $*" >&2; cat "$file" >&2; return 1; }
  local got want
  got=$(grep -o 'rank [0-9]* of [0-9]*' "$file" | sort)
  want=$(for ((r = 0; r < ranks; r++)); do echo "rank $r of $ranks"; done | sort)
  [ "$got" = "$want" ] || { echo "these ranks came: $got" >&2; return 1; }
  [ "$(grep -o 'job .*' "$file" | sort -u | wc -l)" = 1 ] || { echo "not one job" >&2; return 1; }
}

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
status=0
for round in 1 2 3; do
  one_job "$directory/$round" "${start[@]}" "$ranks" "$program" || status=1
done
one_job "$directory/shell" "${start[@]}" 2 "$program" : -n $((ranks - 2)) \
  sh -c '"$0"; exit $?' "$program" || status=1
one_job "$directory/left" "${start[@]}" "$ranks" "$program" & left=$!
one_job "$directory/right" "${start[@]}" "$ranks" "$program" || status=1
wait "$left" || status=1
jobs=$(grep -hos 'job .*' "$directory"/* | sort -u | wc -l)
[ "$jobs" = 6 ] || { echo "$jobs jobs instead of 6" >&2; status=1; }
[ "$status" = 0 ] && echo "6 jobs of $ranks ranks by $launcher"
exit "$status"
