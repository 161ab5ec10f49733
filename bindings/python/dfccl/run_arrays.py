"""The arrays of a run: how many elements they need, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import errors
from .arrays import DataType, Memory, memory_of


class RunArrays:
    """A part of Collective."""

    # Members of the collective that these methods use.
    count: int
    kind: str
    rank: int
    root: int
    size: int
    type: DataType
    varying: bool

    def _expect(self, sizes: tuple[int | None, int | None] | None) -> None:
        """sizes: least elements of both arrays (None: no such array); None if the kind decides."""
        kind, count, wide = self.kind, self.count, self.size
        self._sizes = sizes
        self._send_wide, self._recv_wide = {
            "all_gather": (1, wide),
            "reduce_scatter": (wide, 1),
            "all_to_all": (wide, wide),
            "gather": (1, wide),
            "scatter": (wide, 1),
        }.get(kind, (1, 1))
        if sizes is None and kind in ("gather", "scatter"):
            at_root = self.rank == self.root
            self._sizes = (
                count if kind == "gather" else count * wide if at_root else None,
                count if kind == "scatter" else count * wide if at_root else None,
            )

    def _arrays(
        self, send: Any, recv: Any, count: int, send_counts: Sequence[int] | None
    ) -> tuple[Memory | None, Memory | None]:
        """The memory that a run sends from and receives into."""
        if self._sizes is None:
            return self._memories(send, recv, count or self.count)
        return self._separate(send, recv, count, send_counts)

    def _memories(self, send: Any, recv: Any, elements: int) -> tuple[Memory | None, Memory | None]:
        in_place = send is None or recv is None or send is recv
        if in_place and send is None and recv is None:
            raise errors.InvalidArgument(f"a run of {self!r} without an array")
        if in_place and self.kind == "reduce" and self.rank != self.root:
            return self._checked(send if recv is None else recv, elements, False), None
        if in_place and self.kind == "broadcast" and self.rank == self.root:
            both = self._checked(send if recv is None else recv, elements, False)
            return both, both
        if in_place:
            both = self._checked(
                send if recv is None else recv,
                elements * max(self._send_wide, self._recv_wide),
                True,
            )
            return both, both
        source = (
            None
            if self.kind == "broadcast" and self.rank != self.root
            else self._checked(send, elements * self._send_wide, False)
        )
        target = (
            None
            if self.kind == "reduce" and self.rank != self.root
            else self._checked(recv, elements * self._recv_wide, True)
        )
        return source, target

    def _separate(
        self, send: Any, recv: Any, count: int, send_counts: Sequence[int] | None
    ) -> tuple[Memory | None, Memory | None]:
        sent, received = self._sizes or (None, None)
        if send_counts is not None:
            if len(send_counts) != self.size or any(
                not 0 <= each <= self.count for each in send_counts
            ):
                raise errors.InvalidArgument(f"send_counts {list(send_counts)} of {self!r}")
            sent = sum(send_counts)
        if count and self.varying and count <= self.count:
            scale = [each and each // self.count * count for each in (sent, received)]
            sent, received = scale
        if send is not None and send is recv:
            raise errors.InvalidArgument(f"a run of {self!r} in place: it has two arrays here")
        pair: list[Memory | None] = []
        for thing, elements, writable in ((send, sent, False), (recv, received, True)):
            if not elements:
                pair.append(None)
                continue
            memory = memory_of(thing, writable)
            if memory.type is not None and memory.type != self.type:
                raise errors.InvalidArgument(f"an array of {memory.type.name} for {self!r}")
            if memory.bytes < elements * self.type.bytes:
                raise errors.InvalidArgument(
                    f"an array of {memory.bytes // self.type.bytes} elements where {self!r} needs "
                    f"{elements}"
                )
            pair.append(memory)
        return pair[0], pair[1]

    def _checked(self, thing: Any, elements: int, writable: bool) -> Memory:
        memory = memory_of(thing, writable)
        if memory.type is not None and memory.type != self.type:
            raise errors.InvalidArgument(f"an array of {memory.type.name} for {self!r}")
        if memory.bytes != elements * self.type.bytes:
            raise errors.InvalidArgument(
                f"an array of {memory.bytes // self.type.bytes} elements where {self!r} needs "
                f"{elements}"
            )
        return memory
