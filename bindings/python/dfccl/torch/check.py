"""DFCCL_TORCH_CHECK=1: finds calls of equal signature that ranks have made in different orders.

Each collective call has a companion, which is an all-gather of hashes that identify the call on
each rank: a hash of the stack, and hashes of the variables that hold the tensor. If the calls of
two ranks at one position differ, later calls are counted. If both ranks then turn out to have made
the same calls in different orders, the calls were exchanged, and the work fails. Ranks that call
from different places on purpose (`if rank == 0: ...`) never make the same calls, and are not
reported.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .. import errors
from ..arrays import DataType
from ..collective import Collective
from .types import alive
from .works import Part

if TYPE_CHECKING:
    from .group import ProcessGroup

_ROW_BYTES = 2048  # size of each rank's part of the all-gather
_head = struct.Struct("<8s8s8sI")
_FRAMES = 12  # innermost frames of a stack that are hashed
_LOOKED_AT = 4096  # entries of a container that are searched for the tensor's names
_WINDOW = 256  # ranks that differ for so many calls are assumed to differ on purpose
_hidden = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
)


def asked() -> bool:
    value = os.environ.get("DFCCL_TORCH_CHECK", "0")
    if value not in ("0", "1"):
        raise errors.InvalidUsage(
            f"environment variable DFCCL_TORCH_CHECK is {value!r}; it takes 0 or 1"
        )
    return value == "1"


class _Row(NamedTuple):
    """Three marks that identify a call on one rank: its place in the program; the place and the
    names of the tensor; the place and the tensor's positions in lists."""

    marks: tuple[bytes, bytes, bytes]
    text: str


_PLACE, _NAMES, _INDICES = range(3)


def frames() -> Iterator[FrameType]:
    """The frames of the program, innermost first."""
    frame, count = sys._getframe(1), 0
    while frame is not None and count < _FRAMES:
        if not frame.f_code.co_filename.startswith(
            _hidden
        ) and not frame.f_code.co_filename.startswith("<frozen"):
            count += 1
            yield frame
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop


class _Holders:
    """The variables that hold a tensor, or another tensor of the same memory."""

    def __init__(self, tensor: torch.Tensor):
        self._at, self._count = tensor.data_ptr(), tensor.numel()
        self.names, self.indices = set[str](), set[str]()

    def _is_it(self, value: Any) -> bool:
        try:
            return value.data_ptr() == self._at and value.numel() == self._count
        except RuntimeError:  # the tensor has no memory
            return False

    def _look(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if self._is_it(value):
                self.names.add(name)
            elif value.is_leaf and value.grad is not None and self._is_it(value.grad):
                self.names.add(name + ".grad")

    def of(self, frame: FrameType) -> None:
        for name, value in list(frame.f_locals.items()):
            self._look(name, value)
            if isinstance(value, torch.nn.Module):
                for key, each in (*value.named_parameters(name), *value.named_buffers(name)):
                    self._look(key, each)
            elif isinstance(value, dict):
                for key, each in list(value.items())[:_LOOKED_AT]:
                    self._look(f"{name}[{key!r}]", each)
            elif isinstance(value, (list, tuple)):
                for at, each in enumerate(value[:_LOOKED_AT]):
                    if isinstance(each, torch.Tensor) and self._is_it(each):
                        self.indices.add(f"{name}[{at}]")


def _row_of(tensor: torch.Tensor) -> bytes:
    holders, place = _Holders(tensor), []
    for frame in frames():
        code = frame.f_code
        place.append(f"  {code.co_filename}:{frame.f_lineno} in {code.co_name}")
        holders.of(frame)
    names, indices = sorted(holders.names), sorted(holders.indices)

    def mark(*more: Any) -> bytes:
        return hashlib.blake2b(
            repr((place, tuple(tensor.shape), more)).encode(), digest_size=8
        ).digest()

    held = (
        ", ".join(f"`{each}`" for each in names + indices)
        or "a tensor that no variable there holds"
    )
    text = "\n".join([f"of {held}, shape {tuple(tensor.shape)}", *place]).encode()[
        : _ROW_BYTES - _head.size
    ]
    return (_head.pack(mark(), mark(names), mark(indices), len(text)) + text).ljust(
        _ROW_BYTES, b"\0"
    )


class _Seen:
    """The calls of one signature."""

    def __init__(self, collective: Collective):
        self.collective = collective
        self.rows: deque[tuple[int, torch.Tensor]] = (
            deque()
        )  # rows that are gathered or being gathered, and not yet compared
        self.differing: dict[
            tuple[int, int, int], list[tuple[int, _Row, _Row]]
        ] = {}  # key: ranks and mark


class Check:
    """The check of one process group."""

    def __init__(self, group: ProcessGroup):
        self._find_group = weakref.ref(group)
        self._seen: dict[int, _Seen] = {}
        self._lock = threading.Lock()
        self._mine = threading.local()  # companions of the operation that this thread is making

    @property
    def _group(self) -> ProcessGroup:
        return alive(self._find_group)

    def run(self, collective: Collective, tensor: torch.Tensor, submit: Callable[[], int]) -> Part:
        row = torch.frombuffer(bytearray(_row_of(tensor)), dtype=torch.uint8)
        rows = torch.empty((self._group._size, _ROW_BYTES), dtype=torch.uint8)
        companion = self._group._of(
            f"check of {collective.name}:",
            torch.uint8,
            _ROW_BYTES,
            DataType.uint8,
            None,
            None,
            None,
            "all_gather",
        )
        with self._lock:  # companions must have the order of their calls, also with several threads
            seen = self._seen.setdefault(collective.id, _Seen(collective))
            number = submit()
            beside = companion._submit(row.data_ptr(), rows.data_ptr(), 0, (row, rows))
            seen.rows.append((number, rows))
        self._mine.__dict__.setdefault("all", []).append((companion, beside, seen, number))
        return collective, number

    def joined(
        self, parts: list[Part], finish: Callable[[], Any] | None
    ) -> tuple[list[Part], Callable[[], Any] | None]:
        """The parts and the end of a work, with the companions of its runs added."""
        mine = self._mine.__dict__.pop("all", [])
        if not mine:
            return parts, finish

        def compare() -> None:
            with self._lock:
                for _, _, seen, number in mine:
                    self._compare(seen, number)
            if finish is not None:
                finish()

        return parts + [(companion, beside) for companion, beside, _, _ in mine], compare

    def _compare(self, seen: _Seen, last: int) -> None:
        """Compares all rows up to this one, which are complete, since runs end in order."""
        while seen.rows and seen.rows[0][0] <= last:
            number, gathered = seen.rows.popleft()
            rows = []
            for each in gathered.numpy():
                *marks, length = _head.unpack(each[: _head.size].tobytes())
                rows.append(
                    _Row(
                        tuple(marks),
                        each[_head.size : _head.size + length].tobytes().decode(errors="ignore"),
                    )
                )
            for one in range(len(rows)):
                for other in range(one + 1, len(rows)):
                    for mark in (_PLACE, _NAMES, _INDICES):
                        self._compare_two(seen, (one, other, mark), number, rows)

    def _compare_two(
        self, seen: _Seen, pair: tuple[int, int, int], number: int, rows: Sequence[_Row]
    ) -> None:
        one, other, mark = pair
        calls = seen.differing.get(pair)
        if calls is None and rows[one].marks[mark] == rows[other].marks[mark]:
            return
        calls = seen.differing.setdefault(pair, [])
        calls.append((number, rows[one], rows[other]))
        if Counter(each[1].marks[mark] for each in calls) == Counter(
            each[2].marks[mark] for each in calls
        ):
            del seen.differing[pair]
            named = [(first.marks[_NAMES], second.marks[_NAMES]) for _, first, second in calls]
            told_apart = len(set(named)) > 1 and all(first == second for first, second in named)
            # The names, which identify a tensor better than positions, show no exchange
            if not told_apart:
                raise errors.Mismatch(self._sentence(seen, pair, calls))
        elif len(calls) > _WINDOW:
            del seen.differing[pair]

    def _sentence(
        self, seen: _Seen, pair: tuple[int, int, int], calls: list[tuple[int, _Row, _Row]]
    ) -> str:
        one, other, mark = pair
        number, first, second = calls[0]
        again = next(at for at, _, each in calls if each.marks[mark] == first.marks[mark])
        ranks = self._group._ranks[one], self._group._ranks[other]
        return (
            "calls of equal signature were exchanged, and so was their data: "
            f"{seen.collective.name}. Call {number} of rank "
            f"{ranks[0]} met another one, call {number} of rank {ranks[1]}, which made rank "
            f"{ranks[0]}'s as its call "
            f"{again}. (Calls of a signature are counted from 0; names keep them apart: "
            "dfccl.torch.name.)\n"
            f"Rank {ranks[0]}, call {number}, {first.text}\nRank {ranks[1]}, call {number}, "
            f"{second.text}"
        )
