#!/usr/bin/env python3
"""Checks the words of comments, documents, help texts and messages: words.py [PATH...]

A finding is one of:

- a sentence, a comment, a heading or a table cell that begins with a word of OPENINGS;
- a heading that is a question;
- a word or a phrase of words.txt, which stands beside this program and names the replacement;
- an exception that has no reason, or that excepts nothing.

An exception stands in a comment on the line of the finding or on the line before, and names the
word:

    lint: allow(WORD) reason          lint: allow-file(WORD) reason, for the whole file

WORD is the text that was found; "opening", "heading" or "words" stands for all findings of that
sort.
"""

import collections
import os
import re
import sys

import files
import passages

OPENINGS = "Of|What|Who|Whoever|Else"
# A sentence in the middle of a passage follows a full stop, a question mark or an exclamation mark.
SENTENCE_START = re.compile(rf"[.!?][)\"']?\s+(?P<word>{OPENINGS})(?![\w-])")
PASSAGE_START = re.compile(rf"\s*(?:\[[\w ]+\]\s*)*(?P<word>{OPENINGS})(?![\w-])", re.I)
EXCEPTION = re.compile(
    r"lint: (allow|allow-file)\(([^)]*)\)[ \t]*([^\n]*?)[ \t]*(?=\*/|-->|\"\"\"|\n|$)"
)

Finding = tuple[
    int, str, str, str
]  # line, sort (opening, heading, words), the text found, the message


class Rule:
    """A line of words.txt: a regular expression and its replacement."""

    def __init__(self, pattern: str, replacement: str, is_code: bool) -> None:
        self.pattern, self.replacement, self.is_code = pattern, replacement, is_code
        if is_code:
            self.regex = re.compile(rf"\b(?:{pattern})")
        else:
            # A word with a folder before it or an ending behind it is the name of a file.
            self.regex = re.compile(rf"(?<![\w/.\"-])(?:{pattern})(?![\w/]|\.\w|-\w)", re.I)


def read_rules(path: str) -> list[Rule]:
    rules, is_code = [], False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if line in ("[prose]", "[code]"):
                is_code = line == "[code]"
            elif line and not line.startswith("#"):
                pattern, arrow, replacement = line.partition(" -> ")
                if not arrow:
                    sys.exit(f"{path}:{number}: a line has the form: PATTERN -> REPLACEMENT")
                rules.append(
                    Rule(pattern.strip().replace(" ", r"\s+"), replacement.strip(), is_code)
                )
    return rules


def opening_findings(passage: passages.Passage) -> list[Finding]:
    found = []
    first = PASSAGE_START.match(passage.text)
    # A table cell or a message that begins with a small letter is a part of a sentence.
    if first and (
        passage.kind in ("comment", "paragraph", "heading") or first["word"][0].isupper()
    ):
        found.append(first)
    found += SENTENCE_START.finditer(passage.text)
    found = [match for match in found if not match["word"].isupper()]  # the name of an argument
    return [
        (
            passage.line_at(match.start("word")),
            "opening",
            match["word"],
            f'a sentence begins with "{match["word"]}": begin with the noun',
        )
        for match in found
    ]


def heading_findings(passage: passages.Passage) -> list[Finding]:
    if passage.kind == "heading" and passage.text.strip().endswith("?"):
        return [(passage.numbers[0], "heading", "?", "a heading is a question: use a noun phrase")]
    return []


def word_findings(passage: passages.Passage, rules: list[Rule]) -> list[Finding]:
    return [
        (
            passage.line_at(match.start()),
            "words",
            re.sub(r"\s+", " ", match[0]),
            f'"{re.sub(r"[ ]+", " ", match[0])}": write {rule.replacement}'.replace("\n", " "),
        )
        for rule in rules
        if not rule.is_code
        for match in rule.regex.finditer(passage.text)
        if not match[0].isupper()
    ]


def code_findings(text: str, rules: list[Rule]) -> list[Finding]:
    """The first use in the file of each replaced name."""
    code = passages.c_code(text)
    found: dict[str, Finding] = {}
    for rule in rules:
        for match in rule.regex.finditer(code) if rule.is_code else ():
            name = re.match(r"\w+", code[match.start() :])
            word = name[0] if name else match[0]
            line = code.count("\n", 0, match.start()) + 1
            found.setdefault(word, (line, "words", word, f"{word}: use {rule.replacement}"))
    return list(found.values())


class Exceptions:
    """The exceptions of a file, and which of them were needed."""

    def __init__(self, text: str) -> None:
        self.marks: list[tuple[int, bool, str, str]] = []  # line, for the file, word, reason
        for number, line in enumerate(text.split("\n"), 1):
            for mark in EXCEPTION.finditer(line):
                for word in mark[2].split(",") if mark[2] != "WORD" else ():  # WORD: a description
                    self.marks.append((number, mark[1] == "allow-file", word.strip(), mark[3]))
        self.used: set[int] = set()

    def allows(self, finding: Finding) -> bool:
        line, sort, word, _ = finding
        for i, (number, for_file, name, reason) in enumerate(self.marks):
            named = name == sort or name.lower() == word.lower()
            if named and reason and (for_file or number in (line - 1, line)):
                self.used.add(i)
                return True
        return False

    def findings(self) -> list[Finding]:
        found = []
        for i, (number, _, name, reason) in enumerate(self.marks):
            if name == "columns":  # columns.py reads these
                continue
            if not reason:
                found.append(
                    (number, "exception", name, f"the exception allow({name}) has no reason")
                )
            elif i not in self.used:
                found.append(
                    (number, "exception", name, f"the exception allow({name}) excepts nothing")
                )
        return found


def check(kind: str, path: str, text: str, rules: list[Rule]) -> list[Finding]:
    exceptions = Exceptions(text)
    found: list[Finding] = []
    for passage in passages.passages(kind, path, EXCEPTION.sub("", text)):
        found += (
            opening_findings(passage) + heading_findings(passage) + word_findings(passage, rules)
        )
    if kind == "c":
        found += code_findings(text, rules)
    kept = [finding for finding in found if not exceptions.allows(finding)]
    return sorted(set(kept + exceptions.findings()))


def main() -> int:
    here = os.path.dirname(os.path.abspath(__file__))
    rules = read_rules(os.path.join(here, "words.txt"))
    root, counts = os.getcwd(), collections.Counter[str]()
    paths = files.files_of(root, "text", sys.argv[1:])
    for path in paths:
        kind = files.kind_of(root, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for line, sort, _, message in check(kind, path, text, rules):
            counts[sort] += 1
            print(f"{path}:{line}: {message}")
    print(
        len(paths), *(f"{sort}:{count}" for sort, count in sorted(counts.items())), file=sys.stderr
    )
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
