#!/bin/sh
# Promise: docs/CONFIGURATION.md lists every environment variable that the sources read, and no
# other.
set -eu
root=$1
in_code=$(grep -rhoE '"DFCCL_[A-Z_]*[A-Z]"' "$root/src/host/settings/settings.h" \
  "$root/src/host/settings/settings.c" | tr -d '"' | sort -u)
in_docs=$(grep -oE '^\| `DFCCL_[A-Z_]+`' "$root/docs/CONFIGURATION.md" | grep -oE 'DFCCL_[A-Z_]+' |
  sort -u)
[ -n "$in_code" ] || { echo "found no variable in the sources"; exit 1; }
[ "$in_code" = "$in_docs" ] || {
  echo "variables in the sources and in docs/CONFIGURATION.md differ:"
  printf '%s\n' "$in_code" "$in_docs" | sort | uniq -u
  exit 1
}
stray=$(grep -rnE '(getenv|df_variable)\(' "$root/src" --include=*.c |
  grep -vE 'src/(host/settings/\w+|bootstrap/(\w+/)?launcher|base/text)\.c' || true)
[ -z "$stray" ] || { echo "environment read elsewhere: $stray"; exit 1; }

# docs/TUNING.md lists every number of the table, and no other.
in_code=$(grep -oE '^  X\([a-z_]+,' "$root/src/tuning/policy.h" | grep -oE '[a-z_]+' | sort -u)
in_docs=$(sed -n '/^## Numbers/,/^## Making/p' "$root/docs/TUNING.md" | grep -oE '^\| `[a-z_]+`' |
  grep -oE '[a-z_]+' | sort -u)
[ -n "$in_code" ] && [ "$in_code" = "$in_docs" ] || {
  echo "numbers in src/tuning/policy.h and in docs/TUNING.md differ:"
  printf '%s\n' "$in_code" "$in_docs" | sort | uniq -u
  exit 1
}
