"""torch.distributed over dfccl, for tensors of the CPU.

    torch.distributed.init_process_group("dfccl")  # before torch 2.15: import dfccl.torch first

Calls of different ranks are matched by their signature: group, operation, number and type of
elements, operator and root. Calls of equal signature are matched in the order of each rank's calls,
unless they have names: see `name` and `all_reduce(..., name=)`. `model.register_comm_hook(model,
dfccl.torch.ddp_hook)` names DistributedDataParallel's buckets by their parameters.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .. import errors
from . import names
from .backend import Backend
from .group import ProcessGroup
from .hook import ddp_hook
from .job import create
from .names import name
from .survivors import MembershipChanged, on_membership
from .works import Work

__all__ = [
    "Backend",
    "MembershipChanged",
    "ProcessGroup",
    "Work",
    "all_reduce",
    "ddp_hook",
    "dump_flight",
    "flight",
    "name",
    "on_membership",
    "register",
]


def register() -> None:
    """Registers the backend with torch. A second call does nothing."""
    if "DFCCL" not in dist.Backend._plugins:
        dist.Backend.register_backend("dfccl", create, extended_api=True, devices=["cpu"])


def all_reduce(
    tensor: torch.Tensor,
    op: Any = dist.ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    *,
    name: str,
) -> Any:
    """torch.distributed.all_reduce, matched only with calls of the same name."""
    with names.name(name):
        return dist.all_reduce(tensor, op, group, async_op)


def _recorder(group: Any) -> Any:
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, ProcessGroup):
        group = getattr(
            group._get_backend(torch.device("cpu")), "_group", None
        )  # "cpu:dfccl,cuda:nccl"
    if group is None:
        raise errors.InvalidUsage(
            "the flight recorder belongs to process groups of the backend dfccl"
        )
    return group._job.flight


def flight(group: Any = None) -> dict[str, Any]:
    """The last calls of this process in all groups that share the group's context, in the format
    of torch's flight recorder."""
    return _recorder(group).flight()


def dump_flight(folder: str, group: Any = None) -> None:
    """Writes flight() to FOLDER/rank_R, which torchfrtrace reads, and to FOLDER/R.json, which
    dfccl-sim check reads."""
    _recorder(group).dump(folder)


register()
