#!/usr/bin/env bash
# Promise: random programs end, and every element is right, with their ranks on two and on three
# hosts, and encrypted: test_property.sh PROPERTY [PROGRAMS]. On a loaded machine fewer programs
# run: it stops after some time, and a program may take long.
set -u
here=$(dirname "$0")
export TEST_SECONDS=${TEST_SECONDS:-300}
# 77: no rights; what the bed says of it is the reason.
DFCCL_NET_SECURITY=auth "$here/property" "$1" 2 --seed 7 --batch 5 --seconds 20 --programs \
  "${2:-40}" || exit
DFCCL_NET_SECURITY=encrypt "$here/property" "$1" 3 --seed 8 --batch 5 --seconds 20 --programs \
  "${2:-40}" || exit
