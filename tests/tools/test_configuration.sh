#!/bin/sh
# Promise: docs/CONFIGURATION.md lists every environment variable that the sources read, and no
# other.
set -eu
root=$1
in_code=$(grep -rhoE '"DFCCL_[A-Z_]*[A-Z]"' "$root/src/host/settings" --include=settings.h \
  --include=settings.c | tr -d '"' | sort -u)
in_docs=$(grep -oE '^\| `DFCCL_[A-Z_]+`' "$root/docs/CONFIGURATION.md" | grep -oE 'DFCCL_[A-Z_]+' |
  sort -u)
[ -n "$in_code" ] || { echo "found no variable in the sources"; exit 1; }
[ "$in_code" = "$in_docs" ] || {
  echo "variables in the sources and in docs/CONFIGURATION.md differ:"
  printf '%s\n' "$in_code" "$in_docs" | sort | uniq -u
  exit 1
}
[ "$(echo "$in_docs" | wc -l)" -le 48 ] ||
  { echo "docs/CONFIGURATION.md has more than 48 variables: should a new one be a number of the" \
      "tuning table (src/tuning/policy.h)? If not, raise the limit in $0"; exit 1; }
# The check for misspelt variables knows each variable that is read.
settings=$root/src/host/settings
known=$({
  sed -n '/known_variables\[\] = {/,/};/p' "$settings/settings.c"
  cat "$settings/settings.h"
} | grep -oE '"DFCCL_[A-Z_]*[A-Z]"' | sort -u)
reads='(read_text|df_read_[a-z]+|df_variable|getenv)\("DFCCL_[A-Z_]*[A-Z]"'
unknown=$(grep -rhoE "$reads" "$settings" |
  grep -oE '"DFCCL_[A-Z_]*"' | sort -u | grep -vxF "$known" || true)
[ -z "$unknown" ] || { echo "known_variables of settings.c lacks: $unknown"; exit 1; }
# Variables that have become numbers: the page's last section names each with its number.
in_code=$(sed -n '/define MOVED_VARIABLES/,/^$/p' "$root/src/host/settings/settings.c" |
  sed -nE 's/^ *X\(([A-Z_]+), ([a-z_]+)\).*/\2 DFCCL_\1/p' | sort)
in_docs=$(grep -oE '`[a-z_]+` \| `DFCCL_[A-Z_]+`' "$root/docs/CONFIGURATION.md" | tr -d '`|' |
  tr -s ' ' | sort)
[ -n "$in_code" ] && [ "$in_code" = "$in_docs" ] || {
  echo "variables that have become numbers, in the sources and in docs/CONFIGURATION.md, differ:"
  printf '%s\n' "$in_code" "$in_docs" | sort | uniq -u
  exit 1
}
stray=$(grep -rnE '(getenv|df_variable)\(' "$root/src" --include=*.c |
  grep -vE 'src/(host/settings/settings|host/settings/settings_network|bootstrap/launcher|base/text)\.c' || true)
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
