"""Finds the functions of src/. A test names a function, and a place in it, so that it does not
depend on the file of the function or on other text in it.

A key is FUNCTION, or PREFIX/FUNCTION if static functions of several files have the same name.
PREFIX is a folder or a file of the path.
"""

import os
import re

COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
# Attributes of locks (src/base/attributes.h), which may follow a function's parameters.
LOCKS = {
    "DF_CAPABILITY",
    "DF_GUARDED_BY",
    "DF_PT_GUARDED_BY",
    "DF_REQUIRES",
    "DF_ACQUIRE",
    "DF_TRY_ACQUIRE",
    "DF_RELEASE",
    "DF_EXCLUDES",
    "DF_ASSERT_CAPABILITY",
}
NO_NAMES = LOCKS | {
    "__attribute__",
    "__launch_bounds__",
    "__align__",
    "DF_ALIGNED",
    "alignas",
    "_Alignas",
    "static_assert",
    "_Static_assert",
    "defined",
}


class NotFound(Exception):
    """A function or a place does not exist, or exists more than once."""


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def code_of(text):
    """The text, of the same length, with blanks in the place of comments and quoted strings."""
    return COMMENT_OR_TEXT.sub(blank, text)


def closing(code, at):
    """The position at which the bracket that opens at this position is closed."""
    pairs, depth = {"(": ")", "{": "}", "[": "]"}, []
    for match in re.compile(r"[(){}\[\]]").finditer(code, at):
        if match[0] in pairs:
            depth.append(pairs[match[0]])
        elif depth and depth[-1] == match[0]:
            depth.pop()
            if not depth:
                return match.start()
        else:
            break
    raise NotFound("brackets do not fit at character %d" % at)


class Function:
    def __init__(self, name, path, start, body, end):
        self.name, self.path = name, path
        self.start, self.body, self.end = (
            start,
            body,
            end,
        )  # positions: of the head; after the {, -1 for the call of a macro; after the }


def functions_of(text, path):
    """The functions of one file, and the calls of macros outside them, which may define
    functions."""
    code, found, at, head = DIRECTIVE.sub(blank, code_of(text)), [], 0, None
    while match := re.compile(r"[(){};]|[A-Za-z_]\w*").search(code, at):
        at = match.end()
        if WORD.fullmatch(match[0]):
            follows = re.compile(r"\s*\(").match(code, at)
            if follows:
                at = closing(code, follows.end() - 1) + 1
                if match[0] not in NO_NAMES:
                    head = Function(match[0], path, match.start(), -1, at)
                    found.append(head)
        elif match[0] == "{":
            if code[: match.start()].rstrip().endswith("extern"):  # "C"
                continue
            at = closing(code, match.start()) + 1
            between = code[head.end : match.start()] if head else ""
            if head and re.fullmatch(r"\s*((__attribute__|DF_[A-Z_]+)\b.*)?", between, re.S):
                head.body, head.end = match.end(), at
            head = None
        else:
            head = None
    return [
        function
        for function in found
        if function.body >= 0 or re.match(r"\s*(\n|$)", code[function.end :])
    ]


class Sources:
    """All files of src/, or given texts, by their path below ROOT."""

    def __init__(self, root, texts=None):
        self.texts = texts or {}
        for folder, _, files in os.walk(os.path.join(root, "src")) if texts is None else ():
            for file in files:
                if file.endswith((".c", ".h", ".cu")):
                    path = os.path.join(folder, file)
                    with open(path, encoding="utf-8") as opened:
                        self.texts[os.path.relpath(path, root)] = opened.read()
        self.by_path = {path: functions_of(text, path) for path, text in self.texts.items()}
        self.by_name = {}
        for path in sorted(self.by_path):
            for function in self.by_path[path]:
                self.by_name.setdefault(function.name, []).append(function)

    def lines_of(self, function):
        """The numbers of the lines of a function, from the line with its name. The first line is
        1."""
        text = self.texts[function.path]
        first = text.count("\n", 0, function.start) + 1
        return range(first, first + text.count("\n", function.start, function.end) + 1)

    def find(self, key):
        """All definitions of this function. Several definitions in one file are for different
        compilers (#if). If several files have one, the key must name the file."""
        prefix, _, name = key.rpartition("/")
        found = [
            function
            for function in self.by_name.get(name, [])
            if not prefix or prefix in function.path.split("/")
        ]
        paths = sorted({function.path for function in found})
        if not found:
            raise NotFound("no function %s in src/" % key)
        if len(paths) > 1:
            raise NotFound(
                "%s is a function of %s: name it FOLDER/%s or FILE/%s"
                % (key, " and ".join(paths), name, name)
            )
        return found


class Place:
    """The text of a file from start to end, to which an anchor refers."""

    def __init__(self, path, start, end, **parts):
        self.path, self.start, self.end, self.parts = path, start, end, parts


def find_place(sources, key, anchor):
    """The only place of this anchor in the function:

    {              the beginning of its body
    NAME           the call of NAME, also through a pointer (context->ops->NAME)
    NAME WORD      the call of NAME whose arguments have this word
    .MEMBER        the access to this member, with the expression before it and its index
    if WORD        the condition of the if that has this word
    """
    places = [
        place
        for function in sources.find(key)
        for place in places_in(sources.texts[function.path], function, anchor)
    ]
    if len(places) != 1:
        raise NotFound(
            "%s has %s: %s" % (key, "%d places" % len(places) if places else "no place", anchor)
        )
    return places[0]


def places_in(text, function, anchor):
    code = code_of(text)
    name, _, word = anchor.partition(" ")
    body = code[: function.end]

    def matches(pattern):
        return re.compile(pattern).finditer(body, function.body)

    if anchor == "{":
        yield Place(function.path, function.body, function.body)
    elif name == "if":
        for match in matches(r"\bif \("):
            end = closing(code, match.end() - 1)
            if word in WORD.findall(code[match.end() : end]):
                yield Place(function.path, match.end(), end)
    elif name.startswith("."):
        for match in matches(r"\w+(?:(?:->|\.)\w+)*(?:->|\.)%s\b" % re.escape(name[1:])):
            end = match.end()
            while code[end] == "[":
                end = closing(code, end) + 1
            yield Place(function.path, match.start(), end)
    else:
        for match in matches(r"(?<![\w.>])(?:\w+(?:->|\.))*%s\(" % re.escape(name)):
            end = closing(code, match.end() - 1)
            if not word or word in WORD.findall(code[match.end() : end]):
                yield Place(
                    function.path,
                    match.start(),
                    end + 1,
                    NAME=text[match.start() : match.end() - 1],
                    ARGUMENTS=text[match.end() : end],
                )
