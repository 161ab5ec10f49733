#!/usr/bin/env python3
"""The rooms of src/ include one way: check_includes.py ROOT [KNOWN]

Fails on an include that points up, on an include of a room that is not in the list, and on a circle of more than three
files (a header and the sources that implement it count as one file). KNOWN lists upward includes that are still to go, one
"from to" a line, and circles that are still to go, "circle first-file"; one that has gone from the sources fails too, so
that the list only shrinks.
"""
import collections
import os
import re
import sys

# From top to bottom: a room includes itself and what stands below it.
ROOMS = ["host", "devices", "tuning", "topology", "transports", "control", "bootstrap", "plans", "daemon_kernel", "primitives",
         "context", "queues", "base"]
LARGEST_CIRCLE = 3


def sources(root):
    for directory, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".cu", ".cuh")):
                yield os.path.relpath(os.path.join(directory, name), root)


def includes(root, path, known):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for found in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read(), re.M):
            for candidate in ("src/" + found, os.path.normpath(os.path.join(os.path.dirname(path), found))):
                if candidate in known:
                    yield candidate
                    break


def circles(graph):
    """Strongly connected components with more than one member (Tarjan)."""
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


def main():
    root = sys.argv[1]
    known_upward, known_circles = set(), set()
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as file:
            pairs = {tuple(line.split()) for line in file if line.strip() and not line.startswith("#")}
        known_circles = {last for first, last in pairs if first == "circle"}
        known_upward = {pair for pair in pairs if pair[0] != "circle"}
    paths = set(sources(root))
    room = {path: path.split("/")[1] for path in paths}
    wrong, upward, graph = [], set(), collections.defaultdict(set)
    for path in sorted(paths):
        if room[path] not in ROOMS:
            wrong.append("%s: its room is not in the list of rooms" % path)
            continue
        for other in includes(root, path, paths):
            unit, other_unit = os.path.splitext(path)[0], os.path.splitext(other)[0]
            if unit != other_unit:
                graph[unit].add(other_unit)
                graph[other_unit]  # a node even if it includes nothing
            if room[other] in ROOMS and ROOMS.index(room[other]) < ROOMS.index(room[path]):
                upward.add((path, other))
    for pair in sorted(upward - known_upward):
        wrong.append("%s includes %s, which stands above it" % pair)
    for pair in sorted(known_upward - upward):
        wrong.append("%s does not include %s any more: take the pair off the list" % pair)
    large = {c[0]: c for c in circles(graph) if len(c) > LARGEST_CIRCLE}
    wrong += ["a circle of %d files: %s" % (len(large[c]), " ".join(large[c])) for c in sorted(set(large) - known_circles)]
    wrong += ["no circle begins with %s any more: take it off the list" % c for c in sorted(known_circles - set(large))]
    for line in wrong:
        print(line)
    print("%d files, %d upward includes still known, %d circles of more than %d" % (len(paths), len(known_upward), len(large), LARGEST_CIRCLE))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
