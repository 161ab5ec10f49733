"""The tables of docs/PERFORMANCE.md and of its notes. A document may have any of these tables,
between markers."""

import math
import re
import statistics
import textwrap

import machine
import machines
import report

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


def against_bound(point):
    """'1.2': the ratio of our time, with memory of dfcclMemAlloc, to the time of the bound."""
    ratio = point.ratio("dfccl-mem", "bound") if point is not None else None
    return f"{report.number(point.median['bound'])} ({ratio:.2f})" if ratio is not None else ""


def docs_table(points, content):
    operations = [
        name for name in machine.OPERATIONS if any(point.operation == name for point in points)
    ]
    sizes = sorted({point.bytes for point in points})
    found = {(point.operation, point.bytes): point for point in points}
    lines = ["| bytes | " + " | ".join(operations) + " |", "| ---: |" + " ---: |" * len(operations)]
    for size in sizes:
        cells = [content(found.get((operation, size))) for operation in operations]
        lines.append(f"| {report.readable_size(size)} | " + " | ".join(cells) + " |")
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
        f"{worst.ratio(name, worst.best):.2f} ({worst.operation}, "
        f"{report.readable_size(worst.bytes)}, {worst.best})",
    )


def summary(points, name):
    found = against_peers(points, name)
    if found is None:
        return "nothing to compare"
    won, mean, worst = found
    return f"faster than the best peer at {won}, geometric mean of the ratios {mean}, worst {worst}"


def summary_table(data):
    """The summary of the comparison, for each machine."""
    parts = machines.split(data)
    lines = [
        "",
        "| DFCCL's time divided by the fastest peer's | below 1 at | geometric mean | worst |",
        "| --- | ---: | ---: | --- |",
    ]
    for part in parts:
        on = f"{machines.name_of(part)}: " if len(parts) > 1 else ""
        for ranks, inputs, points in report.parts_of(report.points_of(part)):
            for name, memory in report.MEMORIES:
                found = against_peers(points, name)
                if found is not None:
                    lines.append(
                        f"| {on}{ranks} ranks, {memory}, inputs {inputs} | "
                        + " | ".join(found)
                        + " |"
                    )
    return "\n".join([*lines, ""])


def reliability(points):
    """The number of rounds, and their spread."""
    rounds = [len(point.rounds) for point in points]
    spreads = [
        point.spread(name)
        for point in points
        for name in (*report.OWN, point.best)
        if name in point.median
    ]
    if not spreads:
        return ""
    many = f"{min(rounds)}" if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
    return (
        f"Medians of {many} rounds; the rounds of one figure lie "
        f"{report.percent(statistics.median(spreads))} of it apart (median over "
        "all figures; largest - smallest): differences below that mean little."
    )


def origin(data, files):
    """The origin of the figures, as sentences."""
    names = ", ".join(f"`bench/results/{file.name}`" for file in files)
    out = [""]
    for line in [line + "." for line in report.described(data)] + [f"Raw figures: {names}."]:
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
    """All tables, for each machine, and then one table of all machines."""
    parts = machines.split(data)
    if len(parts) < 2:
        return machine_docs(data, files)
    side = machines.side_by_side(parts, lambda cells: f"| {' | '.join(cells)} |", is_document=True)
    return "\n".join([*(machine_docs(part, files) for part in parts), *side, ""])


def machine_docs(data, files):
    points = report.points_of(data)
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
    for ranks, inputs, here in report.parts_of(points):
        for name, memory in report.MEMORIES:
            if any(name in point.median for point in here):
                which = f"{ranks} ranks, {memory}, inputs {inputs}"
                out += ["", *filled(f"**{which}**: {summary(here, name)}."), ""]
                out += docs_table(here, lambda point, name=name: report.cell(point, name))
        if any("bound" in point.median for point in here):
            out += [
                "",
                *filled(
                    f"**{ranks} ranks, inputs {inputs}, bound**: microseconds of the zero-copy "
                    "program, and the ratio of DFCCL with dfcclMemAlloc memory to it."
                ),
                "",
            ]
            out += docs_table(here, against_bound)
    return "\n".join(out + mishaps(data, points))


def docs_points(data, files):
    """One table of every second size and the largest, for each machine. A document with more detail
    has the whole tables."""
    return "\n".join(machine_docs_points(part, files) for part in machines.split(data))


def machine_docs_points(data, files):
    points = report.points_of(data)
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
    for ranks, inputs, here in report.parts_of(points):
        sizes = sorted({point.bytes for point in here})
        shown = {*sizes[::2], sizes[-1]}
        head, rule, *rows = docs_table(
            [point for point in here if point.bytes in shown], report.both_memories
        )
        if out[-1] == "":
            out += ["| ranks, inputs " + head, "| --- " + rule]
        out += [f"| {ranks}, {inputs} " + row for row in rows]
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
