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
from torch._C import _distributed_c10d as c10d

from .. import errors
from .interface import refused

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


class Backend(c10d.Backend):
    """Forwards calls to a process group. is_completed() of its works is always False, because C++
    does not call the method of the Python class."""

    supports_splitting = True
    supports_coalescing = True

    def __init__(self, group: ProcessGroup):
        super().__init__(group.getRank(), group.getSize())
        self._group = group
        self._options = c10d.Backend.Options("dfccl", group.timeout())

    @property
    def options(self) -> c10d.Backend.Options:
        return self._options

    def split(
        self, store: dist.Store, ranks: Sequence[int], options: c10d.Backend.Options
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

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        if isinstance(timeout, c10d.BarrierOptions):  # from C++
            timeout = timeout.timeout
        self._group.monitored_barrier(timeout, wait_all_ranks)

    supports_abort_hooks = True
    supports_completion_hooks = False
    supports_reconfigure = False
    supports_shrinking = False
    supports_window = False
    _supports_time_estimate = False

    @property
    def mem_allocator(self) -> Any:
        return self._group.mem_allocator


def _passed_on(name: str) -> Callable[..., Any]:
    def method(self: Backend, *given: Any, **named: Any) -> Any:
        return getattr(self._group, name)(*given, **named)

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
    "_allgather_base",
    "gather",
    "gather_single",
    "gather_into_tensor",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "_reduce_scatter_base",
    "alltoall",
    "alltoall_base",
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
    "_add_ephemeral_timeout",
    "_enable_collectives_timing",
    "_get_backend_name",
    "_set_default_timeout",
    "_wait_for_pending_works",
    "eager_connect_single_device",
    "get_error",
    "perform_nocolor_split",
    "register_abort_hook",
    "setUsePgForSymmMemRendezvous",
    "supports_tensor_alloc",
    "unregister_abort_hook",
    *refused,
):
    setattr(Backend, _name, _passed_on(_name))

# The names under which C++ looks for these methods
Backend.registerAbortHook = Backend.register_abort_hook
Backend.unregisterAbortHook = Backend.unregister_abort_hook
