#!/bin/sh
# clang's analysis finds a planted access without its lock, and accepts the same access with it.
set -eu
source=$1
command -v clang >/dev/null || exit 77
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

cat >"$directory/planted.c" <<'END'
#include "base/mutex.h"
static df_mutex lock = DF_MUTEX_INITIALIZER;
static int count DF_GUARDED_BY(lock);
static int change(int by) DF_RANK_LOCKED { return by; }
int planted(df_rank_mutex *rank);
int planted(df_rank_mutex *rank) {
#ifndef WITHOUT_RANK
  df_rank_lock(rank);
#endif
#ifndef WITHOUT_LOCK
  df_lock(&lock);
#endif
  count += change(1);
#ifndef WITHOUT_LOCK
  df_unlock(&lock);
#endif
#ifndef WITHOUT_RANK
  df_rank_unlock(rank);
#endif
  return 0;
}
END

compile() {
  clang -std=gnu11 -fsyntax-only -Wthread-safety -Werror -I"$source/src" "$@" \
    "$directory/planted.c" \
    2>"$directory/errors"
}

compile || { cat "$directory/errors"; echo "clang refuses an access with its locks"; exit 1; }
for fault in WITHOUT_LOCK WITHOUT_RANK; do
  if compile -D$fault; then
    echo "clang accepts $fault"
    exit 1
  fi
  grep -q thread-safety-analysis "$directory/errors" || { cat "$directory/errors"; exit 1; }
done
