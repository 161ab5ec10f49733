"""Figures of several machines: kept apart, and set side by side."""

import machine
import measure
import report


def key_of(run):
    on = run["machine"]
    return (on["cpu"], on["cores"], tuple(on["caches"].items()), on["virtual"])


def described(runs):
    """The sentence about the machine of these runs. Older files do not have the round trip of a
    line; a virtual machine may move between two runs."""
    on = runs[0]["machine"]
    caches = ", ".join(f"{name} {size}" for name, size in on["caches"].items())
    virtual = f", virtual ({on['virtual']})" if on["virtual"] else ""
    trips = sorted({run["machine"].get("line_ns") for run in runs} - {None})
    line = ""
    if trips:
        span = f"{trips[0]}" if len(trips) == 1 else f"{trips[0]} to {trips[-1]}"
        line = f", a cache line to the other processor and back {span} ns"
    return (
        f"{on['cpu']}, {on['cores']} cores{virtual}, {caches}{line}, {on['memory_gib']} GiB; "
        f"Linux {on['kernel']}; {on['compiler']}"
    )


def name_of(data):
    on = data["runs"][0]["machine"]
    return f"{on['cpu']}, {on['cores']} cores"


def restricted(data, key):
    """The figures of one machine; a piece is the number of a run."""
    kept = [number for number, run in enumerate(data["runs"]) if key_of(run) == key]
    numbers = {old: new for new, old in enumerate(kept)}

    def of_here(entries):
        return [
            {**one, "piece": numbers[one["piece"]]} for one in entries if one["piece"] in numbers
        ]

    points = {
        name: {**one, "rounds": of_here(one["rounds"])} for name, one in data["points"].items()
    }
    return {
        **data,
        "runs": [data["runs"][number] for number in kept],
        "failures": of_here(data["failures"]),
        "points": {name: one for name, one in points.items() if one["rounds"]},
    }


def split(data):
    """The figures of each machine, in the order of the runs."""
    keys = list(dict.fromkeys(key_of(run) for run in data["runs"]))
    return [data] if len(keys) < 2 else [restricted(data, key) for key in keys]


def cell(point):
    """'12.3 (0.45, 0.40)', as in the tables of one machine; "-": not measured there."""
    return report.both_memories(point) or "-"


def side_by_side(parts, row, is_document=False):
    """The lines of a table with a column for each machine. row: cells to a line."""
    tables = [
        {(point.ranks, point.operation, point.inputs, point.bytes): point for point in found}
        for found in map(report.points_of, parts)
    ]
    rank = {name: number for number, name in enumerate(machine.OPERATIONS)}
    keys = sorted(
        {key for table in tables for key in table},
        key=lambda key: (key[0], rank[key[1]], measure.INPUTS.index(key[2]), key[3]),
    )
    titles = [chr(ord("A") + number) for number in range(len(parts))]
    mark = "" if is_document else "# "
    lines = [
        "",
        f"{mark}Machines side by side: us a call with ordinary memory, and in brackets the",
        f"{mark}ratios to the best peer there with ordinary and with dfcclMemAlloc memory.",
    ]
    for title, part in zip(titles, parts, strict=True):
        lines += ["", f"{mark}{title}: {described(part['runs'])}"]
    lines += ["", row(["ranks", "operation", "inputs", "bytes", *titles])]
    if is_document:
        lines.append("| ---: | --- | --- | ---: |" + " ---: |" * len(titles))
    for key in keys:
        ranks, operation, inputs, size = key
        cells = [cell(table[key]) if key in table else "-" for table in tables]
        lines.append(row([str(ranks), operation, inputs, report.readable_size(size), *cells]))
    return lines
