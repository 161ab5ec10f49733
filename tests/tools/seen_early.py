#!/usr/bin/env python3
"""Runs a command until its output has a pattern, and ends it then: what a user sees of long work.

    seen_early.py terminal|pipe PATTERN COMMAND...

terminal: standard error is a terminal, and the pattern is searched there; standard output is
dropped. pipe: standard output is a pipe, and the pattern is searched there. The exit status is 0
once the pattern was seen, also if the command would go on for hours; 1 if the command ended without
it, or after 120 s. Then the output is printed.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

SECONDS = 120


def main() -> int:
    where, pattern, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    if where == "terminal":
        reader, writer = pty.openpty()
        out, err = subprocess.DEVNULL, writer
    else:
        reader, writer = os.pipe()
        out, err = writer, subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
    )
    os.close(writer)
    seen, deadline, why = "", time.monotonic() + SECONDS, "the command ended"
    while not re.search(pattern, seen):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            why = f"{SECONDS} s have passed"
            break
        try:
            piece = os.read(reader, 65536)
        except OSError:  # the last process has closed the terminal
            piece = b""
        if not piece:
            break
        seen += piece.decode(errors="replace")
    found = re.search(pattern, seen) is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    if not found:
        print(f"no '{pattern}' ({why}): {' '.join(command)}\n{seen[-2000:]}")
    return 0 if found else 1


sys.exit(main())
