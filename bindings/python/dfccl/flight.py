"""Flight recorder dumps as JSON, and as pickles.

    python -m dfccl.flight to-json FILE... [-o FOLDER]
    python -m dfccl.flight to-pickle FILE... [-o FOLDER]

torch writes its dumps as pickles, and unpickling can execute arbitrary code. This module does not
unpickle: it reads only the opcodes that plain values need, and refuses any other one with its
position.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import pickletools
import sys
from collections.abc import Sequence
from typing import Any

MOST_BYTES = 512 << 20  # largest dump, and largest input of dfccl-sim check
_MOST_VALUES = (
    50_000_000  # shared values count each time, because a small pickle can expand to a huge text
)

_mark = object()
_numbers_and_texts = {
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINFLOAT",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
}
_constants = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_short_tuples = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Refused(ValueError):
    """A dump is invalid. The text has the reason and the position."""


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def _pop(self, count: int) -> list[Any]:
        """Takes the topmost values of the stack; a mark among them is an error."""
        values = self.stack[len(self.stack) - count :] if count else []
        if len(values) < count or any(value is _mark for value in values):
            raise Refused("a value is missing")
        del self.stack[len(self.stack) - count :]
        return values

    def _pop_to_mark(self) -> list[Any]:
        count = 0
        while count < len(self.stack) and self.stack[-1 - count] is not _mark:
            count += 1
        if count == len(self.stack):
            raise Refused("a mark is missing")
        values = self._pop(count)
        self.stack.pop()
        return values

    def _top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise Refused(f"a {kind.__name__} is missing")
        return self.stack[-1]

    def _set(self, items: list[Any]) -> None:
        into = self._top(dict)
        if len(items) % 2 or not all(isinstance(key, str) for key in items[::2]):
            raise Refused("a key that is not a text")
        into.update(zip(items[::2], items[1::2]))

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _numbers_and_texts:
            stack.append(argument)
        elif name in _constants:
            stack.append(_constants[name])
        elif name == "MARK":
            stack.append(_mark)
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name in _short_tuples:
            stack.append(tuple(self._pop(_short_tuples[name])))
        elif name == "TUPLE":
            stack.append(tuple(self._pop_to_mark()))
        elif name == "APPEND":
            (value,) = self._pop(1)
            self._top(list).append(value)
        elif name == "APPENDS":
            values = self._pop_to_mark()
            self._top(list).extend(values)
        elif name == "SETITEM":
            self._set(self._pop(2))
        elif name == "SETITEMS":
            self._set(self._pop_to_mark())
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self._top(object)
        elif name in ("BINGET", "LONG_BINGET"):
            if argument not in self.memo:
                raise Refused(f"number {argument} was not put aside before")
            stack.append(self.memo[argument])
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise Refused(f"the opcode {name}, which plain values do not need")


def _check_size(value: Any) -> None:
    """Refuses a value that contains itself, or that is too long as a text."""
    sizes: dict[int, int] = {}
    open_ones: set[int] = set()
    stack = [(value, False)]
    while stack:
        each, done = stack.pop()
        children = list(each.values()) if isinstance(each, dict) else each
        if done:
            open_ones.discard(id(each))
            sizes[id(each)] = 1 + sum(sizes.get(id(child), 1) for child in children)
            if sizes[id(each)] > _MOST_VALUES:
                raise Refused(f"more than {_MOST_VALUES} values")
        elif isinstance(each, (dict, list, tuple)) and id(each) not in sizes:
            if id(each) in open_ones:
                raise Refused("a value that contains itself")
            open_ones.add(id(each))
            stack.append((each, True))
            stack.extend(
                (child, False) for child in children if isinstance(child, (dict, list, tuple))
            )


def read(data: bytes) -> dict[str, Any]:
    """The value of a pickle of plain values. Executes no code of the pickle; raises Refused."""
    machine, place = _Machine(), 0
    at: int | None
    try:
        for opcode, argument, at in pickletools.genops(data):
            place = at or 0
            machine.step(opcode.name, argument)
    except Refused as failure:
        raise Refused(f"byte {place}: {failure}") from None
    except Exception as failure:  # pickletools: the data is no pickle, or is truncated
        raise Refused(f"after byte {place}: {failure}") from None
    if len(machine.stack) != 1 or not isinstance(machine.stack[0], dict):
        raise Refused("not one dictionary")
    _check_size(machine.stack[0])
    return machine.stack[0]


def to_json(source: str, target: str) -> None:
    with open(source, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Refused(f"longer than {MOST_BYTES >> 20} MiB")
    text = json.dumps(read(data))
    with open(target, "w") as file:
        file.write(text)


def to_pickle(source: str, folder: str) -> None:
    """Writes rank_R for torch's analyser. source: a dump as JSON that has its rank, as DFCCL writes
    them."""
    with open(source, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Refused(f"longer than {MOST_BYTES >> 20} MiB")
    try:
        dump = json.loads(data)
    except ValueError as failure:
        raise Refused(f"no JSON: {failure}") from None
    if not isinstance(dump, dict) or not isinstance(dump.get("rank"), int):
        raise Refused("no dump of DFCCL: it has no rank")
    with open(os.path.join(folder, f"rank_{dump['rank']}"), "wb") as file:
        pickle.dump(dump, file)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dfccl.flight", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("command", choices=["to-json", "to-pickle"])
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="to-json: a dump that torch's flight recorder has pickled; "
        "to-pickle: a file of DFCCL_FLIGHT",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="where FILE.json, or rank_R, is written; beside FILE if not given",
    )
    options = parser.parse_args(arguments)
    for source in options.files:
        folder = options.output if options.output is not None else os.path.dirname(source)
        try:
            if options.command == "to-pickle":
                to_pickle(source, folder)
            else:
                to_json(source, os.path.join(folder, os.path.basename(source) + ".json"))
        except (Refused, OSError) as failure:
            print(f"dfccl.flight: {source}: {failure}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
