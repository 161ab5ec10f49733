#!/usr/bin/env bash
# Promise: if all connections between two hosts are lost repeatedly, both for data and for control,
# collectives only pause: all complete, and every element is right, also with encryption.
# test_breaks.sh WORKER
set -u
here=$(dirname "$0")
worker=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAILED: $*" >&2; failed=1; }

for security in auth encrypt; do
  DFCCL_NET_SECURITY=$security DFCCL_DEBUG=info timeout 100 "$here/endure" "$worker" 2 3 --break \
    50 --seconds 3 >"$work/said" 2>&1
  status=$?
  [ $status = 77 ] && { cat "$work/said"; exit 77; }
  [ $status = 0 ] || fail "$security: status $status: $(cat "$work/said")"
  again=$(grep -c "control connection to rank .* is established again" "$work/said")
  [ "$again" -gt 10 ] ||
    fail "$security: the control channel was connected again only $again times: $(cat "$work/said")"
  echo "$security: $(grep -o '[0-9]* runs, [1-9][0-9]* breaks' \
    "$work/said"), control's connections made anew $again times"
done
exit $failed
