#!/usr/bin/env python3
"""A strict parser of the OpenMetrics text format, version 1.0, as far as DFCCL uses it: counters,
gauges and histograms.

    openmetrics.py FILE...        parses the files; the status is 1 if one is invalid
"""

from __future__ import annotations

import pathlib
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?Inf|NaN"
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)?\}})? ({NUMBER})(?: {NUMBER})?")
META = re.compile(rf"# (TYPE|UNIT|HELP) ({NAME})(?: (.*))?")
SUFFIXES = {
    "counter": ("_total", "_created"),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
}

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]


class Invalid(ValueError):
    """The text is not OpenMetrics."""


class Family:
    def __init__(self, name: str):
        self.name, self.type = name, "unknown"
        self.meta: set[str] = set()
        self.samples: list[tuple[str, dict[str, str], float]] = []

    def owns(self, sample: str) -> bool:
        return any(sample == self.name + end for end in SUFFIXES.get(self.type, ("",)))

    def check_histogram(self) -> None:
        points: dict[Labels, dict[str, list[tuple[float, float]]]] = {}
        for name, labels, value in self.samples:
            rest = frozenset((k, v) for k, v in labels.items() if k != "le")
            part = points.setdefault(rest, {}).setdefault(name[len(self.name) :], [])
            if ("le" in labels) != name.endswith("_bucket"):
                raise Invalid(f"{name}: the label le")
            part.append((float(labels.get("le", "nan")), value))
        for rest, parts in points.items():
            buckets = parts.get("_bucket", [])
            bounds, counts = [le for le, _ in buckets], [count for _, count in buckets]
            if not bounds or bounds[-1] != float("inf") or bounds != sorted(set(bounds)):
                raise Invalid(f"{self.name}: bounds {bounds} of {set(rest)}")
            if counts != sorted(counts) or any(c < 0 or c != int(c) for c in counts):
                raise Invalid(f"{self.name}: counts {counts}")
            if len(parts.get("_count", [])) != 1 or parts["_count"][0][1] != counts[-1]:
                raise Invalid(f"{self.name}: the count is not that of the last bucket")
            if len(parts.get("_sum", [])) != 1:
                raise Invalid(f"{self.name}: one sum is needed")

    def check(self) -> None:
        if self.type == "histogram":
            self.check_histogram()
        for name, _, value in self.samples:
            if self.type == "counter" and (value != value or value < 0):
                raise Invalid(f"{name}: a counter is {value}")


def parse(text: str) -> Samples:
    """The samples of all families. Raises Invalid."""
    if not text.endswith("# EOF\n"):
        raise Invalid("the text does not end with # EOF and a line feed")
    samples: Samples = {}
    families: dict[str, Family] = {}
    family = Family("")
    last_labels: Labels | None = None
    seen: set[Labels] = set()
    for number, line in enumerate(text.split("\n")[:-2], 1):
        where = f"line {number}: {line!r}: "
        if line.startswith("#"):
            meta = META.fullmatch(line)
            if not meta:
                raise Invalid(where + "no TYPE, UNIT or HELP")
            kind, name, value = meta[1], meta[2], meta[3] or ""
            if name != family.name:
                if name in families:
                    raise Invalid(where + "the family is interleaved with another one")
                family = families[name] = Family(name)
                last_labels, seen = None, set()
            if kind in family.meta or family.samples:
                raise Invalid(where + "twice, or behind samples")
            family.meta.add(kind)
            if kind == "TYPE":
                if value not in SUFFIXES:
                    raise Invalid(where + "unknown type")
                family.type = value
            if kind == "UNIT" and not name.endswith("_" + value):
                raise Invalid(where + "the name does not end with the unit")
            continue
        match = SAMPLE.fullmatch(line)
        if not match:
            raise Invalid(where + "no sample")
        if not family.owns(match[1]):
            raise Invalid(where + "a sample of no family, or with a wrong suffix")
        pairs = [tuple(pair.split("=", 1)) for pair in re.findall(LABEL, match[2] or "")]
        labels = {key: value[1:-1] for key, value in pairs}
        if len(labels) != len(pairs):
            raise Invalid(where + "a label twice")
        key = (match[1], frozenset(labels.items()))
        if key in samples:
            raise Invalid(where + "a sample twice")
        rest = frozenset((k, v) for k, v in labels.items() if k != "le")
        if rest != last_labels and rest in seen:
            raise Invalid(where + "samples of two metrics are interleaved")
        last_labels = rest
        seen.add(rest)
        samples[key] = float(match[3])
        family.samples.append((match[1], labels, float(match[3])))
    for each in families.values():
        each.check()
    return samples


def total(samples: Samples, name: str, **wanted: str) -> float:
    """The sum of the samples of a name with these labels."""
    return sum(
        value
        for (sample, labels), value in samples.items()
        if sample == name and wanted.items() <= dict(labels).items()
    )


if __name__ == "__main__":
    for path in sys.argv[1:]:
        try:
            parse(pathlib.Path(path).read_text())
        except Invalid as failure:
            sys.exit(f"{path}: {failure}")
