"""Operations that reduce."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from .. import errors
from ..arrays import DataType
from .types import Op, Tensors, bitwise, bool_ops, check, ops, types
from .works import Part, Work


class Reductions:
    """A part of ProcessGroup."""

    def _reduce_part(self, kind: str, what: str, count: int, op: Any, source: torch.Tensor, target: torch.Tensor,
                     root: int | None = None) -> tuple[Part, Callable[[], Any] | None]:
        """One run that reduces, from and to memory in one piece; and what is to be done afterwards."""
        operator = getattr(op, "op", op)
        dtype, given = source.dtype, None if what == "barrier" else source
        if source.is_complex():
            if operator not in (Op.SUM, Op.AVG):
                raise errors.InvalidArgument(f"{operator.name} of complex numbers")
            source, target = torch.view_as_real(source), torch.view_as_real(target)
            count, dtype = 2 * count, source.dtype
        if operator is Op.PREMUL_SUM:
            factor = op.factor if hasattr(op, "factor") else op.__getstate__()[1]
            source, operator = source * factor, Op.SUM
        after = None
        if dtype is torch.bool:
            type, reduced = DataType.uint8, bool_ops.get(operator)
        else:
            type, reduced = types.get(dtype), ops.get(operator)
        if type is None and dtype in (torch.int16, getattr(torch, "uint16", None)):  # in int32, and cut: exact
            wide, result = source.to(torch.int32), target
            narrow = wide if target.numel() == wide.numel() else torch.empty(target.numel(), dtype=torch.int32)
            source, target, type = wide, narrow, DataType.int32
            after = lambda: result.copy_(narrow.view(result.shape).to(result.dtype))
        if type is None or reduced is None:
            raise errors.InvalidArgument(f"{what} with {operator.name} of {dtype} is not there")
        collective = self._of(what, dtype, count, type, reduced, root, None, kind)
        return self._run(collective, given, source.data_ptr(), target.data_ptr(), (source, target)), after

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
                total = bitwise[op](total, row)
            tensor.copy_(total.view(tensor.shape))
        return part, after

    def _all_reduce(self, what: str, tensors: Tensors, op: Any) -> Work:
        check(tensors)
        parts, afters = [], []
        operator = getattr(op, "op", op)
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            if operator in bitwise and not (tensor.dtype is torch.bool and operator in bool_ops):
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
        op = getattr(opts, "reduceOp", opts if opts is not None else Op.SUM)
        return self._timed("all_reduce", self._all_reduce, "all_reduce", tensors, op)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("all_reduce", self._all_reduce, "all_reduce_coalesced", tensors, opts.reduceOp)

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        return self._timed("reduce", self._reduce, tensors, opts)

    def _reduce(self, tensors: Tensors, opts: Any) -> Work:
        check(tensors)
        tensor, = tensors
        operator = getattr(opts.reduceOp, "op", opts.reduceOp)
        if tensor.numel() == 0:
            return self._work("reduce", [], [tensor])
        if operator in bitwise and not (tensor.dtype is torch.bool and operator in bool_ops):
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
        check(outputs)
        (output,), (pieces,) = outputs, inputs
        check(pieces)
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
        if operator in bitwise:
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
        check((output, input))
        return self._timed("_reduce_scatter_base", self._scatter_flat, "reduce_scatter_single", output,
                           input.contiguous(), opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        works = [self._scatter_flat("reduce_scatter_single", output, input.contiguous(), opts)
                 for output, input in zip(outputs, inputs)]
        return self._together("reduce_scatter_single", works, list(outputs))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
