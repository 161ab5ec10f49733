#!/usr/bin/env python3
"""Promise: callers of a rank's socket that ask nonsense, half questions or too much, that do not
read or that come in crowds cost the rank at most eight connections, and it answers afterwards.

    top_callers.py SOCKET PROCESS
"""

import os
import pathlib
import random
import socket
import struct
import sys
import time

MAGIC, QUESTION = 0x7761746368636466, 32 + 8 * 64 + 8 * 64
MOST_CALLERS, CROWD = 8, 10000
SECONDS = 20


def connect(path: str) -> socket.socket | None:
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    caller.setblocking(False)
    try:
        caller.connect(path)
    except BlockingIOError:
        caller.close()
        return None
    return caller


def call(path: str) -> socket.socket:
    """A connection that the rank has accepted or will accept."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        caller = connect(path)
        if caller:
            caller.settimeout(SECONDS)
            return caller
        time.sleep(0.01)
    sys.exit("the rank accepts no caller any more")


def question(version: int, magic: int = MAGIC, n_asked: int = 0) -> bytes:
    head = struct.pack("<QIIQII", magic, version, QUESTION, 5, 1, n_asked)
    return head + bytes(QUESTION - len(head))


def is_hung_up(caller: socket.socket) -> bool:
    try:
        return caller.recv(1 << 16) == b""
    except ConnectionResetError:
        return True


def version_of(path: str) -> int:
    """The rank answers a question of another version with its own, and hangs up."""
    caller = call(path)
    caller.send(question(1))
    answer = caller.recv(1 << 16)
    magic, version, length = struct.unpack("<QII", answer)
    assert magic == MAGIC and length == 16 and version != 1, answer
    assert is_hung_up(caller)
    return version


def answers(path: str, version: int) -> None:
    caller = call(path)
    caller.send(question(version))
    answer = caller.recv(1 << 16)
    assert len(answer) > 400 and struct.unpack_from("<QIIQ", answer)[3] == 5
    caller.close()


def descriptors(process: str) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def main() -> int:
    path, process = sys.argv[1:]
    version = version_of(path)
    answers(path, version)
    before = descriptors(process)
    random.seed(1)
    for length in (1, 15, 16, 17, QUESTION - 1, QUESTION + 1, 60000):
        caller = call(path)
        caller.send(question(version).ljust(length, b"x")[:length])
        assert is_hung_up(caller), length
    for bad in (question(version, magic=1), question(version, n_asked=65), random.randbytes(500)):
        caller = call(path)
        caller.send(bad)
        assert is_hung_up(caller), bad[:32]
    answers(path, version)
    # A caller that asks and never reads. The rank hangs up when the socket is full.
    caller = call(path)
    try:
        for _ in range(100000):
            caller.send(question(version, n_asked=64))
    except (BrokenPipeError, ConnectionResetError):
        pass
    else:
        sys.exit("the rank still takes questions of a caller that does not read")
    # A crowd, most of which finds no place, and half of which asks a part of a question.
    crowd = []
    for number in range(CROWD):
        one = connect(path)
        if one is None:
            continue
        if number % 2:
            try:
                one.send(b"half")
            except OSError:
                pass
        crowd.append(one)
        if len(crowd) > 100:
            crowd.pop(0).close()
    most = descriptors(process) - before
    assert most <= MOST_CALLERS, f"{most} descriptors of callers"
    for one in crowd:
        one.close()
    answers(path, version)
    assert pathlib.Path(path).is_socket()
    return 0


if __name__ == "__main__":
    sys.exit(main())
