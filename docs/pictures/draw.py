#!/usr/bin/env python3
"""Draws the pictures of the documents: docs/pictures/draw.py [--check]

Each function with @picture makes one SVG file beside this script. --check
writes nothing and fails if a file differs from what would be drawn. A picture
has a background of its own, so it can be read on white and on dark pages.
"""

import pathlib
import sys
from collections.abc import Callable
from xml.sax.saxutils import escape

INK, GREY, PAPER = "#1f2933", "#66727f", "#ffffff"
BLUE, GREEN, RED, SAND, PLAIN = "#dbe9f9", "#dcf3e0", "#fbdedb", "#fbf0d2", "#f1f4f7"
EDGE = {BLUE: "#3f78b5", GREEN: "#3c8f55", RED: "#bd4a3d", SAND: "#b08a2e", PLAIN: "#9aa5b1"}
FONT = "font-family='DejaVu Sans, Verdana, Helvetica, sans-serif'"

PICTURES: dict[str, Callable[[], str]] = {}


def picture(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    def add(draw: Callable[[], str]) -> Callable[[], str]:
        PICTURES[name] = draw
        return draw

    return add


class Canvas:
    """Collects shapes; places are the pixels of the picture."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.shapes: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: int = 13,
        colour: str = INK,
        anchor: str = "middle",
        bold: bool = False,
    ) -> None:
        weight = " font-weight='bold'" if bold else ""
        self.shapes.append(
            f"<text x='{x:g}' y='{y:g}' font-size='{size}' fill='{colour}' "
            f"text-anchor='{anchor}'{weight}>{escape(words)}</text>"
        )

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        lines: str,
        fill: str = PLAIN,
        size: int = 13,
        dashed: bool = False,
    ) -> None:
        """The first line is bold if there are several."""
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self.shapes.append(
            f"<rect x='{x:g}' y='{y:g}' width='{w:g}' height='{h:g}' rx='5' fill='{fill}' "
            f"stroke='{EDGE[fill]}' stroke-width='1.3'{dash}/>"
        )
        rows = lines.split("\n")
        step = size + 4
        top = y + h / 2 - (len(rows) - 1) * step / 2 + size * 0.36
        for i, row in enumerate(rows):
            if row:
                self.text(
                    x + w / 2,
                    top + i * step,
                    row,
                    size if i == 0 else size - 1,
                    bold=i == 0 and len(rows) > 1,
                )

    def frame(self, x: float, y: float, w: float, h: float, label: str) -> None:
        self.shapes.append(
            f"<rect x='{x:g}' y='{y:g}' width='{w:g}' height='{h:g}' rx='8' fill='none' "
            f"stroke='{GREY}' stroke-dasharray='3 4'/>"
        )
        self.text(x + 10, y + 18, label, 12, GREY, "start")

    def line(
        self,
        points: list[tuple[float, float]],
        colour: str = INK,
        arrow: bool = True,
        dashed: bool = False,
        both: bool = False,
    ) -> None:
        path = " ".join(f"{'ML'[i > 0]}{x:g} {y:g}" for i, (x, y) in enumerate(points))
        head = f" marker-end='url(#head{colour[1:]})'" if arrow else ""
        tail = f" marker-start='url(#head{colour[1:]})'" if both else ""
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self.shapes.append(
            f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.4'{dash}{head}{tail}/>"
        )

    def svg(self) -> str:
        heads = "".join(
            f"<marker id='head{colour[1:]}' viewBox='0 0 10 10' refX='9' refY='5' "
            f"markerWidth='7' markerHeight='7' orient='auto-start-reverse'>"
            f"<path d='M0 0L10 5L0 10z' fill='{colour}'/></marker>"
            for colour in (INK, GREY, EDGE[RED], EDGE[GREEN], EDGE[BLUE])
        )
        body = "\n".join(self.shapes)
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' "
            f"width='{self.width}' height='{self.height}' {FONT}>\n"
            f"<title>{escape(self.title)}</title>\n"
            f"<defs>{heads}</defs>\n"
            f"<rect width='{self.width}' height='{self.height}' rx='10' fill='{PAPER}'/>\n"
            f"{body}\n</svg>\n"
        )


# ---- README: the deadlock, and how it is avoided


@picture("disorder.svg")
def draw_disorder() -> str:
    c = Canvas(800, 440, "Two ranks start two collectives in opposite orders")
    c.text(
        20,
        30,
        "A blocking library: rank 0 calls A, then B; rank 1 calls B, then A",
        15,
        INK,
        "start",
        True,
    )
    for row, (first, second) in enumerate((("A", "B"), ("B", "A"))):
        y = 50 + row * 64
        c.text(20, y + 29, f"rank {row}", 13, INK, "start")
        c.box(90, y, 340, 46, f"{first}: holds the device, waits for rank {1 - row}", RED)
        c.box(510, y, 140, 46, f"{second}: not started", PLAIN, dashed=True)
    c.line([(432, 73), (506, 131)], EDGE[RED])
    c.line([(432, 137), (506, 79)], EDGE[RED])
    c.text(724, 100, "deadlock:", 14, EDGE[RED], bold=True)
    c.text(724, 120, "both wait for ever", 12, EDGE[RED])

    c.line([(20, 196), (780, 196)], "#66727f", arrow=False)
    c.text(
        20,
        226,
        "DFCCL: the same calls; one daemon for each device runs all collectives",
        15,
        INK,
        "start",
        True,
    )
    c.text(20, 275, "rank 0", 13, INK, "start")
    c.box(90, 248, 110, 46, "A\npolls", SAND)
    c.box(206, 248, 78, 46, "A is\nset aside", PLAIN, 12)
    c.box(290, 248, 190, 46, "B\ncompletes", GREEN)
    c.box(490, 248, 190, 46, "A\ncompletes", GREEN)
    c.text(20, 357, "rank 1", 13, INK, "start")
    c.box(90, 330, 194, 46, "B\npolls: rank 0 is not in B yet", SAND)
    c.box(290, 330, 190, 46, "B\ncompletes", GREEN)
    c.box(490, 330, 190, 46, "A\ncompletes", GREEN)
    for x in (385, 585):
        c.line([(x, 298), (x, 326)], EDGE[GREEN], both=True)
    c.text(395, 317, "messages", 12, EDGE[GREEN], "start")
    c.text(595, 317, "messages", 12, EDGE[GREEN], "start")
    c.text(733, 300, "no deadlock", 13, EDGE[GREEN], bold=True)
    c.text(733, 320, "in any order", 12, EDGE[GREEN])
    c.line([(90, 404), (780, 404)], GREY)
    c.text(435, 424, "time", 12, GREY)
    return c.svg()


# ---- ARCHITECTURE: the way of a run


@picture("data-flow.svg")
def draw_data_flow() -> str:
    c = Canvas(800, 640, "The way of one run from the call to the callback")
    c.frame(14, 40, 372, 458, "host: the application's and the library's threads")
    c.frame(414, 40, 372, 458, "device: the daemon's blocks")
    c.text(400, 26, "One run of one collective on one rank", 15, bold=True)

    left, right, w = 34, 434, 332
    c.box(
        left,
        70,
        w,
        50,
        "dfcclRunAllReduce(context, id, ...)\nhost/api: finds the context, checks it",
        BLUE,
    )
    c.box(
        left,
        146,
        w,
        66,
        "submission\nhost/runs/submit.c: records callback and run,\nwrites arguments, then the SQE",
        BLUE,
    )
    c.box(
        left,
        330,
        w,
        66,
        "completion\nhost/runs/completion.c: takes the CQE,\n"
        "retires the run, admits the collective's next run",
        GREEN,
    )
    c.box(left, 426, w, 50, "callback, or return of dfcclWait\nexactly once for each run", GREEN)
    c.box(
        right,
        146,
        w,
        66,
        "turn of the daemon\ndaemon_kernel/daemon.h: fetch SQEs,\n"
        "pick a collective, load its context",
        SAND,
    )
    c.box(
        right,
        246,
        w,
        66,
        "steps, repeatedly\nprimitives/step.h: one attempt at one primitive:\n"
        "decide, move data, commit",
        SAND,
    )
    c.box(right, 426, w, 50, "link\nprimitives/link.h: a ring of slots, and credit", SAND)
    c.box(right + 60, 338, 212, 40, "blocked too long: set aside", PLAIN, 12)

    c.line([(200, 120), (200, 146)])
    c.line([(left + w, 179), (right, 179)])
    c.text(400, 166, "SQ", 14, bold=True)
    c.line([(600, 212), (600, 246)])
    c.line([(right, 290), (400, 290), (400, 363), (left + w, 363)])
    c.text(396, 325, "CQ", 14, anchor="end", bold=True)
    c.text(424, 283, "DONE", 11, GREY, "end")
    c.line([(200, 396), (200, 426)])
    c.line([(600, 312), (600, 338)], GREY)
    c.line([(706, 358), (778, 358), (778, 179), (766, 179)], GREY)
    c.line([(470, 312), (470, 426)], both=True)

    c.box(434, 520, 150, 46, "shm, ipc\nthe peer maps the ring", PLAIN, 12)
    c.box(604, 520, 162, 46, "net: two pumps\nTCP, verbs, a plugin", PLAIN, 12)
    c.line([(509, 476), (509, 520)], both=True)
    c.line([(685, 476), (685, 520)], both=True)
    c.box(434, 590, 332, 34, "the same step on another rank", SAND)
    c.line([(509, 566), (509, 590)], both=True)
    c.line([(685, 566), (685, 590)], both=True)

    c.box(
        34,
        520,
        332,
        46,
        "control: messages between service threads\nannounce, links, deregister, failure",
        PLAIN,
        12,
    )
    c.box(34, 590, 332, 34, "service threads of other ranks", PLAIN)
    c.line([(200, 566), (200, 590)], both=True)
    c.line([(40, 212), (40, 222), (26, 222), (26, 543), (34, 543)], GREY)
    c.text(48, 236, "first run: links are set up", 11, GREY, "start")
    return c.svg()


# ---- WIRE_PROTOCOL: sequences


class Sequence:
    """Participants side by side, and messages from top to bottom."""

    def __init__(self, title: str, names: list[str], width: int = 800) -> None:
        self.canvas = Canvas(width, 0, title)
        left, right = 110, width - 110
        self.at = [left + i * (right - left) / (len(names) - 1) for i in range(len(names))]
        self.y = 84.0
        self.canvas.text(width / 2, 26, title, 15, bold=True)
        for x, name in zip(self.at, names):
            self.canvas.box(x - 90, 38, 180, 30, name, BLUE)

    def send(self, a: int, b: int, label: str, both: bool = False) -> None:
        self.y += 26
        self.canvas.line([(self.at[a], self.y), (self.at[b], self.y)], both=both)
        self.label((self.at[a] + self.at[b]) / 2, self.y - 5, label)

    def label(self, x: float, y: float, words: str, colour: str = INK) -> None:
        half = len(words) * 3.6
        self.canvas.shapes.append(
            f"<rect x='{x - half:g}' y='{y - 11:g}' width='{2 * half:g}' height='13' "
            f"fill='{PAPER}'/>"
        )
        self.canvas.text(x, y, words, 12, colour)

    def note(self, x: float, words: str) -> None:
        self.y += 24
        self.label(x, self.y - 2, words, GREY)

    def svg(self) -> str:
        self.canvas.height = int(self.y) + 30
        drawn, self.canvas.shapes = self.canvas.shapes, []
        for x in self.at:
            self.canvas.line([(x, 68), (x, self.y + 16)], GREY, arrow=False, dashed=True)
        self.canvas.shapes += drawn
        return self.canvas.svg()

    def part(self, words: str) -> None:
        self.y += 30
        self.canvas.shapes.append(
            f"<rect x='12' y='{self.y - 15:g}' width='{self.canvas.width - 24}' height='20' "
            f"rx='4' fill='{SAND}'/>"
        )
        self.canvas.text(22, self.y, words, 12, INK, "start", True)


@picture("wire-sequence.svg")
def draw_wire_sequence() -> str:
    s = Sequence(
        "How two ranks of different hosts come to exchange data",
        ["higher rank", "root", "lower rank"],
    )
    s.part("rendezvous: each rank with the root (src/bootstrap/rendezvous)")
    s.send(0, 1, "HELLO: tag, nonce")
    s.send(1, 0, "CHALLENGE: nonce, MAC")
    s.send(0, 1, "JOIN: ranks, record, MAC")
    s.send(1, 0, "WELCOME, later SPREAD")
    s.send(0, 1, "PLACE: addresses of the listeners")
    s.send(1, 0, "TABLE: all records")
    s.part("mesh: a connection for each pair, over TCP (src/bootstrap/mesh)")
    s.send(0, 2, "GREETING: ranks, X25519 key")
    s.send(2, 0, "ANSWER: X25519 key, MAC")
    s.send(0, 2, "PROOF: MAC")
    s.send(0, 1, "DONE")
    s.send(1, 0, "GO")
    s.part("control channel: the same connection, encrypted records (src/control)")
    s.send(0, 2, "ANNOUNCE, both ways", True)
    s.send(2, 0, "LINKS: offer with port number and key")
    s.part(
        "data: a new TCP connection, called by the rank that takes the offer (src/transports/net)"
    )
    s.send(0, 2, "GREETING: ranks, port, number, nonce")
    s.send(2, 0, "ANSWER: nonce, MAC")
    s.send(0, 2, "PROOF: MAC")
    s.send(0, 2, "frames: OPEN, DATA, DATA, ...")
    s.send(2, 0, "frames: CREDIT")
    return s.svg()


@picture("plan-switch.svg")
def draw_plan_switch() -> str:
    s = Sequence(
        "A collective switches to another plan at run 12",
        ["leader (first member)", "member 1", "member 2"],
    )
    s.send(0, 1, "PROPOSE variant")
    s.send(0, 2, "PROPOSE variant")
    s.note(s.at[1], "both make the variant and its links; runs go on")
    s.send(1, 0, "READY, floor 11")
    s.send(2, 0, "READY, floor 12")
    s.note(s.at[0] + 10, "first = 12, the highest floor")
    s.send(0, 1, "COMMIT, first run 12")
    s.send(0, 2, "COMMIT, first run 12")
    s.note(s.at[1], "runs below 12 retire on the old plan; 12 and later runs take the variant")
    s.send(1, 0, "RETIRED")
    s.send(2, 0, "RETIRED")
    return s.svg()


def main() -> int:
    if sys.argv[1:] in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    if sys.argv[1:] not in ([], ["--check"]):
        print("usage: docs/pictures/draw.py [--check] (see --help)", file=sys.stderr)
        return 2
    folder = pathlib.Path(__file__).parent
    stale = []
    for name, draw in PICTURES.items():
        path, drawn = folder / name, draw()
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text() != drawn:
                stale.append(name)
        else:
            path.write_text(drawn)
    for name in stale:
        print(f"docs/pictures/{name} differs from what docs/pictures/draw.py draws; run the script")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
