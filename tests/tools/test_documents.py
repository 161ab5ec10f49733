#!/usr/bin/env python3
"""Promise: every link of the documents leads to an existing file and heading, every path of the
sources that they name exists, and their lines have at most 120 columns, those of tables 200.
test_documents.py ROOT"""

import pathlib
import re
import sys

COLUMNS, TABLE_COLUMNS = 120, 200
ROOMS = "src|tests|scripts|bench|simulator|traces|examples|include|docs"


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(path):
    return {anchor(heading.strip()) for heading in re.findall(r"^#+ (.*)$", path.read_text(), re.M)}


def links(path, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, heading = target.partition("#")
        if name.startswith("http"):
            continue
        file = path.parent / name if name else path
        if not file.exists():
            yield f"links to {target}, which is not there"
        elif heading and heading not in anchors(file):
            yield f"links to {target}: there is no such heading"


def paths(root, text):
    for name in re.findall(rf"`((?:{ROOMS})/[\w./-]+)`", text):
        program = root / (name + ".c")
        if not re.search(r"[A-Z]{4}", name) and not (root / name).exists() and not program.exists():
            yield f"names {name}, which is not there"


def columns(text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > (TABLE_COLUMNS if line.startswith("|") else COLUMNS):
            yield f"line {number} has {len(line)} columns"


def main():
    root = pathlib.Path(sys.argv[1])
    notes = sorted((root / "bench" / "results" / "notes").glob("*.md"))
    documents = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    bad = []
    documents += [path for path in sorted(root.glob("*.md")) if path.name != "README.md"]
    for path in documents + notes:
        text = path.read_text()
        found = [*links(path, text), *columns(text)]
        if path in documents:  # notes describe the sources of their date
            found += paths(root, text)
        bad += [f"{path.relative_to(root)}: {sentence}" for sentence in dict.fromkeys(found)]
    print("\n".join(bad) if bad else f"{len(documents)} documents and {len(notes)} notes are right")
    return 1 if bad or len(documents) < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
