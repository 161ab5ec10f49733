"""Operations that move tensors, and barriers."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from .. import errors
from ..arrays import DataType
from .forms import check_pairs, operation, seconds, the_one
from .tensors import After, apart, distinct, flat, in_place, landing, packed, put, room, together
from .types import Tensors
from .works import Work


class Moves:
    """A part of ProcessGroup."""

    # Members of the process group that these methods use.
    _alive: tuple[int, ...]
    _rank: int
    _size: int
    _move: Any
    _of: Any
    _points: Any
    _run: Any
    _timed: Any
    _together: Any
    _work: Any
    timeout: Any

    @operation("BROADCAST", c10d.BroadcastOptions, "tensors", "tensor, root: int, timeout")
    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("broadcast", self._broadcast, tensors, opts.rootRank)

    def _broadcast(self, tensors: Tensors, root: int) -> Work:
        parts, afters = [], []
        # Also the root's tensor must be writable, so that all members refuse what one refuses
        distinct("broadcast", tensors)
        for dense, after in [in_place(tensor) for tensor in tensors]:
            if dense.numel() > 0:
                at = dense.data_ptr()
                parts.append(
                    self._move("broadcast", "broadcast", dense.numel(), dense, at, at, dense, root)
                )
                afters.append(after if self._rank != root else None)
        return self._work("broadcast", parts, list(tensors), together(afters))

    @operation(
        "ALLGATHER",
        c10d.AllgatherOptions,
        "output_tensors: lists, input_tensors: tensors",
        "output_tensors: tensors, input_tensor: tensor, timeout",
    )
    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        return self._timed("all_gather", self._all_gather, outputs, inputs)

    def _all_gather(self, outputs: Sequence[Tensors], inputs: Tensors) -> Work:
        pieces, mine = the_one("all_gather", outputs), the_one("all_gather", inputs)
        if len(pieces) != self._size:
            raise errors.InvalidArgument(
                f"all_gather: {len(pieces)} outputs in a group of {self._size}"
            )
        own, dense = distinct("all_gather", pieces), packed(mine)
        if any(piece.dtype != dense.dtype for piece in own) or (
            own[self._rank].numel() != dense.numel()
        ):
            raise errors.InvalidArgument(
                f"all_gather: {dense.numel()} elements of {dense.dtype} in, "
                f"{own[self._rank].numel()} of {own[self._rank].dtype} out"
            )
        counts = tuple(piece.numel() for piece in own)
        gathered = room([sum(counts)], dense.dtype)

        def after() -> None:
            put(own, gathered.split(counts))

        if len(set(counts)) == 1:
            return self._gather_flat("all_gather", gathered, dense, list(pieces), after)
        part = self._move(
            "all_gather_v",
            "all_gather",
            counts,
            dense,
            dense.data_ptr(),
            gathered.data_ptr(),
            (dense, gathered),
        )
        return self._work("all_gather", [part], list(pieces), after)

    def _gather_flat(
        self,
        what: str,
        target: torch.Tensor,
        dense: torch.Tensor,
        outputs: list[torch.Tensor],
        after: After,
    ) -> Work:
        if dense.numel() == 0:
            return self._work(what, [], outputs)
        part = self._move(
            "all_gather",
            what,
            dense.numel(),
            dense,
            dense.data_ptr(),
            target.data_ptr(),
            (dense, target),
        )
        return self._work(what, [part], outputs, after)

    @operation("ALLGATHER_BASE", c10d.AllgatherOptions, "output: tensor, input: tensor")
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Work:
        return self._timed("_all_gather_base", self._all_gather_single, output, input)

    def _prepared(
        self, what: str, output: torch.Tensor, input: torch.Tensor
    ) -> tuple[torch.Tensor, After, torch.Tensor]:
        """The memory of the output of a gathering operation, what remains to be done with it, and
        the memory of the input."""
        (target, after), dense = landing(output), packed(input)
        if target.numel() != dense.numel() * self._size:
            raise errors.InvalidArgument(
                f"{what}: {dense.numel()} elements in, {target.numel()} out, "
                f"in a group of {self._size}"
            )
        if target.dtype != dense.dtype:
            raise errors.InvalidArgument(f"{what}: {dense.dtype} in, {target.dtype} out")
        return target, after, apart(dense, target, self._rank * dense.numel())

    def _all_gather_single(self, output: torch.Tensor, input: torch.Tensor) -> Work:
        target, after, dense = self._prepared("all_gather_single", output, input)
        return self._gather_flat("all_gather_single", target, dense, [output], after)

    _allgather_base = all_gather_single

    @operation(
        "ALLGATHER_INTO_TENSOR_COALESCED",
        c10d.AllgatherOptions,
        "outputs|output_lists: tensors, inputs|input_list: tensors",
    )
    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        check_pairs("all_gather_single", outputs, inputs)
        distinct("all_gather_single", outputs)
        prepared = [
            self._prepared("all_gather_single", output, input)
            for output, input in zip(outputs, inputs)
        ]
        works = [
            self._gather_flat("all_gather_single", target, dense, [output], after)
            for output, (target, after, dense) in zip(outputs, prepared)
        ]
        return self._together("all_gather_single", works, list(outputs))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @operation(
        "ALLGATHER_COALESCED", c10d.AllgatherOptions, "output_lists: lists, input_list: tensors"
    )
    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        if len(outputs) != self._size or any(len(row) != len(inputs) for row in outputs):
            raise errors.InvalidArgument(
                f"all_gather: {len(inputs)} inputs, and lists of {[len(row) for row in outputs]} "
                f"outputs; a group of {self._size} needs a list for each member, with an output "
                "for each input"
            )
        distinct("all_gather", [piece for row in outputs for piece in row])
        pieces = [[row[at] for row in outputs] for at in range(len(inputs))]
        works = [self._all_gather([mine], [input]) for mine, input in zip(pieces, inputs)]
        return self._together("all_gather", works, [piece for row in outputs for piece in row])

    @operation("BARRIER", c10d.BarrierOptions, "", "timeout")
    def barrier(self, opts: Any) -> Work:
        return self._timed("barrier", self._barrier)

    def _barrier(self) -> Work:
        collective = self._of(
            "barrier", torch.uint8, 0, DataType.uint8, None, None, None, "barrier"
        )
        return self._work("barrier", [self._run(collective, None, 0, 0, None)], [])

    def monitored_barrier(
        self, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Rank 0 waits for a message of each member, and answers all. Its error names the members
        that have sent none, in the words of Gloo's error."""
        # A negative time, which C++ passes if the program gave none, stands for the group's limit
        timeout = seconds(timeout)
        if timeout is None or timeout < datetime.timedelta(0):
            timeout = self.timeout()
        end = time.monotonic() + timeout.total_seconds()
        flag = torch.zeros(1, dtype=torch.int32)

        def comes(work: Work) -> bool:
            work._asks = False
            try:
                return work.wait(datetime.timedelta(seconds=max(0.001, end - time.monotonic())))
            except errors.Timeout:
                return False

        first, *others = self._alive
        if self._rank != first:
            self._points("monitored_barrier", [(flag, first)], [], [])
            if not comes(self._points("monitored_barrier answer", [], [(flag, first)], [])):
                raise errors.Timeout(
                    f"Rank {self._rank} successfully reached monitoredBarrier, but received errors "
                    "while "
                    "waiting for send/recv from rank 0: no answer after "
                    f"{timeout.total_seconds():g} s"
                )
            return
        if timeout.total_seconds() <= 0:
            raise errors.Timeout("Rank 0 timed out in monitoredBarrier: it was given no time")
        works = {
            member: self._points("monitored_barrier", [], [(torch.empty_like(flag), member)], [])
            for member in others
        }
        missing = []
        for member, work in works.items():
            if not comes(work):
                missing.append(str(member))
                if not wait_all_ranks:
                    break
        if missing:
            raise errors.Timeout(
                f"Rank{'s' if wait_all_ranks else ''} {', '.join(missing)} failed to pass "
                "monitoredBarrier "
                f"in {1000 * timeout.total_seconds():g} ms"
            )
        for member in works:
            comes(self._points("monitored_barrier answer", [(flag, member)], [], []))

    def _check_pieces(
        self, what: str, role: str, pieces: list[torch.Tensor], like: torch.Tensor, root: int
    ) -> None:
        """Checks that the root of a gather or a scatter has a piece for each member."""
        if self._rank == root and (
            len(pieces) != self._size
            or any(each.numel() != like.numel() or each.dtype != like.dtype for each in pieces)
        ):
            raise errors.InvalidArgument(
                f"{what}: a member has {like.numel()} elements of {like.dtype}; the root needs one "
                f"such {role} for each member of a group of {self._size}"
            )

    @operation(
        "GATHER",
        c10d.GatherOptions,
        "output_tensors: lists, input_tensors: tensors",
        "output_tensors: tensors, input_tensor: tensor, root: int, timeout",
    )
    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        pieces = list(the_one("gather", outputs)) if outputs else []
        return self._timed("gather", self._gather, pieces, the_one("gather", inputs), opts.rootRank)

    def _gather(self, pieces: list[torch.Tensor], mine: torch.Tensor, root: int) -> Work:
        pieces = pieces if self._rank == root else []
        own, dense = distinct("gather", pieces), packed(mine)
        self._check_pieces("gather", "output", own, dense, root)
        if dense.numel() == 0:
            return self._work("gather", [], pieces)
        gathered = room((len(own), dense.numel()), dense.dtype)
        part = self._move(
            "gather",
            "gather",
            dense.numel(),
            dense,
            dense.data_ptr(),
            gathered.data_ptr(),
            (dense, gathered),
            root,
        )

        def after() -> None:
            put(own, gathered)

        return self._work("gather", [part], pieces, after if pieces else None)

    @operation("GATHER", c10d.GatherOptions, "output: tensor, input: tensor")
    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Work:
        return self._timed("gather", self._gather_single, output, input, opts.rootRank)

    gather_into_tensor = gather_single

    def _gather_single(self, output: torch.Tensor, input: torch.Tensor, root: int) -> Work:
        """The output is only used at the root."""
        dense = packed(input)
        if self._rank != root:
            return self._gather([], dense, root)
        target, after, dense = self._prepared("gather_single", output, dense)
        if dense.numel() == 0:
            return self._work("gather", [], [output])
        part = self._move(
            "gather",
            "gather",
            dense.numel(),
            dense,
            dense.data_ptr(),
            target.data_ptr(),
            (dense, target),
            root,
        )
        return self._work("gather", [part], [output], after)

    @operation(
        "SCATTER",
        c10d.ScatterOptions,
        "output_tensors: tensors, input_tensors: lists",
        "output_tensor: tensor, input_tensors: tensors, root: int, timeout",
    )
    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        pieces = list(the_one("scatter", inputs)) if inputs else []
        output = the_one("scatter", outputs)
        return self._timed("scatter", self._scatter, output, pieces, opts.rootRank)

    def _scatter(self, output: torch.Tensor, pieces: list[torch.Tensor], root: int) -> Work:
        pieces = pieces if self._rank == root else []
        target, after = landing(output)
        self._check_pieces("scatter", "input", pieces, target, root)
        sent = flat(pieces) if pieces else None
        if target.numel() == 0:
            return self._work("scatter", [], [output])
        part = self._move(
            "scatter",
            "scatter",
            target.numel(),
            target,
            sent.data_ptr() if sent is not None else 0,
            target.data_ptr(),
            (sent, target),
            root,
        )
        return self._work("scatter", [part], [output], after)

    @operation(
        "ALLTOALL",
        c10d.AllToAllOptions,
        "output_tensors|output_tensor|output: tensors, input_tensors|input_tensor|input: tensors",
        "output_tensors|output_tensor|output: tensors, input_tensors|input_tensor|input: tensors, "
        "timeout",
    )
    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        if len(outputs) != self._size or len(inputs) != self._size:
            raise errors.InvalidArgument(
                f"all_to_all: {len(inputs)} inputs and {len(outputs)} outputs; a group of "
                f"{self._size} needs one of each for each member"
            )
        return self._timed(
            "all_to_all",
            self._points,
            "all_to_all",
            [(each, at) for at, each in enumerate(inputs)],
            [(each, at) for at, each in enumerate(outputs)],
            list(outputs),
        )

    @operation(
        "ALLTOALL_BASE",
        c10d.AllToAllOptions,
        "output|output_tensor: tensor, input|input_tensor: tensor, output_split_sizes: ints, "
        "input_split_sizes: ints",
        "output|output_tensor: tensor, input|input_tensor: tensor, output_split_sizes: ints, "
        "input_split_sizes: ints, timeout",
    )
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any,
    ) -> Work:
        return self._timed(
            "all_to_all", self._all_to_all, output, input, output_splits, input_splits
        )

    alltoall_base = all_to_all_single

    def _all_to_all(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
    ) -> Work:
        (target, after), dense = landing(output), packed(input)
        if target.dtype != dense.dtype:
            raise errors.InvalidArgument(f"all_to_all_single: {dense.dtype} in, {target.dtype} out")
        dense = apart(dense, target, 0 if not (output_splits or input_splits) else None)
        if output_splits or input_splits:
            rows_out, rows_in = (
                self._splits(tensor, splits)
                for tensor, splits in ((target, output_splits), (dense, input_splits))
            )
            return self._points(
                "all_to_all_single",
                [(each, at) for at, each in enumerate(rows_in)],
                [(each, at) for at, each in enumerate(rows_out)],
                [output],
                after=after,
            )
        if dense.numel() != target.numel() or dense.dim() == 0 or dense.size(0) % self._size != 0:
            raise errors.InvalidArgument(
                f"all_to_all_single: {tuple(dense.shape)} in, {tuple(target.shape)} out, "
                f"in a group of {self._size}"
            )
        if dense.numel() == 0:
            return self._work("all_to_all_single", [], [output])
        part = self._move(
            "all_to_all",
            "all_to_all_single",
            dense.numel() // self._size,
            dense,
            dense.data_ptr(),
            target.data_ptr(),
            (dense, target),
        )
        return self._work("all_to_all_single", [part], [output], after)

    def _splits(self, tensor: torch.Tensor, splits: Sequence[int]) -> Tensors:
        if not splits:
            if tensor.size(0) % self._size:
                raise errors.InvalidArgument(f"{tensor.size(0)} rows for {self._size} members")
            splits = [tensor.size(0) // self._size] * self._size
        if len(splits) != self._size or sum(splits) != tensor.size(0):
            raise errors.InvalidArgument(
                f"splits {list(splits)} of {tensor.size(0)} rows in a group of {self._size}"
            )
        return tensor.split(list(splits))
