"""The types and the operators of the library for those of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .. import errors
from ..arrays import DataType, RedOp

Tensors = Sequence[torch.Tensor]
# A signature: name, operation, dtype, count, type, operator, root, members, kind
Key = tuple[Any, ...]
Op = dist.ReduceOp.RedOpType

# Types that are reduced as they are.
types = {
    torch.int8: DataType.int8,
    torch.uint8: DataType.uint8,
    torch.int16: DataType.int16,
    torch.int32: DataType.int32,
    torch.int64: DataType.int64,
    torch.float16: DataType.float16,
    torch.float32: DataType.float32,
    torch.float64: DataType.float64,
    torch.bfloat16: DataType.bfloat16,
    torch.float8_e4m3fn: DataType.float8_e4m3,
    torch.float8_e5m2: DataType.float8_e5m2,
}
for _name in ("uint16", "uint32", "uint64"):
    if hasattr(torch, _name):
        types[getattr(torch, _name)] = DataType[_name]
# Types that the library does not have can be moved: by the size of an element, (type of the
# library, number of them in an element).
moved = {
    1: (DataType.uint8, 1),
    2: (DataType.float16, 1),
    4: (DataType.int32, 1),
    8: (DataType.int64, 1),
}
ops = {
    Op.SUM: RedOp.SUM,
    Op.PRODUCT: RedOp.PROD,
    Op.MAX: RedOp.MAX,
    Op.MIN: RedOp.MIN,
    Op.AVG: RedOp.AVG,
    Op.BAND: RedOp.BAND,
    Op.BOR: RedOp.BOR,
    Op.BXOR: RedOp.BXOR,
}
bool_ops = {
    Op.SUM: RedOp.MAX,
    Op.PRODUCT: RedOp.MIN,
    Op.MAX: RedOp.MAX,
    Op.MIN: RedOp.MIN,
    Op.BOR: RedOp.MAX,
    Op.BAND: RedOp.MIN,
    Op.BXOR: RedOp.BXOR,
}
bitwise = (Op.BAND, Op.BOR, Op.BXOR)


def alive(find: Callable[[], Any]) -> Any:
    """The group of a weak reference. Its calls keep it alive."""
    group = find()
    if group is None:
        raise errors.InvalidUsage("the process group of this call has been destroyed")
    return group


def element(tensor: torch.Tensor) -> tuple[torch.dtype, DataType, int]:
    """The type of torch and of the library that messages name, and the number of elements of the
    library that move one of the tensor. They are its own type if the library has it, and two real
    numbers for a complex one, as torch.distributed passes them."""
    dtype, factor = tensor.dtype, 1
    if dtype.is_complex:
        dtype, factor = dtype.to_real(), 2
    own = types.get(dtype)
    return (dtype, own, factor) if own is not None else (dtype, *moved[tensor.element_size()])
