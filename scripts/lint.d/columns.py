#!/usr/bin/env python3
"""Checks the lengths and the ends of lines: columns.py [--fix] [PATH...]

A line of a source has at most 100 columns, one of a document 120, a row of a table 200. A line that
holds one long word, such as an address, may be longer. No line ends in blanks, and a file ends with
one newline. With --fix, the blanks and the last newlines are mended. An exception has its reason in
a comment on the line or on the line before:

    lint: allow(columns) reason          lint: allow-file(columns) reason, for the whole file
"""

import os
import re
import sys

import files

SOURCE, DOCUMENT, TABLE = 100, 120, 200
EXCEPTION = re.compile(r"lint: allow\(columns\)[ \t]+\w")
FILE_EXCEPTION = re.compile(r"lint: allow-file\(columns\)[ \t]+\w")


def most_columns(kind: str, line: str) -> int:
    if kind == "prose":
        return TABLE if line.startswith("|") else DOCUMENT
    return SOURCE


def is_one_word(line: str) -> bool:
    """Whether a break of the line would still leave a part that is nearly as long."""
    return max(map(len, line.split()), default=0) > SOURCE - 20


def findings(kind: str, text: str) -> list[tuple[int, str]]:
    found, lines = [], text.split("\n")
    every_length = FILE_EXCEPTION.search(text) is not None
    for number, line in enumerate(lines, 1):
        most, width = most_columns(kind, line), len(line.expandtabs(8))
        excepted = every_length or any(
            EXCEPTION.search(near) for near in lines[max(number - 2, 0) : number]
        )
        if width > most and not excepted and not is_one_word(line):
            found.append((number, f"the line has {width} columns, the limit is {most}"))
        if re.search(r"[ \t\r]$", line):
            found.append((number, "the line ends in blanks"))
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        found.append((len(lines), "the file does not end with exactly one newline"))
    return found


def mended(text: str) -> str:
    text = re.sub(r"[ \t\r]+$", "", text, flags=re.M)
    return text.rstrip("\n") + "\n" if text.strip() else ""


def main() -> int:
    wanted = [word for word in sys.argv[1:] if word != "--fix"]
    paths = files.files_of(os.getcwd(), "text", wanted)
    count = 0
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        if "--fix" in sys.argv and mended(text) != text:
            text = mended(text)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        for number, message in findings(files.kind_of(os.getcwd(), path), text):
            count += 1
            print(f"{path}:{number}: {message}")
    print(len(paths), file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
