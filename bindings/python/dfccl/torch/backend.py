"""The backend of one device of a process group in which other devices have other backends.

    init_process_group("cpu:dfccl,cuda:nccl")

Such a group is an object of C++ that calls the backend of each device. A process group in Python
cannot be one of these backends: it would replace the whole group. So this backend owns a process
group of its own, and forwards calls to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch._C._distributed_c10d import Backend as C10dBackend

from .. import errors

if TYPE_CHECKING:
    from .group import ProcessGroup


def is_one_of_several() -> bool:
    """Whether the group that torch is making has other backends in addition to this one.

    torch does not pass this to the function that makes a backend, so it is read from a variable of
    the caller.
    """
    frame = sys._getframe(1)
    while frame is not None and "backend_config" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return (
        frame is not None
        and len(set(frame.f_locals["backend_config"].get_device_backend_map().values())) > 1
    )


class Backend(C10dBackend):
    """Forwards calls to a process group. is_completed() of its works is always False, because C++
    does not call the method of the Python class."""

    supports_splitting = True
    supports_coalescing = True

    def __init__(self, group: ProcessGroup):
        super().__init__(group.getRank(), group.getSize())
        self._group = group
        self._options = C10dBackend.Options("dfccl", group.timeout())

    @property
    def options(self) -> C10dBackend.Options:
        return self._options

    def split(
        self, store: dist.Store, ranks: Sequence[int], options: C10dBackend.Options
    ) -> Backend:
        made = self._group.split_group(ranks, options._timeout, None, options.group_name)
        if made is None:  # a work of None would crash torch
            raise errors.InvalidUsage(
                f"split_group leaves rank {self._group.getRank()} out; beside another backend each "
                "rank "
                "needs a group: give it one, or use new_group"
            )
        return Backend(made)

    def start_coalescing(self) -> None:
        self._group.start_coalescing(None)

    def end_coalescing(self) -> Any:
        return self._group.end_coalescing(None)

    def monitored_barrier(self, options: Any, wait_all_ranks: bool = False) -> None:
        self._group.monitored_barrier(options.timeout, wait_all_ranks)


def _passed_on(name: str) -> Callable[..., Any]:
    def method(self: Backend, *arguments: Any) -> Any:
        return getattr(self._group, name)(*arguments)

    method.__name__ = name
    return method


for _name in (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "broadcast",
    "allgather",
    "allgather_coalesced",
    "all_gather_single",
    "all_gather_single_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "alltoall",
    "all_to_all_single",
    "send",
    "recv",
    "recv_anysource",
    "barrier",
    "abort",
    "shutdown",
    "set_timeout",
    "getBackendName",
    "_get_sequence_number_for_group",
    "_set_sequence_number_for_group",
):
    setattr(Backend, _name, _passed_on(_name))
