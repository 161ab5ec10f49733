#!/usr/bin/env python3
"""Pictures of the tables of bench-tuner-grid.

    tuner/svg.py load|change TABLE > PICTURE.svg
    tuner/svg.py reached TABLE

load draws three bars for each row, in microseconds of a run under a load: with
the library's own choice, with a choice tuned without the load, and with a
choice tuned under it. change draws the time of each ten runs, before and after
the network has changed, and in a job that has begun after the change. reached
prints the time of a run from 200 runs after the change on, and at the end of
the second job.
"""

import statistics
import sys

WIDTH, LEFT, TOP = 900, 70, 50
COLOURS = ["#999999", "#d98c3f", "#3b6fb5"]


def head(height, title):
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{title}</text>',
    ]


def legend(words, y):
    out, x = [], LEFT
    for colour, word in zip(COLOURS, words):
        out.append(
            f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{x + 18}" y="{y}">{word}</text>'
        )
        x += 30 + 8 * len(word)
    return out


def load(lines):
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    height = TOP + 40 + 66 * len(rows)
    out = head(height, "A run under load, relative to the library's choice (shorter is better)")
    out += legend(["library's choice", "tuned without the load", "tuned under the load"], 46)
    for i, row in enumerate(rows):
        y = TOP + 24 + 66 * i
        label = f"{row[0]}, {row[1]} ranks, {int(row[2]) >> 10} KiB, {row[3]}"
        out.append(f'<text x="{LEFT}" y="{y}">{label}</text>')
        times = [float(word) for word in row[6:9]]
        for j, time in enumerate(times):
            length = (WIDTH - LEFT - 220) * min(time / times[0], 1.5) / 1.5
            out.append(
                f'<rect x="{LEFT}" y="{y + 5 + 13 * j}" width="{length:.1f}" height="11" '
                f'fill="{COLOURS[j]}"/>'
                f'<text x="{LEFT + length + 6:.1f}" y="{y + 15 + 13 * j}" '
                f'font-size="11">{time:.0f} us</text>'
            )
    return out


def read_change(lines):
    """The titles, and for each part a list of (run, microseconds, algorithm)."""
    parts, titles = [], []
    for line in lines:
        if line.startswith("# changed") or line.startswith("# from"):
            titles.append(line[2:].strip())
            parts.append([])
        elif line.strip() and line[0] != "#" and parts:
            words = line.split()
            parts[-1].append((int(words[0]), float(words[1]), words[2]))
    return titles[:2], parts[:2]


def reached(lines):
    titles, (changed, scratch) = read_change(lines)
    last = max(run for run, _, _ in changed)

    def between(part, first, end):
        rows = [row for row in part if first <= row[0] < end]
        algorithm = statistics.mode(row[2] for row in rows)
        return statistics.median(row[1] for row in rows), algorithm

    before, after = between(changed, 4000, 5000), between(changed, 5200, 5400)
    end, begun = between(changed, last - 990, last + 1), between(scratch, last - 990, last + 1)
    early = between(changed, 5020, 5060)
    out = [f"# {titles[0]}", "# medians of means of ten runs"]
    for name, (time, algorithm) in [
        ("before the change", before),
        ("20 to 60 runs after", early),
        ("200 to 400 runs after", after),
        ("last 1,000 runs", end),
        ("begun after it, last 1,000", begun),
    ]:
        out.append(f"# {name:27} {time:9.1f} us  {algorithm}")
    return out + [f"# 200 to 400 runs after / begun after it: {after[0] / begun[0]:.3f}"]


def change(lines):
    titles, parts = read_change(lines)
    parts = [[(run, time) for run, time, _ in part] for part in parts]
    height, bottom = 460, 400
    last = max(run for part in parts for run, _ in part)
    times = sorted(time for part in parts for _, time in part)
    most = times[int(len(times) * 0.99)] * 1.15
    out = head(height, titles[0])
    out += legend(["rate cut at run 5,000", "begun under the later rate"], 46)
    for part, colour in zip(parts, COLOURS):
        for run, time in part:
            x = LEFT + (WIDTH - LEFT - 20) * run / last
            y = bottom - (bottom - TOP - 20) * min(time / most, 1)
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.4" fill="{colour}"/>')
    for i in range(6):
        time, run = most * i / 5, last * i / 5
        y, x = bottom - (bottom - TOP - 20) * i / 5, LEFT + (WIDTH - LEFT - 20) * i / 5
        out.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{time:.0f}</text>'
            f'<text x="{x:.0f}" y="{bottom + 20}" text-anchor="middle">{run:.0f}</text>'
        )
    out.append(
        f'<path d="M{LEFT} {TOP + 10}V{bottom}H{WIDTH - 20}" stroke="black" fill="none"/>'
        f'<text x="{LEFT}" y="{bottom + 44}">run; microseconds of a run (means of ten)</text>'
    )
    return out


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return
    if len(sys.argv) != 3 or sys.argv[1] not in ("load", "change", "reached"):
        sys.exit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as table:
        lines = table.readlines()
    if sys.argv[1] == "reached":
        print("\n".join(reached(lines)))
        return
    print("\n".join((load if sys.argv[1] == "load" else change)(lines) + ["</svg>"]))


if __name__ == "__main__":
    main()
