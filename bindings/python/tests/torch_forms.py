"""The forms of the methods of torch's process group, as its binding has them, and calls of all
forms of its operations."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

LIMIT = datetime.timedelta(seconds=20)
_INT = "typing.SupportsInt | typing.SupportsIndex"


# ---- the methods of torch and their forms, read from the texts of its binding


def overloads(kind: type, name: str) -> list[list[tuple[str, str, bool]]]:
    """The forms of a method: parameters (name, type, whether there is a default)."""
    found = []
    for line in (getattr(kind, name).__doc__ or "").splitlines():
        match = re.match(rf"(?:\d+\. )?{name}\((self: [^,)]+(?:, )?)?(.*)\) -> ", line)
        if match and "*args" not in line:
            parameters = []
            for part in re.split(r", (?=\w+: )", match[2]) if match[2] else []:
                parameter, _, rest = part.partition(": ")
                type_text, _, default = rest.partition(" = ")
                for long in ("collections.abc.", "torch._C._distributed_c10d.", "torch."):
                    type_text = type_text.replace(long, "")
                parameters.append((parameter, type_text.replace(_INT, "int"), bool(default)))
            found.append(parameters)
    return found


def methods(kind: type) -> list[str]:
    return [
        name
        for name, value in vars(kind).items()
        if not name.startswith("__")
        and not name.startswith("_pybind11")
        and not isinstance(value, (property, type))
        and callable(value)
    ]


def properties(kind: type) -> list[str]:
    return [name for name, value in vars(kind).items() if isinstance(value, property)]


# ---- the operations, each with its data, and what they must result in


def _both(rank: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    return [torch.zeros(3) for _ in range(2)], torch.full((3,), float(rank))


def has_values(tensor: torch.Tensor, *values: float) -> None:
    count = tensor.numel() // len(values)
    expected = torch.tensor(values).repeat_interleave(count)
    assert torch.equal(tensor.flatten(), expected), (tensor, values)


def _sum(values: list[float], op: Any) -> float:
    return max(values) if op == dist.ReduceOp.MAX else sum(values)


class Data:
    """The tensors of one operation, and the check of its result: check(rank, op, root)."""

    def __init__(self, outputs: Any, inputs: Any, check: Callable[[int, Any, int], Any]):
        self.outputs, self.inputs, self.check = outputs, inputs, check


def _in_place(rank: int, check: Callable[[torch.Tensor, int, Any, int], Any]) -> Data:
    tensor = torch.full((3,), float(rank + 1))
    return Data(None, tensor, lambda rank, op, root: check(tensor, rank, op, root))


def _allreduce(rank: int, root: int) -> Data:
    return _in_place(rank, lambda it, rank, op, root: has_values(it, _sum([1, 2], op)))


def _reduce(rank: int, root: int) -> Data:
    def check(it: torch.Tensor, rank: int, op: Any, root: int) -> None:
        if rank == root:
            has_values(it, _sum([1, 2], op))

    return _in_place(rank, check)


def _broadcast(rank: int, root: int) -> Data:
    return _in_place(rank, lambda it, rank, op, root: has_values(it, root + 1))


def _allgather(rank: int, root: int) -> Data:
    outputs, mine = _both(rank)
    return Data(outputs, mine, lambda rank, op, root: has_values(torch.cat(outputs), 0, 1))


def _all_gather_single(rank: int, root: int) -> Data:
    output = torch.zeros(6)
    return Data(
        output, torch.full((3,), float(rank)), lambda rank, op, root: has_values(output, 0, 1)
    )


def _gather(rank: int, root: int) -> Data:
    outputs, mine = _both(rank)

    def check(rank: int, op: Any, root: int) -> None:
        if rank == root:
            has_values(torch.cat(outputs), 0, 1)

    return Data(outputs if rank == root else [], mine, check)


def _gather_single(rank: int, root: int) -> Data:
    output = torch.zeros(6)

    def check(rank: int, op: Any, root: int) -> None:
        if rank == root:
            has_values(output, 0, 1)

    return Data(output, torch.full((3,), float(rank)), check)


def _scatter(rank: int, root: int) -> Data:
    output = torch.zeros(3)
    inputs = [torch.full((3,), 10.0 * rank + each) for each in (0, 1)]
    return Data(
        output,
        inputs if rank == root else [],
        lambda rank, op, root: has_values(output, 10 * root + rank),
    )


def _reduce_scatter(rank: int, root: int) -> Data:
    output = torch.zeros(3)
    inputs = [torch.full((3,), 10.0 * rank + each) for each in (0, 1)]
    return Data(
        output, inputs, lambda rank, op, root: has_values(output, _sum([rank, 10 + rank], op))
    )


def _reduce_scatter_single(rank: int, root: int) -> Data:
    data = _reduce_scatter(rank, root)
    data.inputs = torch.cat(data.inputs)
    return data


def _alltoall(rank: int, root: int) -> Data:
    outputs = [torch.zeros(3) for _ in range(2)]
    inputs = [torch.full((3,), 10.0 * rank + each) for each in (0, 1)]
    return Data(
        outputs, inputs, lambda rank, op, root: has_values(torch.cat(outputs), rank, 10 + rank)
    )


def _alltoall_base(rank: int, root: int) -> Data:
    output = torch.zeros(4)
    return Data(
        output, torch.full((4,), float(rank)), lambda rank, op, root: has_values(output, 0, 1)
    )


OPERATIONS: dict[str, Callable[[int, int], Data]] = {
    "allreduce": _allreduce,
    "allreduce_coalesced": _allreduce,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "allgather": _allgather,
    "allgather_coalesced": _allgather,
    "all_gather_single": _all_gather_single,
    "_allgather_base": _all_gather_single,
    "all_gather_single_coalesced": _all_gather_single,
    "allgather_into_tensor_coalesced": _all_gather_single,
    "gather": _gather,
    "gather_single": _gather_single,
    "gather_into_tensor": _gather_single,
    "scatter": _scatter,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter_single,
    "_reduce_scatter_base": _reduce_scatter_single,
    "reduce_scatter_single_coalesced": _reduce_scatter_single,
    "reduce_scatter_tensor_coalesced": _reduce_scatter_single,
    "alltoall": _alltoall,
    "alltoall_base": _alltoall_base,
    "all_to_all_single": _alltoall_base,
    "barrier": lambda rank, root: Data(None, None, lambda rank, op, root: None),
}
# allgather_coalesced has a list for each rank, each with an output for each input
_turned = ("allgather_coalesced",)


def _nested(value: Any, type_text: str) -> Any:
    """A value of a parameter's type: a list of it if the type is one level deeper."""
    depth = type_text.count("Sequence[")
    if value == []:
        return []
    while depth > (1 if isinstance(value, list) else 0):
        value, depth = [value], depth - 1
    return value


def _argument(method: str, name: str, type_text: str, data: Data, given: dict[str, Any]) -> Any:
    if type_text.endswith("Options"):
        options = getattr(c10d, type_text)()
        options.timeout = LIMIT
        for setting, of in (("reduceOp", "op"), ("rootRank", "root")):
            if hasattr(options, setting):
                setattr(options, setting, given[of])
        return options
    if name in given:
        return given[name]
    if name.endswith("sizes"):
        return []
    value = data.outputs if name.startswith("output") else data.inputs
    if method in _turned and name.startswith("output"):
        return [[each] for each in value]
    return _nested(value, type_text)


def _ways(
    method: str, form: list[tuple[str, str, bool]], rank: int
) -> list[tuple[str, list[Any], dict[str, Any], Data, Any, int]]:
    """The calls of one form: by position, by name, and without what has a default."""
    found = []
    for way in ("positions", "names", "defaults"):
        names = [name for name, _, _ in form]
        has_options = any(text.endswith("Options") for _, text, _ in form)
        has_op = "op" in names or (has_options and "reduce" in method)
        has_root = "root" in names or (
            has_options
            and any(each in method for each in ("broadcast", "gather", "scatter", "reduce"))
            and "all" not in method
            and "reduce_scatter" not in method
        )
        optional_root = has_root and "root" not in names
        op = dist.ReduceOp.MAX if has_op and way != "defaults" else dist.ReduceOp.SUM
        root = 1 if has_root and (way != "defaults" or not optional_root) else 0
        data = OPERATIONS[method](rank, root)
        given = {"op": op, "root": root, "timeout": LIMIT}
        arguments = [
            (name, _argument(method, name, text, data, given))
            for name, text, default in form
            if way != "defaults" or not default
        ]
        positions = [value for _, value in arguments] if way != "names" else []
        by_name = dict(arguments) if way == "names" else {}
        found.append((way, positions, by_name, data, op, root))
    return found


def call_all(group: Any, kind: type, rank: int) -> list[str]:
    """Calls each form of each operation. Returns the calls that fail."""
    failed = []
    is_gloo = dist.get_backend() == "gloo"
    for method in OPERATIONS:
        if method not in vars(kind):
            continue
        for number, form in enumerate(overloads(kind, method)):
            # Gloo refuses the lists that torch's short forms make on ranks that are not the root
            if is_gloo and number > 0 and method in ("gather", "scatter"):
                continue
            for way, positions, names, data, op, root in _ways(method, form, rank):
                try:
                    getattr(group, method)(*positions, **names).wait()
                    data.check(rank, op, root)
                except Exception as error:
                    failed.append(f"{method}, form {number + 1}, {way}: {error!r}"[:300])
                dist.barrier()
    return failed
