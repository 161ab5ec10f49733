"""Comparisons as SVG: a panel for each operation and number of ranks, both axes logarithmic."""

import math

import machine

COLOURS = {
    "dfccl": "#c0392b",
    "dfccl-mem": "#e67e22",
    "bound": "#888888",
    "openmpi": "#2980b9",
    "mpich": "#27ae60",
    "gloo": "#8e44ad",
}
WIDTH, HEIGHT, LEFT, TOP, GAP = 240, 180, 60, 70, 60


def readable(size):
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size // unit}{name}"
    return str(size)


def colour(name):
    return COLOURS.get(name, COLOURS.get(name.split("-")[0], "#000000"))


class Panel:
    def __init__(self, x, y, points):
        self.x, self.y, self.points = x, y, points
        sizes = [point.bytes for point in points]
        times = [time for point in points for time in point.median.values()]
        self.sizes = (math.log2(min(sizes)), math.log2(max(sizes)))
        self.times = (math.floor(math.log10(min(times))), math.ceil(math.log10(max(times))))

    def across(self, size):
        low, high = self.sizes
        return self.x + WIDTH * (math.log2(size) - low) / max(high - low, 1)

    def up(self, time):
        low, high = self.times
        return self.y + HEIGHT - HEIGHT * (math.log10(time) - low) / max(high - low, 1)

    def draw(self, names):
        first = self.points[0]
        yield (
            f'<rect x="{self.x}" y="{self.y}" width="{WIDTH}" height="{HEIGHT}" fill="none" '
            'stroke="#999"/>'
            f'<text x="{self.x}" y="{self.y - 6}">{first.operation}, {first.ranks} ranks, '
            f"{first.inputs}</text>"
        )
        for power in range(self.times[0], self.times[1] + 1):
            at = self.up(10.0**power)
            yield (
                f'<line x1="{self.x}" x2="{self.x + WIDTH}" y1="{at:.1f}" y2="{at:.1f}" '
                'stroke="#ddd"/>'
                f'<text x="{self.x - 4}" y="{at + 3:.1f}" text-anchor="end" '
                f'class="small">{10.0**power:g} us</text>'
            )
        for point in self.points[::3]:
            at = self.across(point.bytes)
            yield (
                f'<text x="{at:.1f}" y="{self.y + HEIGHT + 12}" text-anchor="middle" class="small">'
                f'{readable(point.bytes)}</text>'
            )
        for name in names:
            places = " ".join(
                f"{self.across(point.bytes):.1f},{self.up(point.median[name]):.1f}"
                for point in self.points
                if name in point.median
            )
            dashes = ' stroke-dasharray="4 3"' if name == "bound" else ""
            yield (
                f'<polyline points="{places}" fill="none" stroke="{colour(name)}" '
                f'stroke-width="1.5"{dashes}/>'
            )


def panels(points, names, lines):
    rows = list(dict.fromkeys((point.ranks, point.inputs) for point in points))
    operations = [
        name for name in machine.OPERATIONS if any(point.operation == name for point in points)
    ]
    width = LEFT + len(operations) * (WIDTH + GAP)
    height = TOP + len(rows) * (HEIGHT + GAP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" '
        'font-size="12"><style>.small{font-size:9px}</style><rect width="100%" height="100%" '
        'fill="white"/>'
    ]
    text = "; ".join(lines).replace("&", "&amp;").replace("<", "&lt;")
    out.append(f'<text x="10" y="18" class="small">{text}</text>')
    for number, name in enumerate(names):
        out.append(
            f'<text x="{10 + 110 * number}" y="38" fill="{colour(name)}">&#9632; {name}</text>'
        )
    for row, (n, inputs) in enumerate(rows):
        for column, operation in enumerate(operations):
            here = [
                point
                for point in points
                if (point.ranks, point.inputs, point.operation) == (n, inputs, operation)
            ]
            if here:
                panel = Panel(LEFT + column * (WIDTH + GAP), TOP + row * (HEIGHT + GAP), here)
                out.extend(panel.draw(names))
    return "\n".join(out) + "\n</svg>\n"
