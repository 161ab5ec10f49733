#!/bin/sh
# Promise: the embedding example of the README is examples/embed.c, word for word, and every file
# that the README links to exists.
. "$(dirname "$0")/check.sh"
root=$1

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/README.md" >"$work/embed.c"
cmp "$work/embed.c" "$root/examples/embed.c" || fail "the README's example differs from embed.c"
grep -Eo '\]\([^)]+\)' "$root/README.md" | tr -d '])(' | grep -v '^http' | sort -u >"$work/links"
[ -s "$work/links" ] || fail "the README links to nothing"
while read -r link; do
  [ -e "$root/${link%%#*}" ] || fail "the README links to '$link', which does not exist"
done <"$work/links"
finish
