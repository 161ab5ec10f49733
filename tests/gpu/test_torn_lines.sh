#!/bin/sh
# torn-lines finds no torn line where lines come as a whole, and finds them where they do not: on the emulated runtime, which plays both.
# Usage: test_torn_lines.sh TORN_LINES
export CUDA_EMULATOR_DEVICES=2
echo 1..2
if found=$("$1" --seconds 0.1 2>&1); then echo "ok 1 whole lines"; else echo "not ok 1 whole lines"; fi
echo "$found" | sed 's/^/# /'
found=$(CUDA_EMULATOR_DEVICES=1 CUDA_EMULATOR_TEAR=1 "$1" --seconds 0.1 2>&1)
if [ $? = 1 ] && echo "$found" | grep -q 'torn [1-9]'; then echo "ok 2 torn lines"; else echo "not ok 2 torn lines"; fi
echo "$found" | sed 's/^/# /'
