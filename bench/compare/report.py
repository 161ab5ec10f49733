"""Figures of comparisons: files, merging, statistics, tables as text, and the tables of
docs/PERFORMANCE.md."""

import json
import math
import re
import statistics
import textwrap

import machine

OWN = ["dfccl", "dfccl-mem"]
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
    return sorted(known, key=lambda point: (point.ranks, order[point.operation], point.bytes))


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
    for run in data["runs"][:1]:
        on = run["machine"]
        caches = ", ".join(f"{name} {size}" for name, size in on["caches"].items())
        virtual = f", virtual ({on['virtual']})" if on["virtual"] else ""
        lines.append(
            f"{on['cpu']}, {on['cores']} cores{virtual}, {caches}, {on['memory_gib']} GiB; "
            f"Linux {on['kernel']}; {on['compiler']}"
        )
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
        if at != (point.ranks, point.operation):
            at = (point.ranks, point.operation)
            heads = "".join(f"{name:>14}" for name in names) + "".join(
                f"{name:>20}" for name in variants
            )
            lines += [
                "",
                f"{point.operation}, {point.ranks} ranks",
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


# ---- the tables of docs/PERFORMANCE.md and of its notes; a document may have any of these, between
# markers

TABLES = "compare"
POINTS = "compare-points"
SUMMARY = "compare-summary"
COLUMNS = 120


def filled(sentence):
    return textwrap.wrap(sentence, COLUMNS, break_long_words=False, break_on_hyphens=False)


def code(command):
    """A command as indented code, in lines that a shell joins. An option and its value are on one
    line."""
    bound = re.sub(r" (-\S+) (?=[^-])", " \\1\a", command)
    lines = [
        line.replace("\a", " ")
        for line in textwrap.wrap(
            bound, COLUMNS - 10, break_long_words=False, break_on_hyphens=False
        )
    ]
    return ("    " + " \\\n        ".join(lines)).split("\n")


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


def against_bound(point):
    """'1.2': the ratio of our time, with memory of dfcclMemAlloc, to the time of the bound."""
    ratio = point.ratio("dfccl-mem", "bound") if point is not None else None
    return f"{number(point.median['bound'])} ({ratio:.2f})" if ratio is not None else ""


def docs_table(points, content):
    operations = [
        name for name in machine.OPERATIONS if any(point.operation == name for point in points)
    ]
    sizes = sorted({point.bytes for point in points})
    found = {(point.operation, point.bytes): point for point in points}
    lines = ["| bytes | " + " | ".join(operations) + " |", "| ---: |" + " ---: |" * len(operations)]
    for size in sizes:
        cells = [content(found.get((operation, size))) for operation in operations]
        lines.append(f"| {readable_size(size)} | " + " | ".join(cells) + " |")
    return lines


def against_peers(points, name):
    """The comparison with every peer: (points won, points compared, geometric mean of the ratios,
    worst ratio)."""
    compared = [point for point in points if point.ratio(name, point.best) is not None]
    if not compared:
        return None
    faster = sum(point.ratio(name, point.best) < 1 for point in compared)
    mean = math.exp(statistics.fmean(math.log(point.ratio(name, point.best)) for point in compared))
    worst = max(compared, key=lambda point: point.ratio(name, point.best))
    return (
        f"{faster} of {len(compared)} points",
        f"{mean:.2f}",
        f"{worst.ratio(name, worst.best):.2f} ({worst.operation}, {readable_size(worst.bytes)}, "
        f"{worst.best})",
    )


def summary(points, name):
    found = against_peers(points, name)
    if found is None:
        return "nothing to compare"
    won, mean, worst = found
    return f"faster than the best peer at {won}, geometric mean of the ratios {mean}, worst {worst}"


MEMORIES = (("dfccl", "ordinary memory"), ("dfccl-mem", "dfcclMemAlloc memory"))


def summary_table(data):
    """The summary of the comparison."""
    points = points_of(data)
    lines = [
        "",
        "| DFCCL's time divided by the fastest peer's | below 1 at | geometric mean | worst |",
        "| --- | ---: | ---: | --- |",
    ]
    for ranks in sorted({point.ranks for point in points}):
        for name, memory in MEMORIES:
            found = against_peers([point for point in points if point.ranks == ranks], name)
            if found is not None:
                lines.append(f"| {ranks} ranks, {memory} | " + " | ".join(found) + " |")
    return "\n".join([*lines, ""])


def reliability(points):
    """The number of rounds, and their spread."""
    rounds = [len(point.rounds) for point in points]
    spreads = [
        point.spread(name)
        for point in points
        for name in (*OWN, point.best)
        if name in point.median
    ]
    if not spreads:
        return ""
    many = f"{min(rounds)}" if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
    return (
        f"Medians of {many} rounds; the rounds of one figure lie "
        f"{percent(statistics.median(spreads))} of it apart (median over "
        "all figures; largest - smallest): differences below that mean little."
    )


def origin(data, files):
    """The origin of the figures, as sentences."""
    names = ", ".join(f"`bench/results/{file.name}`" for file in files)
    out = [""]
    for line in [line + "." for line in described(data)] + [f"Raw figures: {names}."]:
        out += filled(line)
    return out


def mishaps(data, points):
    failed = "; ".join(
        f"{one['library']} ({one['where']}: {one['reason']})" for one in data["failures"]
    )
    wrong = sum(len(point.wrong) for point in points)
    return [
        "",
        *filled(
            f"Points with wrong elements: {wrong}. "
            + (f"Failed: {failed}." if failed else "Nothing failed.")
        ),
        "",
    ]


def docs(data, files):
    """All tables."""
    points = points_of(data)
    out = [*origin(data, files), "Commands:", ""]
    for command in dict.fromkeys(run["command"] for run in data["runs"]):
        out += code(command)
    out += [
        "",
        *filled(
            "Cells: microseconds a call, and in brackets the ratio to the fastest of the peers at "
            "that point (below 1: "
            "DFCCL is faster). " + reliability(points)
        ),
    ]
    for ranks in sorted({point.ranks for point in points}):
        here = [point for point in points if point.ranks == ranks]
        for name, memory in MEMORIES:
            if any(name in point.median for point in here):
                out += ["", *filled(f"**{ranks} ranks, {memory}**: {summary(here, name)}."), ""]
                out += docs_table(here, lambda point, name=name: cell(point, name))
        if any("bound" in point.median for point in here):
            out += [
                "",
                *filled(
                    f"**{ranks} ranks, bound**: microseconds of the zero-copy program, and the "
                    "ratio of DFCCL with "
                    "dfcclMemAlloc memory to it."
                ),
                "",
            ]
            out += docs_table(here, against_bound)
    return "\n".join(out + mishaps(data, points))


def docs_points(data, files):
    """One table of every second size and the largest. A document with more detail has the whole
    tables."""
    points = points_of(data)
    out = [
        *origin(data, files),
        "",
        *filled(
            "Cells: microseconds a call with ordinary memory, and in brackets the ratio to the "
            "fastest peer at that point with ordinary memory and with dfcclMemAlloc memory (below "
            "1: "
            "DFCCL is faster). " + reliability(points)
        ),
        "",
    ]
    for ranks in sorted({point.ranks for point in points}):
        here = [point for point in points if point.ranks == ranks]
        sizes = sorted({point.bytes for point in here})
        shown = {*sizes[::2], sizes[-1]}
        head, rule, *rows = docs_table(
            [point for point in here if point.bytes in shown], both_memories
        )
        if out[-1] == "":
            out += ["| ranks " + head, "| ---: " + rule]
        out += [f"| {ranks} " + row for row in rows]
    return "\n".join(out + mishaps(data, points))


def replaced(path, whole, name, content):
    """Replaces the text between the two markers of a name in the document."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if whole.count(begin) != 1 or whole.count(end) != 1:
        raise SystemExit(f"compare: {path} does not have the markers {begin} and {end} once each")
    before, rest = whole.split(begin)
    return before + begin + "\n" + content + "\n" + end + rest.split(end)[1]


def render_docs(data, path, files):
    whole = path.read_text()
    found = {
        name: content
        for name, content in (
            (TABLES, docs),
            (POINTS, docs_points),
            (SUMMARY, lambda data, _: summary_table(data)),
        )
        if f"<!-- {name}: " in whole
    }
    if not found:
        raise SystemExit(
            f"compare: {path} has no markers for tables: <!-- {TABLES}: begin --> and end, or "
            f"{POINTS}, or {SUMMARY}"
        )
    for name, content in found.items():
        whole = replaced(path, whole, name, content(data, files))
    path.write_text(whole)


def svg(data):
    import drawing

    return drawing.panels(points_of(data), columns(points_of(data)), described(data))
