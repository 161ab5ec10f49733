"""Operations that reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import errors
from ..arrays import DataType
from ..collective import Collective, Held
from . import names
from .types import Op, Tensors, bitwise, bool_ops, check, ops, types
from .works import Part, Work


class Reductions:
    """A part of ProcessGroup."""

    # Members of the process group that these methods use.
    _rank: int
    _size: int
    _plain: dict[Any, Any]
    _check: Any
    _of: Any
    _run: Any
    _timed: Any
    _together: Any
    _work: Any

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
        operator = getattr(op, "op", op)
        dtype, given = source.dtype, source
        if operator in bitwise and (source.is_floating_point() or source.is_complex()):
            raise errors.InvalidArgument(
                f"Cannot use ReduceOp.{operator.name} with non-integral dtype: {dtype}"
            )
        if source.is_complex():
            if operator not in (Op.SUM, Op.AVG):
                raise errors.InvalidArgument(f"{operator.name} of complex numbers")
            source, target = torch.view_as_real(source), torch.view_as_real(target)
            dtype, count = (
                source.dtype,
                tuple(2 * each for each in count) if isinstance(count, tuple) else 2 * count,
            )
        if operator == Op.PREMUL_SUM:
            factor = op.factor if hasattr(op, "factor") else op.__getstate__()[1]
            source, operator = (
                (source * factor).to(dtype),
                Op.SUM,
            )  # a factor of a wider type would widen the tensor
        if dtype is torch.bool:
            type, reduced = DataType.uint8, bool_ops.get(operator)
        else:
            type, reduced = types.get(dtype), ops.get(operator)  # type: ignore[assignment]
        if type is None or reduced is None:
            raise errors.InvalidArgument(f"{what} with {operator.name} of {dtype} is not there")
        collective = self._of(what, dtype, count, type, reduced, root, None, kind)
        return self._run(collective, given, source.data_ptr(), target.data_ptr(), (source, target))

    def _all_reduce(self, what: str, tensors: Tensors, op: Any) -> Work:
        if len(tensors) == 1:
            tensor = tensors[0]
            # The kind is compared, because a comparison of operators takes 0.5 us.
            found = self._plain.get(
                (names.local.name, what, tensor.dtype, tensor.numel(), getattr(op, "op", op))
            )
            if (
                found is not None
                and tensor.layout is torch.strided
                and tensor.is_cpu
                and tensor.is_contiguous()
            ):
                at = tensor.data_ptr()
                try:
                    return self._work(what, [(found, found._submit(at, at, 0, tensor))], [tensor])
                except Held:  # it is being evicted; the slow path waits for that
                    pass
        return self._all_reduce_any(what, tensors, op)

    def _all_reduce_any(self, what: str, tensors: Tensors, op: Any) -> Work:
        check(tensors)
        parts, afters = [], []
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            dense = tensor.contiguous()
            parts.append(self._reduce_part("all_reduce", what, tensor.numel(), op, dense, dense))
            if dense is not tensor:
                afters.append(lambda to=tensor, of=dense: to.copy_(of))
            self._remember_plain(parts[-1][0], what, tensor, op)
        return self._work(
            what, parts, list(tensors), (lambda: [each() for each in afters]) if afters else None
        )

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

    def allreduce(self, tensors: Any, opts: Any = None, *_: Any) -> Work:
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        op = getattr(opts, "reduceOp", opts if opts is not None else Op.SUM)
        if not torch.autograd._profiler_enabled():
            return self._all_reduce("all_reduce", tensors, op)
        return self._timed("all_reduce", self._all_reduce, "all_reduce", tensors, op)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed(
            "all_reduce", self._all_reduce, "all_reduce_coalesced", tensors, opts.reduceOp
        )

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("reduce", self._reduce, tensors, opts)

    def _reduce(self, tensors: Tensors, opts: Any) -> Work:
        check(tensors)
        (tensor,) = tensors
        if tensor.numel() == 0:
            return self._work("reduce", [], [tensor])
        dense = tensor.contiguous()
        part = self._reduce_part(
            "reduce", "reduce", dense.numel(), opts.reduceOp, dense, dense, opts.rootRank
        )
        after = None
        if self._rank == opts.rootRank and dense is not tensor:
            after = lambda: tensor.copy_(dense)
        return self._work("reduce", [part], [tensor], after)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        return self._timed("reduce_scatter", self._reduce_scatter, outputs, inputs, opts)

    def _reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        check(outputs)
        (output,), (pieces,) = outputs, inputs
        check(pieces)
        flat = torch.cat([piece.reshape(-1) for piece in pieces])
        counts = tuple(piece.numel() for piece in pieces)
        if len(set(counts)) == 1:
            return self._scatter_flat("reduce_scatter", output, flat, opts)
        if (
            len(counts) != self._size
            or output.numel() != counts[self._rank]
            or output.dtype != flat.dtype
        ):
            raise errors.InvalidArgument(
                f"reduce_scatter: {list(counts)} elements of {flat.dtype} in, {output.numel()} of "
                f"{output.dtype} out, in a group of {self._size}"
            )
        target = output if output.is_contiguous() else torch.empty(output.shape, dtype=output.dtype)
        part = self._reduce_part(
            "reduce_scatter_v", "reduce_scatter", counts, opts.reduceOp, flat, target
        )
        return self._work(
            "reduce_scatter",
            [part],
            [output],
            (lambda: output.copy_(target)) if target is not output else None,
        )

    def _scatter_flat(self, what: str, output: torch.Tensor, flat: torch.Tensor, opts: Any) -> Work:
        if flat.numel() != output.numel() * self._size:
            raise errors.InvalidArgument(
                f"{what}: {flat.numel()} elements in, {output.numel()} out, "
                f"in a group of {self._size}"
            )
        if flat.dtype != output.dtype:
            raise errors.InvalidArgument(f"{what}: {flat.dtype} in, {output.dtype} out")
        if output.numel() == 0:
            return self._work(what, [], [output])
        target = output if output.is_contiguous() else torch.empty(output.shape, dtype=output.dtype)
        part = self._reduce_part(
            "reduce_scatter", what, output.numel(), opts.reduceOp, flat, target
        )
        return self._work(
            what, [part], [output], (lambda: output.copy_(target)) if target is not output else None
        )

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Work:
        check((output, input))
        return self._timed(
            "_reduce_scatter_base",
            self._scatter_flat,
            "reduce_scatter_single",
            output,
            input.contiguous(),
            opts,
        )

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        works = [
            self._scatter_flat("reduce_scatter_single", output, input.contiguous(), opts)
            for output, input in zip(outputs, inputs)
        ]
        return self._together("reduce_scatter_single", works, list(outputs))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
