#!/usr/bin/env python3
"""Draws timeline.svg of docs/TRACING.md: docs/pictures/timeline.py TRACES FILE

TRACES is a directory that a job of one host and one block wrote with
DFCCL_TRACE and DFCCL_TRACE_TURNS=1. The picture shows one millisecond or so
around a switch to another algorithm, and marks (1) a preemption, (2) the rank
that came last to a run, and (3) the switch.
"""

import json
import pathlib
import sys
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP = 960, 150, 20, 78
LANE, TURNS, GAP = 15, 26, 30
COLOURS = ["#4878a8", "#d08a3c", "#5a9a5a", "#a05a8a", "#7a6a50", "#4a9a9a"]
Line = dict[str, Any]


class Rank:
    """The lines of one trace by their kinds."""

    def __init__(self, path: pathlib.Path) -> None:
        lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
        self.number = int(lines[0]["rank"])
        self.names = {c["collective"]: str(c["name"]) for c in lines if "collective" in c}
        self.runs = [line for line in lines if "run" in line]
        self.turns = [line for line in lines if "turn" in line]
        self.switches = [c for c in lines if "collective" in c and c["switch"] > 0]

    def name(self, line: Line, key: str) -> str:
        return self.names[line[key]]


def runs_in(rank: Rank, begin: int, end: int) -> list[Line]:
    return [r for r in rank.runs if begin <= r["from"] and r["to"] <= end]


def preempted_in(rank: Rank, begin: int, end: int) -> list[Line]:
    return [
        t
        for t in rank.turns
        if t["end"] == "preempted" and "peer" in t and begin <= t["from"] and t["to"] <= end
    ]


def score(ranks: list[Rank], begin: int, end: int) -> float:
    """How well a window shows all three: many whole runs, and a preemption that can be seen."""
    runs = [len(runs_in(rank, begin, end)) for rank in ranks]
    longest = max(
        (t["to"] - t["from"] for rank in ranks for t in preempted_in(rank, begin, end)), default=0
    )
    return min(min(runs), 8) + 20.0 * longest / (end - begin) if min(runs) > 2 else 0.0


def find_window(ranks: list[Rank]) -> tuple[int, int, Line]:
    best: tuple[float, int, int, Line] = (0.0, 0, 0, {})
    for switch in ranks[0].switches:
        for width in (700_000, 1_200_000, 2_000_000):
            begin = switch["at"] - width // 2
            value = score(ranks, begin, begin + width)
            if value > best[0]:
                best = (value, begin, begin + width, switch)
    if not best[3]:
        sys.exit("the traces have no switch with runs around it: DFCCL_TUNE=2 makes some")
    return best[1:]


class Picture:
    """Shapes with places in nanoseconds and pixels."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.shapes: list[str] = []

    def x(self, ns: int) -> float:
        share = (min(max(ns, self.begin), self.end) - self.begin) / (self.end - self.begin)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def text(self, x: float, y: float, words: str, anchor: str = "start", style: str = "") -> None:
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{escape(words)}</text>'
        )

    def bar(self, line: Line, y: float, height: float, style: str, title: str) -> float:
        x = self.x(line["from"])
        width = max(self.x(line["to"]) - x, 1.0)
        self.shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:g}" {style}>'
            f"<title>{escape(title)}</title></rect>"
        )
        return width

    def mark(self, x: float, y: float, number: int) -> None:
        self.shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="#1f2933"/>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="white" '
            f'font-weight="bold">{number}</text>'
        )


def draw_rank(picture: Picture, rank: Rank, names: list[str], y: float) -> dict[str, float]:
    """The runs, a lane for each collective, and below them the turns. Returns the lanes."""
    lanes = {name: y + LANE * i for i, name in enumerate(names)}
    picture.text(12, y + 12, f"rank {rank.number}", style='font-weight="bold"')
    for name, lane in lanes.items():
        picture.text(LEFT - 8, lane + 11, f"runs of {name}", "end", 'fill="#66727f"')
    for run in rank.runs:
        if run["to"] > picture.begin and run["from"] < picture.end:
            name = rank.name(run, "of")
            colour = COLOURS[names.index(name) % len(COLOURS)]
            style = f'fill="{colour}" fill-opacity="0.35" stroke="{colour}"'
            picture.bar(run, lanes[name] + 1, LANE - 3, style, f"{name}, run {run['run']}")
    y += LANE * len(names) + 4
    picture.text(LEFT - 8, y + 16, "turns of block 0", "end", 'fill="#66727f"')
    for turn in rank.turns:
        if turn["to"] <= picture.begin or turn["from"] >= picture.end or turn["turn"] == 0:
            continue
        name, end = rank.name(turn, "turn"), turn["end"]
        colour = COLOURS[names.index(name) % len(COLOURS)]
        why = f": no message from rank {turn['peer']}" if turn.get("on") == "receive" else ""
        style = f'fill="{colour}"'
        if end == "preempted":
            style += ' stroke="#c0281c" stroke-width="1.4"'
        width = picture.bar(turn, y, TURNS - 6, style, f"{name}, {end}{why}")
        if width > 24:
            x = picture.x(turn["from"]) + width / 2
            picture.text(x, y + 14, name, "middle", 'fill="white"')
    lanes["turns"] = y
    return lanes


def last_to_come(ranks: list[Rank], begin: int, end: int) -> tuple[int, Line, int]:
    """The rank, its run, and by how much it came later than the first one: the largest."""
    best: tuple[int, Line, int] = (0, {}, -1)
    for run in runs_in(ranks[0], begin, end):
        name = ranks[0].name(run, "of")
        members = [
            (place, other)
            for place, rank in enumerate(ranks)
            for other in runs_in(rank, begin, end)
            if rank.name(other, "of") == name and other["run"] == run["run"]
        ]
        if len(members) < len(ranks):
            continue
        late = max(m["from"] for _, m in members) - min(m["from"] for _, m in members)
        if late > best[2]:
            place, last = max(members, key=lambda member: int(member[1]["from"]))
            best = (place, last, late)
    return best


def draw(ranks: list[Rank]) -> str:
    begin, end, switch = find_window(ranks)
    names = sorted(ranks[0].names.values())
    picture = Picture(begin, end)
    height = LANE * len(names) + 4 + TURNS + GAP
    places = [draw_rank(picture, r, names, TOP + i * height) for i, r in enumerate(ranks)]
    place, turn = max(
        ((i, t) for i, r in enumerate(ranks) for t in preempted_in(r, begin, end)),
        key=lambda found: int(found[1]["to"] - found[1]["from"]),
    )
    name = ranks[place].name(turn, "turn")
    picture.mark(picture.x(turn["to"]), places[place]["turns"] + TURNS, 1)
    wanted = "a message" if turn["on"] == "receive" else "a free slot"
    legend = [
        f"1  Rank {ranks[place].number} preempts {name}: {wanted} of rank {turn['peer']} is "
        "missing, and the block turns to another collective."
    ]
    place, run, late = last_to_come(ranks, begin, end)
    name = ranks[place].name(run, "of")
    picture.mark(picture.x(run["from"]), places[place][name] + LANE / 2, 2)
    legend.append(
        f"2  Rank {ranks[place].number} comes last to run {run['run']} of {name}, "
        f"{late / 1000:.0f} us after the first rank."
    )
    x, bottom = picture.x(switch["at"]), TOP + len(ranks) * height - GAP
    picture.shapes.append(
        f'<path d="M{x:.1f} {TOP - 6} V{bottom}" stroke="#1f2933" stroke-dasharray="4 3"/>'
    )
    picture.mark(x, TOP - 8, 3)
    legend.append(
        f"3  {switch['name']} switches to {switch['algorithm']} from run {switch['from_run']} on "
        f"({switch['purpose']})."
    )
    for i, words in enumerate(legend):
        picture.text(LEFT, 18 + 17 * i, words)
    picture.text(LEFT, bottom + 16, "0")
    picture.text(WIDTH - RIGHT, bottom + 16, f"{(end - begin) / 1000:.0f} us", "end")
    picture.text((LEFT + WIDTH) / 2, bottom + 16, "red edges: preempted turns", "middle")
    body = "\n".join(picture.shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 26}" '
        'font-family="DejaVu Sans, Verdana, Helvetica, sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def main() -> int:
    if sys.argv[1:] in (["--help"], ["-h"]):
        print(__doc__.strip())
        return 0
    if len(sys.argv) != 3:
        print("usage: docs/pictures/timeline.py TRACES FILE (see --help)", file=sys.stderr)
        return 2
    paths = sorted(pathlib.Path(sys.argv[1]).glob("rank-*.trace"))
    if not paths:
        sys.exit(f"{sys.argv[1]} has no rank-*.trace")
    pathlib.Path(sys.argv[2]).write_text(draw([Rank(p) for p in paths]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
