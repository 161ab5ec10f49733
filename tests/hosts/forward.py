#!/usr/bin/env python3
"""Passes TCP connections on: forward.py HOST PORT TO_HOST TO_PORT

The program prints "ready" and its process number when it listens, and "passed" when the other end
has closed a connection.
"""

import os
import socket
import sys
import threading


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main() -> None:
    host, port, to_host, to_port = sys.argv[1:]
    listener = socket.create_server((host, int(port)))
    print("ready", os.getpid(), flush=True)
    while True:
        caller = listener.accept()[0]
        other = socket.create_connection((to_host, int(to_port)))
        threading.Thread(target=copy, args=(caller, other), daemon=True).start()
        copy(other, caller)
        print("passed", flush=True)
        caller.close()
        other.close()


if __name__ == "__main__":
    main()
