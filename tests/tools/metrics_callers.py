#!/usr/bin/env python3
"""Promises: the socket of DFCCL_METRICS answers HTTP and callers that send nothing; callers of
another user, of other requests, that do not read or that come in crowds cost nothing, and it
answers afterwards.

    metrics_callers.py SOCKET
"""

from __future__ import annotations

import os
import pathlib
import socket
import sys
import time

import openmetrics

SECONDS = 20


def call(path: str) -> socket.socket:
    end = time.monotonic() + SECONDS
    while True:
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        caller.settimeout(SECONDS)
        try:
            caller.connect(path)
            return caller
        except (BlockingIOError, TimeoutError):
            caller.close()
            if time.monotonic() > end:
                sys.exit("the rank accepts no caller any more")
            time.sleep(0.01)


def read(caller: socket.socket) -> bytes:
    got = b""
    while piece := caller.recv(1 << 16):
        got += piece
    caller.close()
    return got


def ask(path: str, request: bytes) -> bytes:
    caller = call(path)
    for byte in request[:4], request[4:]:  # a request may come in pieces
        caller.sendall(byte)
        time.sleep(0.01)
    if not request:
        caller.shutdown(socket.SHUT_WR)
    return read(caller)


def check_http(path: str) -> None:
    head, _, body = ask(path, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.0 200 OK", lines
    assert f"Content-Length: {len(body)}" in lines, lines
    assert any(line.startswith("Content-Type: application/openmetrics-text") for line in lines)
    openmetrics.parse(body.decode())


def check_stranger(path: str) -> None:
    """A process of another user. Only root can start one."""
    if os.geteuid() != 0:
        return
    os.chmod(path, 0o666)
    for directory in pathlib.Path(path).parents:
        if directory.stat().st_mode & 0o001 == 0:
            directory.chmod(directory.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            answer = ask(path, b"GET / HTTP/1.0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        os._exit(len(answer) > 0)
    assert os.waitpid(child, 0)[1] == 0, "a stranger was answered"
    os.chmod(path, 0o600)


def main() -> None:
    path = sys.argv[1]
    assert os.stat(path).st_mode & 0o777 == 0o600, "others may use the socket"
    openmetrics.parse(ask(path, b"").decode())
    check_http(path)
    assert ask(path, b"POST / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 405 ")
    try:
        assert b"200 OK" not in ask(path, b"x" * 10000), "a request without an end"
    except (BrokenPipeError, ConnectionResetError):
        pass
    check_stranger(path)
    silent = [call(path) for _ in range(8)]  # they have all places, and say nothing
    begin = time.monotonic()
    check_http(path)
    assert time.monotonic() - begin < SECONDS, "silent callers keep their places"
    slow = call(path)
    slow.sendall(b"GET / HTTP/1.0\r\n\r\n")  # and does not read
    for _ in range(2000):
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        caller.setblocking(False)
        try:
            caller.connect(path)
        except BlockingIOError:
            pass
        caller.close()
    check_http(path)
    for caller in [slow, *silent]:
        caller.close()


main()
