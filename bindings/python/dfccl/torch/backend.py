"""The backend of one device of a process group, beside another library's:
init_process_group("cpu:dfccl,cuda:nccl").

A group whose devices have several backends is an object of C++ that calls each of them. A process
group in Python would take its place, and the other backends with it. So it has this one, which
passes calls on to a process group of its own.
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
    """Whether the group that torch is making has backends besides this one.

    torch does not tell the function that makes a backend: its caller's variable knows.
    """
    frame = sys._getframe(1)
    while frame is not None and "backend_config" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return (
        frame is not None
        and len(set(frame.f_locals["backend_config"].get_device_backend_map().values())) > 1
    )


class Backend(C10dBackend):
    """Passes calls on. Its works' is_completed() is always False: C++ does not ask Python for
    it."""

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
        if made is None:  # None would crash torch
            raise errors.InvalidUsage(
                f"split_group leaves rank {self._group.getRank()} out; beside another backend each rank "
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
