#!/usr/bin/env python3
"""Promise: docs/WIRE_PROTOCOL.md has the protocol's number, each kind of message and of frame with
its number, and the lengths of the rendezvous' messages, as the headers have them.
test_wire_protocol.py ROOT"""

import pathlib
import re
import sys

DOCUMENT = "docs/WIRE_PROTOCOL.md"
HANDSHAKE = "src/bootstrap/rendezvous/handshake.h"


def enumerators(text: str, prefix: str) -> dict[str, int]:
    """The first enum whose names begin with the prefix: names without it, and their values."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    body = next(
        b for b in re.findall(r"enum \{(.*?)\}", text, re.S) if b.split()[0].startswith(prefix)
    )
    found, value = {}, -1
    for name, given in re.findall(rf"{prefix}(\w+)(?:\s*=\s*(\w+))?\s*(?=,|$|\n)", body):
        value = int(given, 0) if given else value + 1
        found[name] = value
    return found


def rows(text: str, heading: str) -> dict[str, int]:
    """Rows | number | NAME | of the tables below a heading."""
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert section, heading
    found = re.findall(r"^\| `?(\w+)`? \| ([A-Z_]+) \|", section[1], re.M)
    return {name: int(number, 0) for number, name in found}


def compare(what: str, documented: dict[str, int], real: dict[str, int]) -> list[str]:
    wrong = []
    for name in sorted(documented.keys() | real.keys()):
        if documented.get(name) != real.get(name):
            there, here = documented.get(name, "missing"), real.get(name, "missing")
            wrong.append(f"{what} {name}: {DOCUMENT} has {there}, the header has {here}")
    return wrong


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    text, handshake = (root / DOCUMENT).read_text(), (root / HANDSHAKE).read_text()
    control = enumerators((root / "src/control/message.h").read_text(), "DF_MESSAGE_")
    frames = enumerators((root / "src/transports/net/pump/frame.h").read_text(), "DF_FRAME_")
    for end in ("KINDS", "BEYOND", "IS_AWAITED"):
        control.pop(end, None)
        frames.pop(end, None)
    joining = rows(text, "Rendezvous") | rows(text, "Mesh handshake")
    wrong = compare("message of the rendezvous", joining, enumerators(handshake, "DF_MESSAGE_"))
    wrong += compare("control message", rows(text, "Control messages"), control)
    wrong += compare("frame", rows(text, "Frames"), frames)
    number = re.search(r"DF_PROTOCOL = (\d+)", handshake)
    documented = re.search(r"protocol's number,\s+(\d+) at\s+present", text)
    if not number or not documented or number[1] != documented[1]:
        wrong.append(f"{DOCUMENT} and {HANDSHAKE} have different numbers of the protocol")
    sizes = set(re.findall(r"== (\d+), \"[\w ]+ (?:has|have) no padding\"", handshake))
    named = (
        set(re.findall(r"\| (\d+) \| ", text)) | set(re.findall(r"\((\d+) bytes\)", text)) | {"16"}
    )
    wrong += [f"{DOCUMENT} has no message of {size} bytes" for size in sorted(sizes - named)]
    print(
        "\n".join(wrong)
        if wrong
        else f"{len(joining) + len(control) + len(frames)} kinds are right"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
