"""The rest of the interface of torch's process groups and backends: what a program can ask of a
group besides operations, and what is refused.

torch calls a process group in Python where it expects a backend in C++, too. So the group has the
methods of both.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .. import errors
from .hooks import Hooks

if TYPE_CHECKING:
    from .group import ProcessGroup

_fixed = "the ranks of a job are fixed when it begins; use new_group or split_group"
_one_sided = "one-sided operations are not implemented"
_no_memory = "operations take any memory of the CPU, so there is no allocator"
_always = "a job has no state that it can give up while it goes on"
_no_estimates = "the time of operations is not estimated"
# The methods that raise InvalidUsage, and why.
refused = {
    "_end_time_estimate": _no_estimates,
    "_register_backend": (
        "a group has one backend; init_process_group('cpu:dfccl,cuda:nccl') makes one of several"
    ),
    "_register_on_completion_hook": "use Work.get_future().then(), or register_post_hook",
    "_start_time_estimate": _no_estimates,
    "allocate_tensor": _no_memory,
    "allreduce_sparse": "the tensors of a collective are dense; gather values and indices instead",
    "get_reconfigure_handle": _fixed,
    "merge": _fixed,
    "merge_remote_group": _fixed,
    "memory_stats": _no_memory,
    "new_window": _one_sided,
    "reconfigure": _fixed,
    "resume": _always,
    "shrink": _fixed,
    "suspend": _always,
}


def refusal(name: str) -> Callable[..., Any]:
    """The method of a refused name."""

    def method(self: Any, *given: Any, **named: Any) -> Any:
        raise errors.InvalidUsage(f"{name} of a process group dfccl: {refused[name]}")

    method.__name__ = name
    return method


def _error_type(error: BaseException) -> str:
    if isinstance(error, errors.Timeout):
        return "TIMEOUT"
    return "REMOTE_ERROR" if isinstance(error, errors.RemoteError) else "COMM_ERROR"


def check_device(device: torch.device | None) -> None:
    """Raises InvalidUsage if a device is none of the CPU."""
    if device is not None and torch.device(device).type != "cpu":
        raise errors.InvalidUsage(
            f"the process group dfccl has no backend for {device}: it takes tensors of the CPU"
        )


class Interface:
    """A part of ProcessGroup."""

    # Members of the process group that these methods use.
    _facts: Any
    _hooks: Hooks
    _id: Any
    _name: str
    _ranks: list[int]
    _timeout: float
    split_group: Any
    timeout: Any

    supports_abort_hooks = True
    supports_coalescing = False
    supports_completion_hooks = False
    supports_reconfigure = False
    supports_shrinking = False
    supports_window = False
    _supports_time_estimate = False
    _last_error = "SUCCESS"

    # ---- devices and connections

    def eager_connect_single_device(self, device: torch.device | None = None) -> None:
        """All ranks are connected when the group is made."""
        check_device(device)

    def perform_nocolor_split(self, device: torch.device | None = None) -> None:
        """No rank waits for another one that makes a group without it."""
        check_device(device)

    def supports_tensor_alloc(self, device: Any = None) -> bool:
        return False

    @property
    def mem_allocator(self) -> Any:
        raise errors.InvalidUsage(f"mem_allocator of a process group dfccl: {_no_memory}")

    @property
    def use_pg_for_symm_mem_rendezvous(self) -> bool:
        return False

    @use_pg_for_symm_mem_rendezvous.setter
    def use_pg_for_symm_mem_rendezvous(self, value: bool) -> None:
        self.setUsePgForSymmMemRendezvous(value)

    def setUsePgForSymmMemRendezvous(self, value: bool) -> None:
        if value:
            raise errors.InvalidUsage(
                "use_pg_for_symm_mem_rendezvous of a process group dfccl: symmetric memory belongs "
                "to GPUs"
            )

    def _backend_id(self, backend_type: Any) -> int:
        self._set_default_backend(backend_type)
        return self._id()

    def _set_default_backend(self, backend_type: Any) -> None:
        if backend_type != dist.ProcessGroup.BackendType.CUSTOM:
            raise errors.InvalidUsage(
                f"the process group dfccl has no backend of type {backend_type}: its type is "
                f"{dist.ProcessGroup.BackendType.CUSTOM}"
            )

    def _get_backend_name(self) -> str:
        return "dfccl"

    @property
    def options(self) -> c10d.Backend.Options:
        made = c10d.Backend.Options("dfccl", self.timeout())
        made.group_name = self._name
        made.global_ranks_in_group = self._ranks
        return made

    def split(
        self, store: dist.Store, ranks: Sequence[int], opts: c10d.Backend.Options
    ) -> ProcessGroup | None:
        return self.split_group(ranks, opts=opts)

    def _set_group_uid(self, pg_uid: str) -> None:
        """The name of the group is its id."""

    # ---- hooks and errors

    def register_pre_hook(self, hook_id: int, hook: Callable[[Any], None]) -> None:
        self._hooks.add("pre", hook_id, hook)

    def unregister_pre_hook(self, hook_id: int) -> None:
        self._hooks.remove("pre", hook_id)

    def register_post_hook(self, hook_id: int, hook: Callable[[Any], None]) -> None:
        self._hooks.add("post", hook_id, hook)

    def unregister_post_hook(self, hook_id: int) -> None:
        self._hooks.remove("post", hook_id)

    def register_abort_hook(self, hook_id: int, hook: Callable[[], None]) -> None:
        """The hook is called before the group is aborted, and when an operation has failed or is
        late, possibly several times."""
        self._hooks.add("abort", hook_id, hook)

    def unregister_abort_hook(self, hook_id: int) -> None:
        self._hooks.remove("abort", hook_id)

    def get_error(self) -> Any:
        """The kind of the last failure, an ErrorType of torch."""
        return getattr(c10d.ErrorType, self._last_error)

    def _has_failed(self, error: BaseException) -> None:
        self._last_error = _error_type(error)
        self._hooks.abort()

    def _wait_for_pending_works(self) -> None:
        """Waits for completion hooks, of which there are none."""

    def _has_hooks(self) -> bool:
        return False

    def _enable_collectives_timing(self) -> None:
        """The flight recorder has the times of all calls."""

    def _add_ephemeral_timeout(self, timeout: datetime.timedelta) -> None:
        """Ignored, as by torch's own backends of the CPU."""


for _name in refused:
    setattr(Interface, _name, refusal(_name))
