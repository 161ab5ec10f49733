#!/usr/bin/env python3
"""Measures the rate of a TCP connection: rate.py receive ADDRESS PORT | rate.py send ADDRESS PORT
BYTES

The receiver prints "ready" when it listens. At the end it prints the bytes that it has received,
and the seconds between the arrival of the first SKIPPED bytes and of the last one: queues begin
with a burst, which is not part of the rate.
"""

import socket
import sys
import time

SKIPPED = 256 << 10
SILENCE_S = 60


def receive(address, port):
    with socket.create_server((address, port)) as server:
        server.settimeout(SILENCE_S)
        print("ready", flush=True)
        stream, _ = server.accept()
    stream.settimeout(SILENCE_S)
    total, skipped, begin = 0, 0, 0.0
    while data := stream.recv(1 << 16):
        total += len(data)
        if total >= SKIPPED and skipped == 0:
            skipped, begin = total, time.monotonic()
        end = time.monotonic()
    if skipped == 0 or total == skipped:
        sys.exit(f"rate.py: {total} bytes are too few; send more than {SKIPPED}")
    print(total - skipped, end - begin)
    stream.close()


def send(address, port, size):
    with socket.create_connection((address, port), timeout=SILENCE_S) as stream:
        stream.sendall(bytes(size))


def main():
    words = sys.argv[1:]
    if len(words) == 3 and words[0] == "receive":
        receive(words[1], int(words[2]))
    elif len(words) == 4 and words[0] == "send":
        send(words[1], int(words[2]), int(words[3]))
    else:
        sys.exit(__doc__)


main()
