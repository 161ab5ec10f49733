#!/usr/bin/env python3
"""The rooms of src/ include one way: check_includes.py ROOT

A room is a directory of src/, a sub-room a directory inside a room. The test fails on an include
that points up between rooms or between sub-rooms of one room, on a directory that is not in the
lists below, and on a circle of more than three files (a header and the sources that implement it
count as one file).
"""

import collections
import os
import re
import sys

# The rooms from top to bottom. A room may include itself and the rooms below it.
ROOMS = [
    "host",
    "devices",
    "tuning",
    "synthesis",
    "topology",
    "transports",
    "control",
    "bootstrap",
    "plans",
    "daemon_kernel",
    "primitives",
    "context",
    "queues",
    "base",
]

# The sub-rooms of each room from top to bottom. "." stands for the files of the room itself.
SUB_ROOMS = {
    "host": [
        "api",
        "lifecycle",
        "membership",
        "switching",
        "registration",
        "runs",
        "observe",
        "state",
        "settings",
    ],
    "devices": ["cpu", "cuda", "."],
    "transports": [
        "net",
        "net/connect",
        "net/plugin",
        "net/verbs",
        "net/pump",
        "net/security",
        "net/stream",
        "ipc",
        "shm",
        ".",
    ],
    "bootstrap": [".", "mesh", "rendezvous", "net"],
    "plans": ["msccl", "check", "algorithms", "."],
    "primitives": [".", "movers", "elements"],
}
LARGEST_CIRCLE = 3


def sources(root):
    for directory, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".cu", ".cuh")):
                yield os.path.relpath(os.path.join(directory, name), root)


def includes(root, path, known):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for found in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read(), re.M):
            for candidate in (
                "src/" + found,
                os.path.normpath(os.path.join(os.path.dirname(path), found)),
            ):
                if candidate in known:
                    yield candidate
                    break


def circles(graph):
    """The strongly connected components with more than one member (Tarjan)."""
    sys.setrecursionlimit(10000)
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = []
            while not circle or circle[-1] != node:
                circle.append(stack.pop())
                on_stack.discard(circle[-1])
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def place(path):
    """The room of a file, and its sub-room."""
    parts = path.split("/")[1:-1]
    return parts[0], "/".join(parts[1:]) or "."


def points_up(path, other):
    (room, sub_room), (other_room, other_sub_room) = place(path), place(other)
    if room != other_room:
        return ROOMS.index(other_room) < ROOMS.index(room)
    order = SUB_ROOMS.get(room, ["."])
    return order.index(other_sub_room) < order.index(sub_room)


def main():
    root = sys.argv[1]
    paths = set(sources(root))
    wrong, graph = [], collections.defaultdict(set)
    known = set()
    for path in sorted(paths):
        room, sub_room = place(path)
        if room in ROOMS and sub_room in SUB_ROOMS.get(room, ["."]):
            known.add(path)
        else:
            wrong.append("%s: its directory is not in the lists of rooms" % path)
    for path in sorted(known):
        for other in sorted(set(includes(root, path, paths)) & known):
            unit, other_unit = os.path.splitext(path)[0], os.path.splitext(other)[0]
            if unit != other_unit:
                graph[unit].add(other_unit)
                graph[other_unit]  # makes a node, even if the unit includes nothing
            if points_up(path, other):
                wrong.append("%s includes %s, which is in a higher room" % (path, other))
    wrong += [
        "a circle of %d files: %s" % (len(c), " ".join(c))
        for c in circles(graph)
        if len(c) > LARGEST_CIRCLE
    ]
    for line in wrong:
        print(line)
    print("%d files in %d rooms" % (len(paths), len({place(path) for path in paths})))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
