"""Operations that move tensors, and barriers."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import errors
from ..arrays import DataType
from .types import Tensors, check
from .works import Work


class Moves:
    """A part of ProcessGroup."""

    # Members of the process group that these methods use.
    _rank: int
    _size: int
    _move: Any
    _of: Any
    _points: Any
    _run: Any
    _timed: Any
    _together: Any
    _work: Any

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("broadcast", self._broadcast, tensors, opts.rootRank)

    def _broadcast(self, tensors: Tensors, root: int) -> Work:
        check(tensors)
        parts, afters = [], []
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            dense = tensor.contiguous()
            at = dense.data_ptr()
            parts.append(
                self._move("broadcast", "broadcast", dense.numel(), dense, at, at, dense, root)
            )
            if dense is not tensor and self._rank != root:
                afters.append(lambda to=tensor, of=dense: to.copy_(of))
        return self._work(
            "broadcast",
            parts,
            list(tensors),
            (lambda: [each() for each in afters]) if afters else None,
        )

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        return self._timed("all_gather", self._all_gather, outputs, inputs)

    def _all_gather(self, outputs: Sequence[Tensors], inputs: Tensors) -> Work:
        check(inputs)
        (pieces,), (mine,) = outputs, inputs
        check(pieces)
        if len(pieces) != self._size:
            raise errors.InvalidArgument(
                f"all_gather: {len(pieces)} outputs in a group of {self._size}"
            )
        if pieces[self._rank].numel() != mine.numel() or pieces[self._rank].dtype != mine.dtype:
            raise errors.InvalidArgument(
                f"all_gather: {mine.numel()} elements of {mine.dtype} in, "
                f"{pieces[self._rank].numel()} of {pieces[self._rank].dtype} out"
            )
        if len({piece.numel() for piece in pieces}) == 1:
            flat = torch.empty((self._size, mine.numel()), dtype=mine.dtype)

            def after() -> None:
                for piece, row in zip(pieces, flat):
                    piece.copy_(row.view(piece.shape))

            return self._gather_flat("all_gather", flat, mine, list(pieces), after)
        counts = tuple(piece.numel() for piece in pieces)
        dense, flat = mine.contiguous(), torch.empty(sum(counts), dtype=mine.dtype)
        part = self._move(
            "all_gather_v",
            "all_gather",
            counts,
            dense,
            dense.data_ptr(),
            flat.data_ptr(),
            (dense, flat),
        )

        def split() -> None:
            for piece, row in zip(pieces, flat.split(counts)):
                piece.copy_(row.view(piece.shape))

        return self._work("all_gather", [part], list(pieces), split)

    def _gather_flat(
        self,
        what: str,
        flat: torch.Tensor,
        mine: torch.Tensor,
        outputs: list[torch.Tensor],
        after: Callable[[], Any] | None,
    ) -> Work:
        if mine.numel() == 0:
            return self._work(what, [], outputs)
        dense = mine.contiguous()
        part = self._move(
            "all_gather",
            what,
            dense.numel(),
            dense,
            dense.data_ptr(),
            flat.data_ptr(),
            (dense, flat),
        )
        return self._work(what, [part], outputs, after)

    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> Work:
        return self._timed("_all_gather_base", self._all_gather_single, output, input)

    def _all_gather_single(self, output: torch.Tensor, input: torch.Tensor) -> Work:
        check((output, input))
        if output.numel() != input.numel() * self._size:
            raise errors.InvalidArgument(
                f"all_gather_single: {input.numel()} elements in, {output.numel()} out, "
                f"in a group of {self._size}"
            )
        if output.dtype != input.dtype:
            raise errors.InvalidArgument(f"all_gather_single: {input.dtype} in, {output.dtype} out")
        flat = output if output.is_contiguous() else torch.empty(output.shape, dtype=output.dtype)
        return self._gather_flat(
            "all_gather_single",
            flat,
            input,
            [output],
            None if flat is output else lambda: output.copy_(flat),
        )

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Work:
        works = [self._all_gather_single(output, input) for output, input in zip(outputs, inputs)]
        return self._together("all_gather_single", works, list(outputs))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> Work:
        pieces = [[row[at] for row in outputs] for at in range(len(inputs))]
        works = [self._all_gather([mine], [input]) for mine, input in zip(pieces, inputs)]
        return self._together("all_gather", works, [piece for row in outputs for piece in row])

    def barrier(self, opts: Any = None) -> Work:
        work = self._timed("barrier", self._barrier)
        seconds = opts.timeout.total_seconds() if opts is not None else 0
        work._limit = seconds if seconds > 0 else None
        return work

    def _barrier(self) -> Work:
        collective = self._of(
            "barrier", torch.uint8, 0, DataType.uint8, None, None, None, "barrier"
        )
        return self._work("barrier", [self._run(collective, None, 0, 0, None)], [])

    def monitored_barrier(self, timeout: datetime.timedelta, wait_all_ranks: bool = False) -> None:
        """Rank 0 waits for a message of each member, and answers all. Its error names the members
        that have sent none, in the words of Gloo's error."""
        end = time.monotonic() + timeout.total_seconds()
        flag = torch.zeros(1, dtype=torch.int32)

        def comes(work: Work) -> bool:
            work._asks = False
            try:
                return work.wait(datetime.timedelta(seconds=max(0.001, end - time.monotonic())))
            except errors.Timeout:
                return False

        if self._rank != 0:
            self._points("monitored_barrier", [(flag, 0)], [], [])
            if not comes(self._points("monitored_barrier answer", [], [(flag, 0)], [])):
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
            for member in range(1, self._size)
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

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        return self._timed(
            "gather", self._gather, list(outputs[0]) if outputs else [], inputs[0], opts.rootRank
        )

    def _gather(self, pieces: list[torch.Tensor], mine: torch.Tensor, root: int) -> Work:
        pieces = pieces if self._rank == root else []
        check((mine, *pieces))
        self._check_pieces("gather", "output", pieces, mine, root)
        if mine.numel() == 0:
            return self._work("gather", [], pieces)
        dense, flat = mine.contiguous(), torch.empty((len(pieces), mine.numel()), dtype=mine.dtype)
        part = self._move(
            "gather",
            "gather",
            dense.numel(),
            dense,
            dense.data_ptr(),
            flat.data_ptr(),
            (dense, flat),
            root,
        )

        def after() -> None:
            for piece, row in zip(pieces, flat):
                piece.copy_(row.view(piece.shape))

        return self._work("gather", [part], pieces, after if pieces else None)

    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Work:
        pieces = list(output.view(self._size, *input.shape)) if self._rank == opts.rootRank else []
        return self.gather([pieces], [input], opts)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        return self._timed(
            "scatter", self._scatter, outputs[0], list(inputs[0]) if inputs else [], opts.rootRank
        )

    def _scatter(self, output: torch.Tensor, pieces: list[torch.Tensor], root: int) -> Work:
        pieces = pieces if self._rank == root else []
        check((output, *pieces))
        self._check_pieces("scatter", "input", pieces, output, root)
        if output.numel() == 0:
            return self._work("scatter", [], [output])
        flat = torch.cat([piece.reshape(-1) for piece in pieces]) if pieces else None
        target = output if output.is_contiguous() else torch.empty(output.shape, dtype=output.dtype)
        part = self._move(
            "scatter",
            "scatter",
            target.numel(),
            target,
            flat.data_ptr() if flat is not None else 0,
            target.data_ptr(),
            (flat, target),
            root,
        )
        return self._work(
            "scatter",
            [part],
            [output],
            (lambda: output.copy_(target)) if target is not output else None,
        )

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        return self._timed(
            "all_to_all",
            self._points,
            "all_to_all",
            [(each, at) for at, each in enumerate(inputs)],
            [(each, at) for at, each in enumerate(outputs)],
            list(outputs),
        )

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
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
        check((output, input))
        if not output.is_contiguous() or output.dtype != input.dtype:
            raise errors.InvalidArgument(
                "all_to_all_single: the output must be contiguous and of the input's type"
            )
        dense = input.contiguous()
        if output_splits or input_splits:
            rows_out, rows_in = (
                self._splits(tensor, splits)
                for tensor, splits in ((output, output_splits), (dense, input_splits))
            )
            return self._points(
                "all_to_all_single",
                [(each, at) for at, each in enumerate(rows_in)],
                [(each, at) for at, each in enumerate(rows_out)],
                [output],
            )
        if dense.numel() != output.numel() or dense.size(0) % self._size != 0:
            raise errors.InvalidArgument(
                f"all_to_all_single: {tuple(dense.shape)} in, {tuple(output.shape)} out, "
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
            output.data_ptr(),
            (dense, output),
        )
        return self._work("all_to_all_single", [part], [output])

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
