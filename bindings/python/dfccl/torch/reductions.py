"""Operations that reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from .. import errors
from ..arrays import DataType, RedOp
from ..collective import Collective, Held
from . import names
from .forms import check_pairs, no_time, operation, the_one
from .tensors import (
    After,
    apart,
    distinct,
    flat,
    in_place,
    landing,
    own_classes,
    packed,
    together,
    writable,
)
from .types import Op, Tensors, bitwise, bool_ops, ops, types
from .works import Part, Work


class Reductions:
    """A part of ProcessGroup."""

    # Members of the process group that these methods use.
    _rank: int
    _size: int
    _plain: dict[Any, Any]
    _check: Any
    _hooks: Any
    _of: Any
    _run: Any
    _timed: Any
    _together: Any
    _work: Any

    def _reduction(self, what: str, dtype: torch.dtype, op: Any) -> tuple[DataType, RedOp, int]:
        """The type and the operator of the library, and the number of its elements in one element.
        Raises InvalidArgument if there are none."""
        operator = getattr(op, "op", op)
        if operator in bitwise and (dtype.is_floating_point or dtype.is_complex):
            raise errors.InvalidArgument(
                f"Cannot use ReduceOp.{operator.name} with non-integral dtype: {dtype}"
            )
        if dtype.is_complex and operator not in (Op.SUM, Op.AVG):
            raise errors.InvalidArgument(f"{operator.name} of complex numbers")
        real = dtype.to_real() if dtype.is_complex else dtype
        operator = Op.SUM if operator == Op.PREMUL_SUM else operator
        type, reduced = (
            (DataType.uint8, bool_ops.get(operator))
            if dtype is torch.bool
            else (types.get(real), ops.get(operator))
        )
        if type is None or reduced is None:
            raise errors.InvalidArgument(f"{what} with {operator.name} of {dtype} is not there")
        return type, reduced, 2 if dtype.is_complex else 1

    def _reduce_part(
        self,
        kind: str,
        what: str,
        count: int | tuple[int, ...],
        op: Any,
        source: torch.Tensor,
        target: torch.Tensor,
        root: int | None = None,
    ) -> Part:
        """Submits one run that reduces, between contiguous buffers."""
        type, reduced, factor = self._reduction(what, source.dtype, op)
        dtype, given = source.dtype, source
        if factor > 1:
            dtype = dtype.to_real()
            count = (
                tuple(factor * each for each in count)
                if isinstance(count, tuple)
                else factor * count
            )
        if getattr(op, "op", op) == Op.PREMUL_SUM:
            scale = op.factor if hasattr(op, "factor") else op.__getstate__()[1]
            with torch.no_grad():  # a factor of a wider type would widen the tensor
                source = (source * scale).to(source.dtype)
        collective = self._of(what, dtype, count, type, reduced, root, None, kind)
        return self._run(collective, given, source.data_ptr(), target.data_ptr(), (source, target))

    def _all_reduce(self, what: str, tensors: Tensors, op: Any) -> Work:
        if len(tensors) == 1:
            tensor = tensors[0]
            # The kind is compared, because a comparison of operators takes 0.5 us.
            found = self._plain.get(
                (names.local.name, what, tensor.dtype, tensor.numel(), getattr(op, "op", op))
            )
            at = 0
            # `_plain` has no types with a conjugation or a scale, and a tensor with any other
            # property that its bytes do not show has no address.
            if (
                found is not None
                and type(tensor) in own_classes
                and not tensor.is_neg()
                and not tensor.is_nested
                and tensor.is_cpu
            ):
                try:
                    at = tensor.data_ptr() if tensor.is_contiguous() else 0
                except RuntimeError:  # it has no memory; the slow path refuses it
                    pass
            if found is not None and at and (not at & 7 or at % tensor.element_size() == 0):
                try:
                    return self._work(what, [(found, found._submit(at, at, 0, tensor))], [tensor])
                except Held:  # it is being evicted; the slow path waits for that
                    pass
        return self._all_reduce_any(what, tensors, op)

    def _all_reduce_any(self, what: str, tensors: Tensors, op: Any) -> Work:
        parts, afters = [], []
        distinct(what, tensors)
        memory = [in_place(tensor) for tensor in tensors]
        for dense, _ in memory:
            self._reduction(what, dense.dtype, op)
        for tensor, (dense, after) in zip(tensors, memory):
            if dense.numel() > 0:
                parts.append(self._reduce_part("all_reduce", what, dense.numel(), op, dense, dense))
                afters.append(after)
                self._remember_plain(parts[-1][0], what, tensor, op)
        return self._work(what, parts, list(tensors), together(afters))

    def _remember_plain(
        self, collective: Collective, what: str, tensor: torch.Tensor, op: Any
    ) -> None:
        """Stores the collective for the next such all-reduce, which then needs no look-up of its
        type and its operator.

        Two cases are not stored: torch's operators with different factors compare as equal, and
        complex numbers are reduced as two real numbers each.
        """
        kind = getattr(op, "op", op)
        if self._check is None and tensor.dtype in types and kind in ops:
            collective.plain = names.local.name, what, tensor.dtype, tensor.numel(), kind
            self._plain[collective.plain] = collective

    @operation(
        "ALLREDUCE", c10d.AllreduceOptions, "tensors", "tensors, op, timeout", "tensor, op, timeout"
    )
    def _allreduce(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("all_reduce", self._all_reduce, "all_reduce", tensors, opts.reduceOp)

    def allreduce(self, *given: Any, **named: Any) -> Work:
        # Small all-reduces are the calls of which most are made, so torch's own form is recognized
        # without the costs of `operation`.
        if len(given) == 2 and not named:
            tensors, opts = given
            if (
                type(opts) is c10d.AllreduceOptions
                and type(tensors) is list
                and not self._hooks.any
                and not torch.autograd._profiler_enabled()
            ):
                work = self._all_reduce("all_reduce", tensors, opts.reduceOp)
                if (timeout := opts.timeout) > no_time:
                    work._limit = timeout.total_seconds()
                return work
        return self._allreduce(*given, **named)

    @operation("ALLREDUCE_COALESCED", c10d.AllreduceCoalescedOptions, "tensors")
    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed(
            "all_reduce", self._all_reduce, "all_reduce_coalesced", tensors, opts.reduceOp
        )

    @operation("REDUCE", c10d.ReduceOptions, "tensors", "tensor, root: int, op, timeout")
    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("reduce", self._reduce, tensors, opts)

    def _reduce(self, tensors: Tensors, opts: Any) -> Work:
        tensor = the_one("reduce", tensors)
        # Also other members' tensors must be writable, so that all refuse what the root refuses
        dense, after = in_place(tensor)
        if dense.numel() == 0:
            return self._work("reduce", [], [tensor])
        part = self._reduce_part(
            "reduce", "reduce", dense.numel(), opts.reduceOp, dense, dense, opts.rootRank
        )
        return self._work(
            "reduce", [part], [tensor], after if self._rank == opts.rootRank else None
        )

    @operation(
        "REDUCE_SCATTER",
        c10d.ReduceScatterOptions,
        "output_tensors: tensors, input_tensors: lists",
        "output|output_tensors: tensor, input|input_tensor: tensors, op, timeout",
    )
    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        return self._timed("reduce_scatter", self._reduce_scatter, outputs, inputs, opts)

    def _reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        output, pieces = the_one("reduce_scatter", outputs), the_one("reduce_scatter", inputs)
        writable(output)
        sent = flat(pieces)
        counts = tuple(piece.numel() for piece in pieces)
        if len(set(counts)) == 1:
            return self._scatter_flat("reduce_scatter", output, sent, opts)
        target, after = landing(output)
        if (
            len(counts) != self._size
            or target.numel() != counts[self._rank]
            or target.dtype != sent.dtype
        ):
            raise errors.InvalidArgument(
                f"reduce_scatter: {list(counts)} elements of {sent.dtype} in, {target.numel()} of "
                f"{target.dtype} out, in a group of {self._size}"
            )
        part = self._reduce_part(
            "reduce_scatter_v", "reduce_scatter", counts, opts.reduceOp, sent, target
        )
        return self._work("reduce_scatter", [part], [output], after)

    def _prepared_scatter(
        self, what: str, output: torch.Tensor, input: torch.Tensor, op: Any
    ) -> tuple[torch.Tensor, torch.Tensor, After]:
        """The memory of the output and of the input, and what remains to be done."""
        (target, after), dense = landing(output), packed(input)
        if dense.numel() != target.numel() * self._size:
            raise errors.InvalidArgument(
                f"{what}: {dense.numel()} elements in, {target.numel()} out, "
                f"in a group of {self._size}"
            )
        if dense.dtype != target.dtype:
            raise errors.InvalidArgument(f"{what}: {dense.dtype} in, {target.dtype} out")
        self._reduction(what, dense.dtype, op)
        # In place, the output is a part of the input
        return target, apart(dense, target, -self._rank * target.numel()), after

    def _scatter_flat(
        self, what: str, output: torch.Tensor, input: torch.Tensor, opts: Any
    ) -> Work:
        target, dense, after = self._prepared_scatter(what, output, input, opts.reduceOp)
        return self._scatter_prepared(what, output, target, dense, after, opts)

    def _scatter_prepared(
        self,
        what: str,
        output: torch.Tensor,
        target: torch.Tensor,
        dense: torch.Tensor,
        after: After,
        opts: Any,
    ) -> Work:
        if target.numel() == 0:
            return self._work(what, [], [output])
        part = self._reduce_part(
            "reduce_scatter", what, target.numel(), opts.reduceOp, dense, target
        )
        return self._work(what, [part], [output], after)

    @operation(
        "REDUCE_SCATTER_BASE",
        c10d.ReduceScatterOptions,
        "outputTensor|output: tensor, inputTensor|input: tensor",
    )
    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Work:
        return self._timed(
            "_reduce_scatter_base", self._scatter_flat, "reduce_scatter_single", output, input, opts
        )

    _reduce_scatter_base = reduce_scatter_single

    @operation(
        "REDUCE_SCATTER_TENSOR_COALESCED",
        c10d.ReduceScatterOptions,
        "outputs|outputTensors: tensors, inputs|inputTensors: tensors",
    )
    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        check_pairs("reduce_scatter_single", outputs, inputs)
        distinct("reduce_scatter_single", outputs)
        prepared = [
            self._prepared_scatter("reduce_scatter_single", output, input, opts.reduceOp)
            for output, input in zip(outputs, inputs)
        ]
        works = [
            self._scatter_prepared("reduce_scatter_single", output, *each, opts)
            for output, each in zip(outputs, prepared)
        ]
        return self._together("reduce_scatter_single", works, list(outputs))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
