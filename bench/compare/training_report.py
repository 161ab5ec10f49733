"""Tables and pictures of bench/compare/training."""

import html
import statistics

COLOURS = {  # on a light and on a dark background
    "ordered": ("#66727f", "#a9b4bf"),
    "disordered": ("#c0392b", "#f0796b"),
    "coordinator": ("#2980b9", "#6cb8ea"),
    "first-step": ("#b8860b", "#e3bd57"),
    "mpi": ("#27ae60", "#62d391"),
    "gloo": ("#8e44ad", "#c48adf"),
}


def ratio_to(result, base, name, key="each"):
    """The median of the ratios of each turn; None: no turn has both."""
    pairs = zip(result[name].get(key, []), result[base].get(key, []), strict=True)
    ratios = [a / b for a, b in pairs if a and b]
    return statistics.median(ratios) if ratios else None


def spread(result, base, name, key="each"):
    """The quartiles of the ratios of each turn."""
    pairs = zip(result[name].get(key, []), result[base].get(key, []), strict=True)
    ratios = sorted(a / b for a, b in pairs if a and b)
    if len(ratios) < 2:
        return None
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive")
    return quartiles[0], quartiles[2]


def cell(value, form):
    return "-" if value is None else format(value, form)


def columns(engines):
    others = [name for name in engines if name != "ordered"]
    return (
        ["trace", "compute", "ranks", "runs", "ordered, ms"]
        + [f"{name} / ordered (quartiles)" for name in others]
        + [f"{name}, no computing" for name in others]
        + ["rounds x us", "no core, %: " + ", ".join(engines)]
    )


def row(one, engines):
    results = one["engines"]
    cells = [one["trace"], one["compute"], str(one["ranks"]), str(one["runs"])]
    first = results["ordered"].get("seconds")
    cells.append(cell(first and first * 1e3, ".2f"))
    others = [name for name in engines if name != "ordered"]
    for name in others:
        between = spread(results, "ordered", name)
        text = cell(ratio_to(results, "ordered", name), ".2f")
        cells.append(text + (f" ({between[0]:.2f}-{between[1]:.2f})" if between else ""))
    cells += [cell(ratio_to(results, "ordered", name, "each_alone"), ".2f") for name in others]
    rounds = results.get("coordinator", {})
    cells.append(f"{rounds.get('rounds', 0):.0f} x {rounds.get('round_us', 0):.0f}")
    short = [results[name].get("cores_short") for name in engines]
    cells.append(", ".join(cell(None if one is None else 100 * one, ".0f") for one in short))
    return cells


# ---- pictures

BAR, GAP, LEFT, TOP, WIDTH, MOST = 9, 12, 150, 76, 560, 4.0


def text(x, y, words, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{html.escape(words)}</text>'


def style():
    rules = [
        "text{fill:#1f2933}",
        ".back{fill:#ffffff}",
        ".grid{stroke:#d5dae0}",
        ".one{stroke:#1f2933}",
        ".spread{stroke:#1f2933}",
    ]
    dark = [
        "text{fill:#e4e7eb}",
        ".back{fill:#1b1f24}",
        ".grid{stroke:#3a424c}",
        ".one{stroke:#e4e7eb}",
        ".spread{stroke:#e4e7eb}",
    ]
    for name, (light, pale) in COLOURS.items():
        rules.append(f".{name}{{fill:{light}}}")
        dark.append(f".{name}{{fill:{pale}}}")
    return (
        "<style>"
        + "".join(rules)
        + "@media (prefers-color-scheme: dark){"
        + "".join(dark)
        + "}</style>"
    )


def across(ratio):
    return LEFT + WIDTH * min(ratio, MOST) / MOST


def bars(one, names, top):
    """A bar for each engine: its time as a multiple of that of `ordered`."""
    results = one["engines"]
    yield text(LEFT - 8, top + BAR * len(names) / 2 + 4, one["trace"], 'text-anchor="end"')
    for place, name in enumerate(names):
        ratio = ratio_to(results, "ordered", name)
        y = top + BAR * place
        if ratio is None:
            yield text(LEFT + 4, y + BAR - 1, f"{name}: not measured", 'font-size="8"')
            continue
        end = across(ratio)
        yield (
            f'<rect class="{name}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR - 1}">'
            f"<title>{name}: {ratio:.2f}</title></rect>"
        )
        between = spread(results, "ordered", name)
        if between and ratio < MOST:
            ends = [across(value) for value in between]
            yield (
                f'<line class="spread" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y + BAR / 2}" '
                f'y2="{y + BAR / 2}"/>'
            )
        if ratio >= MOST:
            yield text(end + 4, y + BAR - 1, f"{ratio:.1f}", 'font-size="9"')


def picture(report, engines, kind, title, lines):
    """The times of one kind of computing, as SVG."""
    names = [name for name in engines if name != "ordered"]
    rows = [one for one in report if one["compute"] == kind]
    each = BAR * len(names) + GAP
    height = TOP + each * len(rows) + 34
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 60} {height}" '
        f'width="{LEFT + WIDTH + 60}" height="{height}" font-family="sans-serif" font-size="12">'
        f"<title>{html.escape(title)}</title>{style()}"
        '<rect class="back" width="100%" height="100%" rx="8"/>',
        text(12, 20, title, 'font-size="14"'),
        text(12, 36, lines, 'font-size="10"'),
    ]
    for place, name in enumerate(names):
        x = LEFT + 110 * place
        out.append(f'<rect class="{name}" x="{x}" y="46" width="10" height="10"/>')
        out.append(text(x + 14, 55, name))
    bottom = TOP + each * len(rows)
    for step in range(int(MOST * 2) + 1):
        x, ratio = across(step / 2), step / 2
        kind_of = "one" if ratio == 1 else "grid"
        out.append(
            f'<line class="{kind_of}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{bottom}"/>'
        )
        out.append(text(x, bottom + 14, f"{ratio:g}", 'text-anchor="middle" font-size="10"'))
    out.append(
        text(
            LEFT,
            bottom + 28,
            "iteration / that of this library in the order of the file; lines: quartiles",
            'font-size="10"',
        )
    )
    for place, one in enumerate(rows):
        out += bars(one, names, TOP + each * place)
    return "\n".join(out) + "\n</svg>\n"
