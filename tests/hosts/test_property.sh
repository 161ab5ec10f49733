#!/usr/bin/env bash
# Promise: random programs end, and every element is right, with ranks on two and on three hosts,
# and with encryption: test_property.sh PROPERTY [PROGRAMS]. The number of programs depends on the
# load of the machine, because the test has a time limit and one program may take long.
set -u
here=$(dirname "$0")
export TEST_SECONDS=${TEST_SECONDS:-300}
# 77: no rights; the bed prints the reason.
DFCCL_NET_SECURITY=auth "$here/property" "$1" 2 --seed 7 --batch 5 --seconds 20 --programs \
  "${2:-40}" || exit
DFCCL_NET_SECURITY=encrypt "$here/property" "$1" 3 --seed 8 --batch 5 --seconds 20 --programs \
  "${2:-40}" || exit
