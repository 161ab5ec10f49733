#!/usr/bin/env python3
"""Promise: on a terminal dfccl-top shows the job until the key q, a signal or the end of the job,
and leaves the terminal as it was. The end of the job gives one sentence and status 1.

    top_terminal.py PROGRAM PROCESS "PROCESS..."

The last argument has all processes of the job, which are killed.
"""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time

SECONDS = 30
ENTER, LEAVE = b"\033[?1049h", b"\033[?1049l"


def read_until(fd: int, wanted: bytes, process: subprocess.Popen) -> bytes:
    seen, end = b"", time.monotonic() + SECONDS
    while wanted not in seen:
        if time.monotonic() > end:
            process.kill()
            sys.exit(f"dfccl-top did not print {wanted!r}: {seen[-2000:]!r}")
        if select.select([fd], [], [], 0.1)[0]:
            seen += os.read(fd, 1 << 16)
    return seen


def watch(program: str, process: str, end, status: int, sentence: bytes = b"") -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    top = subprocess.Popen([program, process], stdin=theirs, stdout=theirs, stderr=theirs)
    seen = read_until(ours, b"gradients", top)
    assert ENTER in seen and termios.tcgetattr(theirs) != before
    end(ours, top)
    seen = read_until(ours, LEAVE, top)
    if sentence:
        read_until(ours, sentence, top) if sentence not in seen else None
    assert top.wait(SECONDS) == status, top.returncode
    assert termios.tcgetattr(theirs) == before, "the terminal is not as before"
    os.close(ours)
    os.close(theirs)


def main() -> int:
    program, process, job = sys.argv[1:]
    watch(program, process, lambda fd, top: os.write(fd, b"q"), 0)
    watch(program, process, lambda fd, top: top.send_signal(signal.SIGTERM), 0)

    def kill_job(_fd: int, _top: subprocess.Popen) -> None:
        for number in job.split():
            os.kill(int(number), signal.SIGKILL)

    watch(program, process, kill_job, 1, b"has ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
