"""Figures of comparisons: files, merging, statistics, and tables as text."""

import json
import math
import statistics

import machine
import machines
import measure

OWN = ["dfccl", "dfccl-mem"]
MEMORIES = (("dfccl", "ordinary memory"), ("dfccl-mem", "dfcclMemAlloc memory"))
FORMAT = 1


def empty():
    return {"format": FORMAT, "runs": [], "versions": {}, "failures": [], "points": {}}


def load(path):
    data = json.loads(path.read_text())
    if data.get("format") != FORMAT:
        raise SystemExit(f"compare: {path} has another format")
    return data


def save(data, path):
    """Writes one line for each round, so that differences of files are readable."""
    head = {name: value for name, value in data.items() if name != "points"}
    lines = json.dumps(head, indent=1)[:-2] + ',\n "points": {'
    entries = []
    for key, point in data["points"].items():
        rest = {name: value for name, value in point.items() if name != "rounds"}
        rounds = ",\n".join("    " + json.dumps(one) for one in point["rounds"])
        entries.append(f'\n  {json.dumps(key)}: {json.dumps(rest)[:-1]}, "rounds": [\n{rounds}]}}')
    path.write_text(lines + ",".join(entries) + "\n }\n}\n")


def hosts_of(data):
    """The number of hosts. Figures of different numbers of hosts cannot be in one table."""
    counts = {run.get("hosts", 1) for run in data["runs"]}
    if len(counts) > 1:
        raise SystemExit(
            f"compare: figures of {' and of '.join(map(str, sorted(counts)))} hosts do not go into "
            "one table"
        )
    return counts.pop() if counts else 1


def merge(files):
    merged = empty()
    for data in files:
        pieces = len(merged["runs"])
        merged["runs"] += data["runs"]
        merged["versions"].update(data["versions"])
        merged["failures"] += [
            {**failure, "piece": failure["piece"] + pieces} for failure in data["failures"]
        ]
        for key, point in data["points"].items():
            into = merged["points"].setdefault(key, {**point, "rounds": [], "wrong": {}})
            into["rounds"] += [{**one, "piece": one["piece"] + pieces} for one in point["rounds"]]
            into["wrong"].update(point["wrong"])
    return merged


class Point:
    """The statistics of one point: medians over rounds, and ratios of figures of the same round."""

    def __init__(self, entry):
        self.ranks, self.operation, self.bytes = entry["ranks"], entry["operation"], entry["bytes"]
        self.inputs = entry.get("inputs", "untouched")
        self.rounds = [one["us"] for one in entry["rounds"]]
        names = {name for one in self.rounds for name in one}
        self.median = {name: statistics.median(self.times(name)) for name in names}
        peers = [name for name in names if name in machine.PEERS]
        self.variants = {name for name in names if name not in [*OWN, *machine.NAMES]}
        self.best = min(peers, key=self.median.get) if peers else None
        self.wrong = entry["wrong"]

    def times(self, name):
        return [one[name] for one in self.rounds if name in one]

    def ratio(self, name, to):
        """The median over the rounds that have both figures; None if there is no such round."""
        both = [one[name] / one[to] for one in self.rounds if name in one and to in one]
        return statistics.median(both) if both else None

    def spread(self, name):
        """(largest - smallest) / median."""
        times = self.times(name)
        return (max(times) - min(times)) / self.median[name] if times else None


def points_of(data):
    known = [Point(entry) for entry in data["points"].values() if entry["rounds"]]
    order = {name: number for number, name in enumerate(machine.OPERATIONS)}
    return sorted(
        known,
        key=lambda point: (
            point.ranks,
            order[point.operation],
            measure.INPUTS.index(point.inputs),
            point.bytes,
        ),
    )


def parts_of(points):
    """(ranks, inputs, points) for each number of ranks, written inputs first."""
    for ranks in sorted({point.ranks for point in points}):
        for inputs in measure.INPUTS:
            here = [point for point in points if (point.ranks, point.inputs) == (ranks, inputs)]
            if here:
                yield ranks, inputs, here


def readable_size(size):
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}B"
    return f"{size} B"


def number(value, digits=3):
    """Three significant digits, with commas."""
    if value is None:
        return "-"
    decimals = max(0, digits - 1 - math.floor(math.log10(value))) if value > 0 else 2
    return f"{value:,.{min(decimals, 2)}f}"


def percent(value):
    return "-" if value is None else f"{100 * value:.0f}%"


def described(data):
    """Lines that describe the origin of the figures."""
    lines = []
    if data["runs"]:
        lines.append(machines.described(data["runs"]))
    versions = [version for name, version in data["versions"].items() if name != "bound"]
    lines.append("; ".join(dict.fromkeys(versions)))
    commits = dict.fromkeys(run["commit"] for run in data["runs"])
    dates = [run["date"] for run in data["runs"]]
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    hosts = hosts_of(data)
    if hosts > 1:
        lines.append(f"{hosts} hosts: network namespaces of that machine")
    lines.append(
        f"{span}, commit {', '.join(commits)}, in {len(dates)} piece{'s' * (len(dates) > 1)}"
    )
    return lines


def columns(points):
    present = {name for point in points for name in point.median}
    return [name for name in dict.fromkeys([*OWN, *machine.NAMES]) if name in present]


def variant_cells(point, names):
    """'12.3 (0.45)': microseconds, and their ratio to DFCCL's with the same memory in the same
    round."""
    cells = ""
    for name in names:
        ratio = point.ratio(name, "dfccl-mem" if name.endswith("-mem") else "dfccl")
        shown = f" ({ratio:.2f})" if ratio is not None else ""
        cells += f"{number(point.median.get(name)) + shown:>20}"
    return cells


def text(data):
    """Figures of several machines are not mixed: each has its tables, and one table has all."""
    parts = machines.split(data)
    if len(parts) < 2:
        return machine_text(data)
    side = "\n".join(machines.side_by_side(parts, text_row)) + "\n"
    return "\n".join([*(machine_text(part) for part in parts), side])


def text_row(cells):
    return "".join(f"{one:>16}" for one in cells[:4]) + "".join(f"{one:>30}" for one in cells[4:])


def machine_text(data):
    points = points_of(data)
    lines = ["# " + line for line in described(data)] if data["runs"] else []
    lines.append(
        "# us a call, medians; ratio: ours / best peer, of the same round (below 1: ours is "
        "faster); spread: "
        "(max - min) / median"
    )
    names = columns(points)
    variants = sorted({name for point in points for name in point.variants})
    if variants:
        lines.append(
            "# "
            + ", ".join(variants)
            + ": in brackets, how many times the time of dfccl (-mem: dfccl-mem), medians of the "
            "ratios "
            "of one round"
        )
    at = None
    for point in points:
        if at != (point.ranks, point.operation, point.inputs):
            at = (point.ranks, point.operation, point.inputs)
            heads = "".join(f"{name:>14}" for name in names) + "".join(
                f"{name:>20}" for name in variants
            )
            lines += [
                "",
                f"{point.operation}, {point.ranks} ranks, inputs {point.inputs}",
                f"{'bytes':>12}{heads}{'best peer':>15}{'ratio':>8}{'mem':>8}{'mem/bound':>11}"
                f"{'rounds':>8}{'spread':>8}",
            ]
        cells = "".join(f"{number(point.median.get(name)):>14}" for name in names) + variant_cells(
            point, variants
        )
        spreads = [point.spread(name) for name in ("dfccl", point.best) if name in point.median]
        lines.append(
            f"{point.bytes:>12}{cells}{point.best or '-':>15}"
            f"{number(point.ratio('dfccl', point.best)):>8}"
            f"{number(point.ratio('dfccl-mem', point.best)):>8}"
            f"{number(point.ratio('dfccl-mem', 'bound')):>11}"
            f"{len(point.rounds):>8}{percent(max(spreads) if spreads else None):>8}"
        )
    wrong = [
        f"{name} at {point.ranks} {point.operation} {point.bytes}: {count}"
        for point in points
        for name, count in point.wrong.items()
    ]
    lines += ["", "wrong elements: " + ("; ".join(wrong) if wrong else "none")]
    lines += [
        f"failed: {one['library']}, {one['where']}: {one['reason']}" for one in data["failures"]
    ]
    return "\n".join(lines) + "\n"


def cell(point, name):
    """'12.3 (0.45)': microseconds, and their ratio to the best peer's time."""
    if point is None or name not in point.median:
        return ""
    ratio = point.ratio(name, point.best) if point.best else None
    return number(point.median[name]) + (f" ({ratio:.2f})" if ratio is not None else "")


def both_memories(point):
    """'12.3 (0.45, 0.40)': microseconds with ordinary memory, and the ratios to the best peer with
    either memory."""
    if point is None or point.best is None or "dfccl" not in point.median:
        return cell(point, "dfccl")
    ratios = [point.ratio(name, point.best) for name, _ in MEMORIES]
    return (
        number(point.median["dfccl"])
        + f" ({', '.join('-' if ratio is None else f'{ratio:.2f}' for ratio in ratios)})"
    )


def svg(data):
    import drawing

    return drawing.panels(points_of(data), columns(points_of(data)), described(data))
