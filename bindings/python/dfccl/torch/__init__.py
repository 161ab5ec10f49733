"""torch.distributed over dfccl, for tensors of the CPU.

    torch.distributed.init_process_group("dfccl")       # torch 2.15 finds the package by itself; before: import dfccl.torch

Calls meet by their signature: group, operation, number and type of elements, operator and root. Calls of equal
signature meet in the order of each rank's calls, unless they have names: `name` and `all_reduce(..., name=)` here.
`model.register_comm_hook(model, dfccl.torch.ddp_hook)` names DistributedDataParallel's buckets by their parameters.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from . import names
from .backend import Backend
from .group import ProcessGroup
from .hook import ddp_hook
from .job import create
from .names import name
from .works import Work

__all__ = ["Backend", "ProcessGroup", "Work", "all_reduce", "ddp_hook", "name", "register"]


def register() -> None:
    """Tells torch of the backend. Twice does nothing."""
    if "DFCCL" not in dist.Backend._plugins:
        dist.Backend.register_backend("dfccl", create, extended_api=True, devices=["cpu"])


def all_reduce(tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False, *,
               name: str) -> Any:
    """torch.distributed.all_reduce that meets only calls of the same name."""
    with names.name(name):
        return dist.all_reduce(tensor, op, group, async_op)


register()
