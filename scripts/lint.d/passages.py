"""Finds the prose of a file: comments, documents, help texts and messages.

A passage is a text that a person reads in one go, such as a comment, a paragraph or a table cell.
Code inside a passage (in backticks) is replaced by letters x, so that a check of words does not
read it.
"""

import ast
import bisect
import io
import re
import tokenize
from collections.abc import Iterator

MESSAGE_WORDS = 3  # a string of fewer words is a name or a key, not a message


class Passage:
    """Text with the line number of each of its characters. `kind` is comment, message, paragraph,
    heading or cell."""

    def __init__(self, kind: str, pieces: list[tuple[int, str]]) -> None:
        self.kind = kind
        self.text = ""
        self.starts: list[int] = []
        self.numbers: list[int] = []
        for number, text in pieces:
            self.starts.append(len(self.text))
            self.numbers.append(number)
            self.text += text + " "
        self.text = re.sub(r"`[^`]*`", lambda code: "x" * len(code[0]), self.text)

    def line_at(self, offset: int) -> int:
        return self.numbers[bisect.bisect_right(self.starts, offset) - 1]


def is_message(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= MESSAGE_WORDS and " " in text


# ---- C, C++ and CUDA

C_TOKEN = re.compile(
    r"""(?P<block>/\*.*?\*/) | (?P<line>//[^\n]*) | (?P<text>"(?:\\.|[^"\\\n])*")
    | (?P<char>'(?:\\.|[^'\\\n])*')""",
    re.S | re.X,
)


def comment_lines(text: str, number: int) -> list[tuple[int, str]]:
    """The lines of a comment of C without their decoration: slashes, stars and dashes."""
    text = re.sub(r"^(/\*+|//+)|\*/$", "", text)
    lines = [re.sub(r"^\s*\*?\s?|\s+$", "", line) for line in text.split("\n")]
    return [(number + i, re.sub(r"^-+\s*|\s*-+$", "", line)) for i, line in enumerate(lines)]


def c_passages(text: str, with_messages: bool) -> Iterator[Passage]:
    """Comments, and unless `with_messages` is false also strings. Adjacent strings are one
    message."""
    message: list[tuple[int, str]] = []
    lines: list[tuple[int, str]] = []  # successive comments of the form //
    end, number = 0, 1
    for token in C_TOKEN.finditer(text):
        between = text[end : token.start()]
        number += between.count("\n")
        joins = re.fullmatch(r"(\s|\\\n|\bPRI\w+)*", between) is not None
        if message and not (joins and token["text"]):
            yield from messages(message)
            message = []
        if lines and not (token["line"] and between.strip() == "" and between.count("\n") == 1):
            yield Passage("comment", lines)
            lines = []
        if token["block"]:
            yield Passage("comment", comment_lines(token["block"], number))
        elif token["line"]:
            lines += comment_lines(token["line"], number)
        elif token["text"] and with_messages:
            message.append((number, unescaped(token["text"][1:-1])))
        number += token[0].count("\n")
        end = token.end()
    yield from messages(message)
    if lines:
        yield Passage("comment", lines)


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": " "}.get(match[1], match[1]), text)


def messages(pieces: list[tuple[int, str]]) -> Iterator[Passage]:
    if pieces and is_message("".join(text for _, text in pieces)):
        # A string that ends inside a word or a sentence goes on in the next string without a blank.
        passage = Passage("message", [])
        for number, text in pieces:
            passage.starts.append(len(passage.text))
            passage.numbers.append(number)
            passage.text += text
        yield passage


def c_code(text: str) -> str:
    """The text, of the same length, with blanks in the place of comments and strings."""
    return C_TOKEN.sub(lambda token: re.sub(r"[^\n]", " ", token[0]), text)


# ---- Python


def python_comments(text: str) -> Iterator[Passage]:
    lines: list[tuple[int, str]] = []
    alone = False  # whether the last comment has a line of its own
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or token.string.startswith("#!"):
            continue
        number, has_channel = token.start[0], token.line.lstrip().startswith("#")
        if lines and not (alone and has_channel and lines[-1][0] == number - 1):
            yield Passage("comment", lines)
            lines = []
        lines.append((number, re.sub(r"^#+\s?(-+\s*)?", "", token.string)))
        alone = has_channel
    if lines:
        yield Passage("comment", lines)


def constant_text(node: ast.AST) -> str:
    """The text of a string, an f-string or a sum of them, with an x for each value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(constant_text(part) or "x" for part in node.values)
    if isinstance(node, ast.BinOp):
        return constant_text(node.left) + constant_text(node.right)
    return ""


def lines_of(node: ast.expr, text: str) -> list[tuple[int, str]]:
    """The lines of a text. In a string of several lines each has a number of its own."""
    lines = text.split("\n")
    one_each = node.end_lineno is not None and node.end_lineno - node.lineno + 1 >= len(lines)
    return [(node.lineno + (i if one_each else 0), line) for i, line in enumerate(lines)]


SPOKEN = {"ArgumentParser", "add_argument", "add_parser", "error", "exit", "fail", "print", "warn"}


def python_passages(text: str) -> Iterator[Passage]:
    """Comments, docstrings, help texts, texts of exceptions and texts that a program prints."""
    yield from python_comments(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                value = first.value.value
                if isinstance(value, str):
                    yield from paragraphs("comment", lines_of(first.value, value))
            continue
        call = node.exc if isinstance(node, ast.Raise) else node
        if isinstance(call, ast.Call):
            name = (
                call.func.attr
                if isinstance(call.func, ast.Attribute)
                else getattr(call.func, "id", "")
            )
            if isinstance(node, ast.Raise) or name in SPOKEN:
                for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
                    said = constant_text(argument)
                    if is_message(said):
                        yield Passage("message", lines_of(argument, said))


def paragraphs(kind: str, lines: list[tuple[int, str]]) -> Iterator[Passage]:
    """Passages that empty lines part. Indented lines after an empty line are code, except in a
    docstring's body."""
    current: list[tuple[int, str]] = []
    for number, line in [*lines, (0, "")]:
        if line.strip():
            current.append((number, line.strip()))
        elif current:
            yield Passage(kind, current)
            current = []


# ---- shell and meson

HERE_DOCUMENT = re.compile(r"<<(-?)\s*(['\"]?)(\w+)\2")
SHELL_MESSAGE = re.compile(
    r"(?:^|[;&|{(]|\bthen|\belse|\bdo)\s*(?:echo|printf|say|die|fail|skip|not_ok|usage)\s(.*)"
)


def hash_comments(text: str, is_shell: bool) -> Iterator[Passage]:
    """Comments that begin with #, outside quotes. In a here document a comment has a line of its
    own."""
    lines: list[tuple[int, str]] = []
    alone, quote, delimiter = False, "", ""
    for number, line in enumerate(text.split("\n"), 1):
        comment, is_alone = "", line.lstrip().startswith("#")
        if delimiter:
            if line.strip() == delimiter:
                delimiter = ""
            elif is_alone:
                comment = line.strip()
        else:
            at, quote = comment_start(line, quote, is_shell)
            code = line if at < 0 else line[:at]
            comment = "" if at < 0 else line[at:]
            started = HERE_DOCUMENT.search(code) if is_shell and not quote else None
            delimiter = started[3] if started and "<<<" not in code else ""
        if comment.startswith("#!"):
            comment = ""
        if lines and not (comment and alone and is_alone):
            yield Passage("comment", lines)
            lines = []
        if comment:
            lines.append((number, re.sub(r"^#+\s?(-+\s*)?", "", comment)))
            if lines[-1][1].strip() == "":  # an empty line of a comment parts paragraphs
                lines.pop()
                if lines:
                    yield Passage("comment", lines)
                    lines = []
        alone = is_alone
    if lines:
        yield Passage("comment", lines)


def comment_start(line: str, quote: str, is_shell: bool) -> tuple[int, str]:
    """The position of the comment of a line, -1 if there is none, and the quote that is open at its
    end."""
    i = 0
    while i < len(line):
        char = line[i]
        if quote:
            if char == "\\" and (quote == '"' or not is_shell):
                i += 1
            elif char == quote:
                quote = ""
        elif char == "\\":
            i += 1
        elif char in "'\"":
            quote = char
        elif char == "#" and (i == 0 or line[i - 1] in " \t;(" or not is_shell):
            return i, quote
        i += 1
    return -1, quote


def shell_passages(text: str) -> Iterator[Passage]:
    yield from hash_comments(text, is_shell=True)
    for number, line in enumerate(text.split("\n"), 1):
        said = SHELL_MESSAGE.search(line)
        for _, words in re.findall(r"(['\"])(.*?)\1", said[1]) if said else ():
            if is_message(words):
                yield Passage(
                    "message", [(number, re.sub(r"\$\(.*?\)|\$\{.*?\}|\$\w+", "x", words))]
                )


def meson_passages(text: str) -> Iterator[Passage]:
    yield from hash_comments(text, is_shell=False)
    for match in re.finditer(r"(?:description\s*:|error\(|warning\()\s*'((?:\\.|[^'\\])*)'", text):
        yield Passage("message", [(text.count("\n", 0, match.start()) + 1, match[1])])


# ---- Markdown


def without_markup(line: str) -> str:
    """The words of a line: no targets of links, no emphasis, no HTML comment, and x for inline
    code."""
    line = re.sub(r"<!--.*?(-->|$)", "", line)
    line = re.sub(r"`[^`]*`", lambda code: "x" * len(code[0]), line)
    line = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", line)
    return re.sub(r"\*\*|__", "", line)


def markdown_passages(text: str) -> Iterator[Passage]:
    current: list[tuple[int, str]] = []
    fence, was_blank, is_code = "", True, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        stripped = line.strip()
        if fence or stripped.startswith(("```", "~~~")):
            fence = "" if fence and stripped.startswith(fence) else fence or stripped[:3]
            stripped = ""
        is_code = line.startswith("    ") and (was_blank or is_code) and not current
        is_item = re.match(r"\s*([-*+]|\d+\.)\s+", line)
        is_single = stripped.startswith(("#", "|"))
        if current and (not stripped or is_item or is_single):
            yield Passage("paragraph", current)
            current = []
        was_blank = not stripped
        if not stripped or is_code:
            continue
        if stripped.startswith("#"):
            yield Passage("heading", [(number, without_markup(stripped.lstrip("# ")))])
        elif stripped.startswith("|"):
            for cell in without_markup(stripped).strip("|").split("|"):
                if re.search(r"[A-Za-z]", cell):
                    yield Passage("cell", [(number, cell.strip())])
        else:
            words = line[is_item.end() :] if is_item else stripped
            current.append((number, without_markup(words)))


def passages(kind: str, path: str, text: str) -> Iterator[Passage]:
    """The passages of a file of this kind. Strings of tests are test data, not messages."""
    if kind in ("c", "model"):
        yield from c_passages(text, with_messages=not path.startswith("tests/"))
    elif kind == "python":
        yield from python_passages(text)
    elif kind == "shell":
        yield from shell_passages(text)
    elif kind == "meson":
        yield from meson_passages(text)
    else:
        yield from markdown_passages(text)
