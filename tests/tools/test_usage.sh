# shellcheck shell=sh
# Promise: PROGRAM --help prints, on standard output, in lines of at most 80 columns and with status
# 0, every option that its SOURCE reads; an unknown option is refused with status 2, and the message
# goes to standard error.
#
#   test_usage.sh PROGRAM SOURCE
set -u
. "$(dirname "$0")/check.sh"
program=$1
options=$(grep -oE '"--[a-z][a-z-]*"|\{"[a-z-]+", (no|required|optional)_argument' "$2" |
  sed -E 's/^"--/{"/; s/^\{"([a-z-]+)".*/--\1/' | sort -u)
[ -n "$options" ] || fail "found no options in $2"
run 0 "$program" --help
[ ! -s "$work/err" ] || fail "--help prints on standard error"
wide=$(awk 'length > 80' "$work/out")
[ -z "$wide" ] || fail "--help has lines of more than 80 columns: $wide"
for option in $options; do
  [ "$option" = --help ] || out_has "(^|[^a-z-])$option([^a-z-]|\$)"
done
run 2 "$program" --no-such-option
[ ! -s "$work/out" ] || fail "the message of an unknown option is on standard output"
[ -s "$work/err" ] || fail "an unknown option has no message"
finish
