#!/bin/sh
# Promise: pkg-config gives a program the directory of the header and the library, and nothing of
# the libraries that dfccl uses itself. A static link gets those too.
#
#   test_pkg_config.sh BUILD INCLUDE_DIRECTORY LIBRARY_DIRECTORY
. "$(dirname "$0")/check.sh"
command -v pkg-config >/dev/null || { echo "pkg-config is not in the path"; exit 77; }
PKG_CONFIG_PATH=$1/meson-private
export PKG_CONFIG_PATH PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1

words() { # WANTED PKG_CONFIG_OPTION...
  wanted=$1
  shift
  run 0 pkg-config "$@" dfccl
  [ "$(xargs <"$work/out")" = "$wanted" ] ||
    fail "pkg-config $* prints $(xargs <"$work/out"), not $wanted"
}

words "-I$2" --cflags
words "-L$3 -ldfccl" --libs
run 0 pkg-config --static --libs dfccl
out_has '-lsodium'
out_has '-lck'
out_has '-pthread'
finish
