"""Registration: the calls that contexts and groups share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_int, c_size_t
from typing import Any

from . import errors
from .arrays import DataTypeLike, RedOp, RedOpLike, data_type, red_op
from .collective import Collective


class Registers:
    """The registration calls of contexts and groups."""

    def _register(
        self,
        kind: str,
        id: int,
        count: int,
        dtype: DataTypeLike,
        *,
        op: RedOpLike | None = None,
        root: int | None = None,
        **options: Any,
    ) -> Collective:
        raise NotImplementedError

    def register_all_reduce(
        self, id: int, count: int, dtype: DataTypeLike, op: RedOpLike = RedOp.SUM, **options: Any
    ) -> Collective:
        """Registers an all-reduce. The call is local: it waits for no other rank.

        id         chosen by the program, the same on every member
        count      number of elements of the whole array
        dtype      a DataType, its name, or a dtype of numpy or torch
        options    ranks (the group, in group order), priority (larger first), name, algorithm,
                   varying
        """
        return self._register("all_reduce", id, count, dtype, op=op, **options)

    def register_reduce(
        self,
        id: int,
        count: int,
        dtype: DataTypeLike,
        op: RedOpLike = RedOp.SUM,
        root: int = 0,
        **options: Any,
    ) -> Collective:
        """Registers a reduce to `root`, a position in the group."""
        return self._register("reduce", id, count, dtype, op=op, root=root, **options)

    def register_broadcast(
        self, id: int, count: int, dtype: DataTypeLike, root: int = 0, **options: Any
    ) -> Collective:
        """Registers a broadcast from `root`, a position in the group."""
        return self._register("broadcast", id, count, dtype, root=root, **options)

    def register_all_gather(
        self, id: int, count: int, dtype: DataTypeLike, **options: Any
    ) -> Collective:
        """Registers an all-gather: each rank sends count elements and receives count of each
        member."""
        return self._register("all_gather", id, count, dtype, **options)

    def register_reduce_scatter(
        self, id: int, count: int, dtype: DataTypeLike, op: RedOpLike = RedOp.SUM, **options: Any
    ) -> Collective:
        """Registers a reduce-scatter: each rank sends count elements for each member and receives
        count."""
        return self._register("reduce_scatter", id, count, dtype, op=op, **options)

    def register_all_to_all(
        self, id: int, count: int, dtype: DataTypeLike, **options: Any
    ) -> Collective:
        """Registers an all-to-all: count elements for each member and from each member."""
        return self._register("all_to_all", id, count, dtype, **options)

    def register_gather(
        self, id: int, count: int, dtype: DataTypeLike, root: int = 0, **options: Any
    ) -> Collective:
        """Registers a gather: each rank sends count elements; the root receives count of each
        member."""
        return self._register("gather", id, count, dtype, root=root, **options)

    def register_scatter(
        self, id: int, count: int, dtype: DataTypeLike, root: int = 0, **options: Any
    ) -> Collective:
        """Registers a scatter: the root sends count elements to each member."""
        return self._register("scatter", id, count, dtype, root=root, **options)

    def register_barrier(self, id: int, **options: Any) -> Collective:
        """Registers a barrier: a run(), without arrays, ends when all members have run it."""
        return self._register_as("barrier", id, "Barrier", [], 0, "uint8", (0, 0), **options)

    def register_scan(
        self,
        id: int,
        count: int,
        dtype: DataTypeLike,
        op: RedOpLike = RedOp.SUM,
        exclusive: bool = False,
        **options: Any,
    ) -> Collective:
        """Registers a scan: position p gets the result of positions 0 to p; exclusive: to p - 1,
        and 0 gets nothing."""
        kind = data_type(dtype)
        return self._register_as(
            "scan",
            id,
            "Scan",
            [count, kind, red_op(op), int(exclusive)],
            count,
            kind,
            (count, count),
            **options,
        )

    def register_send_recv(
        self, id: int, count: int, dtype: DataTypeLike, source: int, target: int, **options: Any
    ) -> Collective:
        """Registers a channel from one position to another; only these two register and run it."""
        kind, position = data_type(dtype), self._position(options)
        sizes = (count if position == source else None, count if position == target else None)
        return self._register_as(
            "send_recv",
            id,
            "SendRecv",
            [count, kind, source, target],
            count,
            kind,
            sizes,
            **options,
        )

    def register_all_gather_v(
        self,
        id: int,
        counts: Sequence[int],
        dtype: DataTypeLike,
        displacements: Sequence[int] | None = None,
        **options: Any,
    ) -> Collective:
        """Registers an all-gather in which position i sends counts[i] elements, to displacements[i]
        (None: packed)."""
        kind, position = data_type(dtype), self._position(options)
        arguments = [_sizes(counts), _sizes(displacements), kind]
        return self._register_as(
            "all_gather_v",
            id,
            "AllGatherV",
            arguments,
            sum(counts),
            kind,
            (counts[position], _extent(counts, displacements)),
            **options,
        )

    def register_reduce_scatter_v(
        self,
        id: int,
        counts: Sequence[int],
        dtype: DataTypeLike,
        op: RedOpLike = RedOp.SUM,
        **options: Any,
    ) -> Collective:
        """Registers a reduce-scatter in which position i receives counts[i] elements; the pieces of
        the inputs are packed."""
        kind, position = data_type(dtype), self._position(options)
        return self._register_as(
            "reduce_scatter_v",
            id,
            "ReduceScatterV",
            [_sizes(counts), kind, red_op(op)],
            sum(counts),
            kind,
            (sum(counts), counts[position]),
            **options,
        )

    def register_gather_v(
        self,
        id: int,
        count: int,
        dtype: DataTypeLike,
        root: int = 0,
        counts: Sequence[int] | None = None,
        displacements: Sequence[int] | None = None,
        **options: Any,
    ) -> Collective:
        """Registers a gather in which this rank sends count elements. The root gives all counts
        and displacements."""
        kind, position = data_type(dtype), self._position(options)
        arguments = [count, _sizes(counts), _sizes(displacements), kind, root]
        received = (
            _extent(counts, displacements) if position == root and counts is not None else None
        )
        return self._register_as(
            "gather_v", id, "GatherV", arguments, count, kind, (count, received), **options
        )

    def register_scatter_v(
        self,
        id: int,
        count: int,
        dtype: DataTypeLike,
        root: int = 0,
        counts: Sequence[int] | None = None,
        displacements: Sequence[int] | None = None,
        **options: Any,
    ) -> Collective:
        """Registers a scatter in which this rank receives count elements. The root gives all
        counts and displacements."""
        kind, position = data_type(dtype), self._position(options)
        arguments = [_sizes(counts), _sizes(displacements), count, kind, root]
        sent = _extent(counts, displacements) if position == root and counts is not None else None
        return self._register_as(
            "scatter_v", id, "ScatterV", arguments, count, kind, (sent, count), **options
        )

    def register_all_to_all_v(
        self,
        id: int,
        send_counts: Sequence[int],
        recv_counts: Sequence[int],
        dtype: DataTypeLike,
        send_displacements: Sequence[int] | None = None,
        recv_displacements: Sequence[int] | None = None,
        **options: Any,
    ) -> Collective:
        """Registers an all-to-all with a count for each pair, the same in all runs. Displacements
        None: packed."""
        kind = data_type(dtype)
        arguments = [
            _sizes(send_counts),
            _sizes(send_displacements),
            _sizes(recv_counts),
            _sizes(recv_displacements),
            kind,
        ]
        return self._register_as(
            "all_to_all_v",
            id,
            "AllToAllV",
            arguments,
            sum(send_counts),
            kind,
            (_extent(send_counts, send_displacements), _extent(recv_counts, recv_displacements)),
            **options,
        )

    def register_neighbours(
        self,
        id: int,
        sends: Mapping[int, int],
        receives: Mapping[int, int],
        dtype: DataTypeLike,
        **options: Any,
    ) -> Collective:
        """Registers an exchange with some positions: {position: count} sent and received, packed in
        that order."""
        kind = data_type(dtype)
        arguments = [
            len(sends),
            (c_int * len(sends))(*sends),
            _sizes(list(sends.values())),
            len(receives),
            (c_int * len(receives))(*receives),
            _sizes(list(receives.values())),
            kind,
        ]
        return self._register_as(
            "neighbours",
            id,
            "Neighbours",
            arguments,
            sum(sends.values()),
            kind,
            (sum(sends.values()), sum(receives.values())),
            **options,
        )

    def register_all_to_all_dynamic(
        self, id: int, count: int, dtype: DataTypeLike, **options: Any
    ) -> Collective:
        """Registers an all-to-all whose counts each run gives: at most count for each pair.

        run(send, recv, send_counts=[...]): the pieces are packed in send; the data from position
        i begins at element i * count of recv. Run.received() returns the number of elements from
        each position.
        """
        kind, size = data_type(dtype), self._group_size(options)
        return self._register_as(
            "all_to_all_dynamic",
            id,
            "AllToAllDynamic",
            [count, kind],
            count,
            kind,
            (None, count * size),
            **options,
        )

    def _register_as(self, kind: str, id: int, *arguments: Any, **options: Any) -> Collective:
        raise NotImplementedError

    def _position(self, options: dict[str, Any]) -> int:
        raise NotImplementedError

    def _group_size(self, options: dict[str, Any]) -> int:
        raise NotImplementedError


def _sizes(values: Sequence[int] | None) -> Any:
    if values is None:
        return None
    if any(value < 0 for value in values):
        raise errors.InvalidArgument(f"counts and displacements are not negative: {list(values)}")
    return (c_size_t * len(values))(*values)


def _extent(counts: Sequence[int], displacements: Sequence[int] | None) -> int:
    """The least number of elements of a buffer."""
    if displacements is None:
        return sum(counts)
    return max((at + count for at, count in zip(displacements, counts) if count), default=0)
