"""The process group: each call of c10d becomes runs of collectives that are registered when first used.

A collective's id is a hash of the group's name, the operation, the number and type of elements, operator, root, and
the name that the program gave, if any. So the i-th call of a signature meets the i-th call of it on each other member,
whatever calls of other signatures come between.
"""

from __future__ import annotations

import datetime
import hashlib
import threading
import time
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

from .. import errors
from ..arrays import DataType, RedOp
from ..context import Collective, Context, unique_id
from ..library import lib
from . import names
from .works import Part, Watcher, Work

Tensors = Sequence[torch.Tensor]
_Op = dist.ReduceOp.RedOpType

# Reduced as what they are.
_types = {torch.int8: DataType.int8, torch.uint8: DataType.uint8, torch.int32: DataType.int32,
          torch.int64: DataType.int64, torch.float16: DataType.float16, torch.float32: DataType.float32,
          torch.float64: DataType.float64, torch.bfloat16: DataType.bfloat16,
          torch.float8_e4m3fn: DataType.float8_e4m3, torch.float8_e5m2: DataType.float8_e5m2}
for _name in ("uint32", "uint64"):
    if hasattr(torch, _name):
        _types[getattr(torch, _name)] = DataType[_name]
# Moved, not reduced: (type, how many of it an element has).
_moved = {1: (DataType.uint8, 1), 2: (DataType.float16, 1), 4: (DataType.int32, 1), 8: (DataType.int64, 1),
          16: (DataType.int64, 2)}
_ops = {_Op.SUM: RedOp.SUM, _Op.PRODUCT: RedOp.PROD, _Op.MAX: RedOp.MAX, _Op.MIN: RedOp.MIN, _Op.AVG: RedOp.AVG}
_bool_ops = {_Op.SUM: RedOp.MAX, _Op.PRODUCT: RedOp.MIN, _Op.MAX: RedOp.MAX, _Op.MIN: RedOp.MIN,
             _Op.BOR: RedOp.MAX, _Op.BAND: RedOp.MIN}
_bitwise = {_Op.BAND: torch.bitwise_and, _Op.BOR: torch.bitwise_or, _Op.BXOR: torch.bitwise_xor}


class Job:
    """One context for all process groups of a set of ranks."""

    def __init__(self, context: Context):
        self.context, self.watcher, self.groups = context, Watcher(), set[Any]()

    def leave(self, group: Any) -> bool:
        """Returns whether this was the last group: the context is closed."""
        self.groups.discard(group)
        if self.groups:
            return False
        self.watcher.stop()
        self.context.close()
        return True


def _element(tensor: torch.Tensor) -> tuple[DataType, int]:
    return _moved[tensor.element_size()]


def _check(tensors: Tensors) -> None:
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise errors.InvalidArgument(f"a tensor on {tensor.device}: this process group takes tensors of the CPU")
        if tensor.layout is not torch.strided:
            raise errors.InvalidArgument(f"a tensor of layout {tensor.layout}: this process group takes dense tensors")


class ProcessGroup(dist.ProcessGroup):
    """Collectives of CPU tensors over the library."""

    supports_coalescing = False
    supports_splitting = False

    def __init__(self, job: Job, store: dist.Store, name: str, ranks: Sequence[int], timeout: datetime.timedelta):
        rank = list(ranks).index(job.context.rank)
        super().__init__(store, rank, len(ranks))
        self._job, self._context, self._name, self._ranks = job, job.context, name, list(ranks)
        self._rank, self._size = rank, len(ranks)
        self._timeout = timeout.total_seconds()
        self._collectives: dict[Any, Collective] = {}
        self._register_lock = threading.Lock()
        self._coalescing = threading.local()
        self._started: dict[int, float] = {}
        self._sequence = 0
        self._description = "undefined"
        job.groups.add(self)

    # ---- what torch asks a group for

    def getBackendName(self) -> str:
        return "dfccl"

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    rank, size = getRank, getSize
    name = getBackendName

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._description

    def _set_group_name(self, name: str) -> None:
        super()._set_group_name(name)

    def _get_backend(self, device: torch.device) -> "ProcessGroup":
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"the process group dfccl has no backend for {device}: it takes tensors of the CPU")
        return self

    def _set_default_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout = timeout.total_seconds()

    set_timeout = _set_default_timeout

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _has_hooks(self) -> bool:
        return False

    # ---- collectives and runs

    def _of(self, *signature: Any) -> Collective:
        """The collective of a signature: (what, count, type, operator or None, root or None, members or None, kind)."""
        key = (names.current(), *signature)
        found = self._collectives.get(key)
        return found if found is not None else self._register_new(key)

    def _register_new(self, key: tuple[Any, ...]) -> Collective:
        given, what, dtype, count, type, op, root, members, kind = key
        text = f"{what} {dtype}[{count}]" + (f" {op.name.lower()}" if op is not None else "") + (
            f" root {root}" if root is not None else "") + f", group {self._name!r}" + (
            f", named {given!r}" if given is not None else "")
        with self._register_lock:
            found = self._collectives.get(key)
            if found is None:
                id = int.from_bytes(hashlib.blake2b(f"{members} {text}".encode(), digest_size=8).digest(), "little")
                ranks = self._ranks if members is None else [self._ranks[member] for member in members]
                found = self._context._register(kind, id, count, type, op=op, root=root, ranks=ranks, name=text)
                self._collectives[key] = found
            return found

    def _abort_collectives(self, collectives: Sequence[Collective]) -> None:
        self._context.abort_collectives({collective.id for collective in collectives})

    def _move(self, kind: str, what: str, count: int, like: torch.Tensor, send: int, recv: int, keep: Any,
              root: int | None = None, members: tuple[int, ...] | None = None) -> Part:
        """One run that moves elements, of any type."""
        type, factor = _element(like)
        collective = self._of(what, like.dtype, count * factor, type, None, root, members, kind)
        return collective, collective._submit(send or None, recv or None, 0, keep)

    def _work(self, what: str, parts: list[Part], outputs: list[torch.Tensor],
              finish: Callable[[], Any] | None = None) -> Work:
        self._sequence += 1
        work = Work(self, what, parts, outputs, finish)
        coalesced = getattr(self._coalescing, "works", None)
        if coalesced is not None:
            coalesced.append(work)
        return work

    def _late(self, work: Work, failure: errors.Error) -> errors.Timeout:
        return errors.Timeout(f"{work._operation} of rank {self._rank} of {self._size} in group {self._name!r} "
                              f"(ranks {self._ranks}): {failure}")

    def _is_late(self, work: Work) -> errors.Error | None:
        """Of a work that only its future waits for."""
        now = time.monotonic()
        if now - self._started.setdefault(id(work), now) < self._timeout:
            return None
        del self._started[id(work)]
        for collective, number in work._parts:
            try:
                collective._wait_run(number, 0)
            except errors.Error as failure:
                return self._late(work, failure)
        return None

    def _drive(self, work: Work, milliseconds: int) -> None:
        for collective, number in work._parts:
            with self._context._entered() as handle:
                if lib.dfcclWaitRun(handle, collective.id, number, milliseconds) == errors.IN_PROGRESS:
                    return

    # ---- reductions

    def _reduce_part(self, kind: str, what: str, count: int, op: Any, source: torch.Tensor, target: torch.Tensor,
                     root: int | None = None) -> tuple[Part, Callable[[], Any] | None]:
        """One run that reduces, from and to memory in one piece; and what is to be done afterwards."""
        operator = getattr(op, "op", op)
        dtype = source.dtype
        if source.is_complex():
            if operator not in (_Op.SUM, _Op.AVG):
                raise errors.InvalidArgument(f"{operator.name} of complex numbers")
            source, target = torch.view_as_real(source), torch.view_as_real(target)
            count, dtype = 2 * count, source.dtype
        if operator is _Op.PREMUL_SUM:
            factor = op.factor if hasattr(op, "factor") else op.__getstate__()[1]
            source, operator = source * factor, _Op.SUM
        after = None
        if dtype is torch.bool:
            type, reduced = DataType.uint8, _bool_ops.get(operator)
        else:
            type, reduced = _types.get(dtype), _ops.get(operator)
        if type is None and dtype in (torch.int16, getattr(torch, "uint16", None)):  # in int32, and cut: exact
            wide, result = source.to(torch.int32), target
            narrow = wide if target.numel() == wide.numel() else torch.empty(target.numel(), dtype=torch.int32)
            source, target, type = wide, narrow, DataType.int32
            after = lambda: result.copy_(narrow.view(result.shape).to(result.dtype))
        if type is None or reduced is None:
            raise errors.InvalidArgument(f"{what} with {operator.name} of {dtype} is not there")
        collective = self._of(what, dtype, count, type, reduced, root, None, kind)
        number = collective._submit(source.data_ptr() or None, target.data_ptr() or None, 0, (source, target))
        return (collective, number), after

    def _all_reduce_bits(self, tensor: torch.Tensor, op: Any) -> tuple[Part, Callable[[], Any]]:
        """BAND, BOR and BXOR: all values come here, and are reduced here."""
        if tensor.is_floating_point() or tensor.is_complex():
            raise errors.InvalidArgument(f"Cannot use ReduceOp.{op.name} with non-integral dtype: {tensor.dtype}")
        flat = tensor.reshape(-1)
        gathered = torch.empty((self._size, flat.numel()), dtype=tensor.dtype)
        part = self._move("all_gather", f"all_reduce {op.name}", flat.numel(), flat, flat.data_ptr(),
                          gathered.data_ptr(), (flat, gathered))

        def after() -> None:
            total = gathered[0].clone()
            for row in gathered[1:]:
                total = _bitwise[op](total, row)
            tensor.copy_(total.view(tensor.shape))
        return part, after

    def _all_reduce(self, what: str, tensors: Tensors, op: Any) -> Work:
        _check(tensors)
        parts, afters = [], []
        operator = getattr(op, "op", op)
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            if operator in _bitwise and not (tensor.dtype is torch.bool and operator in _bool_ops):
                part, after = self._all_reduce_bits(tensor, operator)
            elif tensor.is_contiguous():
                part, after = self._reduce_part("all_reduce", what, tensor.numel(), op, tensor, tensor)
            else:
                dense = tensor.contiguous()
                part, then = self._reduce_part("all_reduce", what, tensor.numel(), op, dense, dense)
                after = lambda to=tensor, of=dense, then=then: (then() if then else None, to.copy_(of))
            parts.append(part)
            if after is not None:
                afters.append(after)
        return self._work(what, parts, list(tensors), (lambda: [each() for each in afters]) if afters else None)

    def allreduce(self, tensors: Any, opts: Any = None, *_: Any) -> Work:
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        op = getattr(opts, "reduceOp", opts if opts is not None else _Op.SUM)
        return self._timed("all_reduce", self._all_reduce, "all_reduce", tensors, op)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("all_reduce", self._all_reduce, "all_reduce_coalesced", tensors, opts.reduceOp)

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("reduce", self._reduce, tensors, opts)

    def _reduce(self, tensors: Tensors, opts: Any) -> Work:
        _check(tensors)
        tensor, = tensors
        operator = getattr(opts.reduceOp, "op", opts.reduceOp)
        if tensor.numel() == 0:
            return self._work("reduce", [], [tensor])
        if operator in _bitwise and not (tensor.dtype is torch.bool and operator in _bool_ops):
            part, after = self._all_reduce_bits(tensor, operator)
            return self._work("reduce", [part], [tensor], after if self._rank == opts.rootRank else None)
        dense = tensor.contiguous()
        part, after = self._reduce_part("reduce", "reduce", dense.numel(), opts.reduceOp, dense, dense, opts.rootRank)
        if self._rank != opts.rootRank:
            after = None
        elif dense is not tensor:
            after = lambda then=after: (then() if then else None, tensor.copy_(dense))
        return self._work("reduce", [part], [tensor], after)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        return self._timed("reduce_scatter", self._reduce_scatter, outputs, inputs, opts)

    def _reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        _check(outputs)
        (output,), (pieces,) = outputs, inputs
        _check(pieces)
        if len({piece.numel() for piece in pieces}) == 1:
            flat = torch.cat([piece.reshape(-1) for piece in pieces])
            return self._scatter_flat("reduce_scatter", output, flat, opts)
        parts, afters = [], []  # of unequal sizes: one reduce for each member
        for member, piece in enumerate(pieces):
            dense = piece.contiguous()
            target = output if member == self._rank and output.is_contiguous() else torch.empty_like(dense)
            part, after = self._reduce_part("reduce", f"reduce_scatter {member}", dense.numel(), opts.reduceOp, dense,
                                            target, member)
            parts.append(part)
            if member == self._rank:
                afters = [after] if after else []
                if target is not output:
                    afters.append(lambda of=target: output.copy_(of.view(output.shape)))
        return self._work("reduce_scatter", parts, [output], (lambda: [each() for each in afters]) if afters else None)

    def _scatter_flat(self, what: str, output: torch.Tensor, flat: torch.Tensor, opts: Any) -> Work:
        if flat.numel() != output.numel() * self._size:
            raise errors.InvalidArgument(f"{what}: {flat.numel()} elements in, {output.numel()} out, "
                                         f"in a group of {self._size}")
        if flat.dtype != output.dtype:
            raise errors.InvalidArgument(f"{what}: {flat.dtype} in, {output.dtype} out")
        if output.numel() == 0:
            return self._work(what, [], [output])
        operator = getattr(opts.reduceOp, "op", opts.reduceOp)
        if operator in _bitwise:
            whole = flat.clone()
            part, then = self._all_reduce_bits(whole, operator)
            mine = slice(self._rank * output.numel(), (self._rank + 1) * output.numel())
            return self._work(what, [part], [output],
                              lambda: (then(), output.copy_(whole.reshape(-1)[mine].view(output.shape))))
        target = output if output.is_contiguous() else torch.empty(output.shape, dtype=output.dtype)
        part, after = self._reduce_part("reduce_scatter", what, output.numel(), opts.reduceOp, flat, target)
        if target is not output:
            after = lambda then=after: (then() if then else None, output.copy_(target))
        return self._work(what, [part], [output], after)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Work:
        _check((output, input))
        return self._timed("_reduce_scatter_base", self._scatter_flat, "reduce_scatter_single", output,
                           input.contiguous(), opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        works = [self._scatter_flat("reduce_scatter_single", output, input.contiguous(), opts)
                 for output, input in zip(outputs, inputs)]
        return self._together("reduce_scatter_single", works, list(outputs))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _together(self, what: str, works: list[Work], outputs: list[torch.Tensor]) -> Work:
        parts = [part for work in works for part in work._parts]
        finishes = [work._finish for work in works if work._finish is not None]
        return self._work(what, parts, outputs, (lambda: [each() for each in finishes]) if finishes else None)

    # ---- moving

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("broadcast", self._broadcast, tensors, opts.rootRank)

    def _broadcast(self, tensors: Tensors, root: int) -> Work:
        _check(tensors)
        parts, afters = [], []
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            part, after = self._broadcast_part("broadcast", tensor, root)
            parts.append(part)
            afters += [after] if after else []
        return self._work("broadcast", parts, list(tensors), (lambda: [each() for each in afters]) if afters else None)

    def _broadcast_part(self, what: str, tensor: torch.Tensor, root: int, members: tuple[int, ...] | None = None,
                        sends: bool | None = None) -> tuple[Part, Callable[[], Any] | None]:
        sends = self._rank == root if sends is None else sends
        dense = tensor.contiguous()
        at = dense.data_ptr()
        part = self._move("broadcast", what, dense.numel(), dense, at, at, dense, root, members)
        return part, None if dense is tensor or sends else lambda: tensor.copy_(dense)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        return self._timed("all_gather", self._all_gather, outputs, inputs)

    def _all_gather(self, outputs: Sequence[Tensors], inputs: Tensors) -> Work:
        _check(inputs)
        (pieces,), (mine,) = outputs, inputs
        _check(pieces)
        if len(pieces) != self._size:
            raise errors.InvalidArgument(f"all_gather: {len(pieces)} outputs in a group of {self._size}")
        if pieces[self._rank].numel() != mine.numel() or pieces[self._rank].dtype != mine.dtype:
            raise errors.InvalidArgument(f"all_gather: {mine.numel()} elements of {mine.dtype} in, "
                                         f"{pieces[self._rank].numel()} of {pieces[self._rank].dtype} out")
        if len({piece.numel() for piece in pieces}) == 1:
            flat = torch.empty((self._size, mine.numel()), dtype=mine.dtype)

            def after() -> None:
                for piece, row in zip(pieces, flat):
                    piece.copy_(row.view(piece.shape))
            return self._gather_flat("all_gather", flat, mine, list(pieces), after)
        parts, afters = [], [lambda: pieces[self._rank].copy_(mine)]  # of unequal sizes: each member broadcasts
        for member, piece in enumerate(pieces):
            if piece.numel() > 0:
                part, then = self._broadcast_part(f"all_gather {member}", mine if member == self._rank else piece, member)
                parts.append(part)
                afters += [then] if then else []
        return self._work("all_gather", parts, list(pieces), lambda: [each() for each in afters])

    def _gather_flat(self, what: str, flat: torch.Tensor, mine: torch.Tensor, outputs: list[torch.Tensor],
                     after: Callable[[], Any] | None) -> Work:
        if mine.numel() == 0:
            return self._work(what, [], outputs)
        dense = mine.contiguous()
        part = self._move("all_gather", what, dense.numel(), dense, dense.data_ptr(), flat.data_ptr(), (dense, flat))
        return self._work(what, [part], outputs, after)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        return self._timed("_all_gather_base", self._all_gather_single, output, input)

    def _all_gather_single(self, output: torch.Tensor, input: torch.Tensor) -> Work:
        _check((output, input))
        if output.numel() != input.numel() * self._size:
            raise errors.InvalidArgument(f"all_gather_single: {input.numel()} elements in, {output.numel()} out, "
                                         f"in a group of {self._size}")
        if output.dtype != input.dtype:
            raise errors.InvalidArgument(f"all_gather_single: {input.dtype} in, {output.dtype} out")
        flat = output if output.is_contiguous() else torch.empty(output.shape, dtype=output.dtype)
        return self._gather_flat("all_gather_single", flat, input, [output],
                                 None if flat is output else lambda: output.copy_(flat))

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        works = [self._all_gather_single(output, input) for output, input in zip(outputs, inputs)]
        return self._together("all_gather_single", works, list(outputs))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        pieces = [[row[at] for row in outputs] for at in range(len(inputs))]
        works = [self._all_gather([mine], [input]) for mine, input in zip(pieces, inputs)]
        return self._together("all_gather", works, [piece for row in outputs for piece in row])

    def barrier(self, opts: Any = None) -> Work:
        return self._timed("barrier", self._barrier)

    def _barrier(self) -> Work:
        flag = torch.zeros(1, dtype=torch.int32)
        part, _ = self._reduce_part("all_reduce", "barrier", 1, _Op.SUM, flag, flag)
        return self._work("barrier", [part], [])

    # ---- from one rank to another: a broadcast in a group of two

    def _point(self, what: str, tensor: torch.Tensor, source: int, target: int) -> tuple[Part, Callable[[], Any] | None]:
        return self._broadcast_part(f"{what} {source}->{target}", tensor, 0, (source, target), self._rank == source)

    def _points(self, what: str, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]],
                outputs: list[torch.Tensor]) -> Work:
        """Sends to and receives from members, and from this rank to itself."""
        _check([tensor for tensor, _ in (*sends, *receives)])
        parts, afters = [], []
        own = [tensor for tensor, peer in sends if peer == self._rank]
        for tensor, peer in receives:
            if peer == self._rank:
                mine = own.pop(0)
                tensor.copy_(mine.view(tensor.shape))
            elif tensor.numel() > 0:
                part, after = self._point(what, tensor, peer, self._rank)
                parts.append(part)
                afters += [after] if after else []
        for tensor, peer in sends:
            if peer != self._rank and tensor.numel() > 0:
                parts.append(self._point(what, tensor, self._rank, peer)[0])
        return self._work(what, parts, outputs, (lambda: [each() for each in afters]) if afters else None)

    def send(self, tensors: Tensors, target: int, tag: int) -> Work:
        return self._timed("send", self._points, f"send, tag {tag},", [(tensors[0], target)], [], list(tensors))

    def recv(self, tensors: Tensors, source: int, tag: int) -> Work:
        return self._timed("recv", self._points, f"send, tag {tag},", [], [(tensors[0], source)], list(tensors))

    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        raise errors.InvalidUsage("a receive from any rank: the process group dfccl receives from a named rank only")

    recvAnysource = recv_anysource

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        if self._rank != opts.rootRank:
            return self._timed("gather", self._points, "gather", [(inputs[0], opts.rootRank)], [], [])
        receives = [(output, member) for member, output in enumerate(outputs[0])]
        return self._timed("gather", self._points, "gather", [(inputs[0], self._rank)], receives, list(outputs[0]))

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        sends = [(piece, member) for member, piece in enumerate(inputs[0])] if self._rank == opts.rootRank else []
        return self._timed("scatter", self._points, "scatter", sends, [(outputs[0], opts.rootRank)], list(outputs))

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        return self._timed("all_to_all", self._points, "all_to_all", [(each, at) for at, each in enumerate(inputs)],
                           [(each, at) for at, each in enumerate(outputs)], list(outputs))

    def all_to_all_single(self, output: torch.Tensor, input: torch.Tensor, output_splits: Sequence[int],
                          input_splits: Sequence[int], opts: Any = None) -> Work:
        return self._timed("all_to_all", self._all_to_all, output, input, output_splits, input_splits)

    alltoall_base = all_to_all_single

    def _all_to_all(self, output: torch.Tensor, input: torch.Tensor, output_splits: Sequence[int],
                    input_splits: Sequence[int]) -> Work:
        _check((output, input))
        if not output.is_contiguous() or output.dtype != input.dtype:
            raise errors.InvalidArgument("all_to_all_single: the output must be contiguous and of the input's type")
        dense = input.contiguous()
        if output_splits or input_splits:
            rows_out, rows_in = (self._splits(tensor, splits) for tensor, splits in
                                 ((output, output_splits), (dense, input_splits)))
            return self._points("all_to_all_single", [(each, at) for at, each in enumerate(rows_in)],
                                [(each, at) for at, each in enumerate(rows_out)], [output])
        if dense.numel() != output.numel() or dense.size(0) % self._size != 0:
            raise errors.InvalidArgument(f"all_to_all_single: {tuple(dense.shape)} in, {tuple(output.shape)} out, "
                                         f"in a group of {self._size}")
        if dense.numel() == 0:
            return self._work("all_to_all_single", [], [output])
        part = self._move("all_to_all", "all_to_all_single", dense.numel() // self._size, dense, dense.data_ptr(),
                          output.data_ptr(), (dense, output))
        return self._work("all_to_all_single", [part], [output])

    def _splits(self, tensor: torch.Tensor, splits: Sequence[int]) -> Tensors:
        if not splits:
            if tensor.size(0) % self._size:
                raise errors.InvalidArgument(f"{tensor.size(0)} rows for {self._size} members")
            splits = [tensor.size(0) // self._size] * self._size
        if len(splits) != self._size or sum(splits) != tensor.size(0):
            raise errors.InvalidArgument(f"splits {list(splits)} of {tensor.size(0)} rows in a group of {self._size}")
        return tensor.split(list(splits))

    # ---- several at once, profiles, the end

    def start_coalescing(self, device: Any) -> None:
        self._coalescing.works = []

    def end_coalescing(self, device: Any) -> Work:
        works, self._coalescing.works = self._coalescing.works, None
        return self._together("coalesced", works, [output for work in works for output in work._outputs])

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing

    def _timed(self, what: str, function: Callable[..., Work], *arguments: Any) -> Work:
        if not torch.autograd._profiler_enabled():
            return function(*arguments)
        with torch.profiler.record_function("dfccl:" + what):
            return function(*arguments)

    def abort(self) -> None:
        """Gives up this group's collectives, here and on the other members; other groups go on."""
        self._abort_collectives(list(self._collectives.values()))

    _abort = abort

    def shutdown(self) -> None:
        """Leaves: what is not complete is given up. The last group closes the context."""
        if self not in self._job.groups:
            return
        late = [each for each in self._collectives.values() if not each.done()]
        self._abort_collectives(late)
        for collective in late:
            try:
                collective.wait()
            except errors.Error:
                pass
        self._job.watcher.settle(self)
        if not self._job.leave(self):
            for collective in self._collectives.values():
                collective.deregister()
        self._collectives.clear()

    _shutdown = shutdown


_world: Job | None = None
_jobs = 0


def _join(store: dist.Store, rank: int, size: int, timeout: datetime.timedelta, key: str) -> Job:
    if rank == 0:
        id = unique_id()
        store.set(key, id)
    else:
        id = bytes(store.get(key))
    return Job(Context(rank, size, id, backend="cpu"))


def create(options: Any, _: Any = None) -> ProcessGroup:
    """What torch calls for each group. The first one of all ranks makes the context that later ones share."""
    global _world, _jobs
    size, ranks = options.group_size, list(options.global_ranks_in_group)
    everybody = not ranks
    if _world is not None and not _world.groups:
        _world = None
    if everybody or _world is None:
        _jobs += everybody
        key = f"dfccl {_jobs}" if everybody else "dfccl"
        job = _join(options.store, options.group_rank, size, options.timeout, key)
        if everybody:
            _world = job
        ranks = list(range(size))
    else:
        job = _world
    return ProcessGroup(job, options.store, options.group_id, ranks, options.timeout)
