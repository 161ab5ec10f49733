"""Jobs: the context that process groups share, and how the first group makes it."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from ..context import Context, unique_id
from .backend import Backend, is_one_of_several
from .check import asked
from .flight import Flight, flight_settings
from .group import ProcessGroup
from .works import Watcher


class Job:
    """One context for all process groups of a set of ranks."""

    def __init__(self, context: Context, checks: bool, flight: Flight):
        self.context, self.watcher, self.flight, self.groups = context, Watcher(), flight, set[Any]()
        self.checks = checks  # DFCCL_TORCH_CHECK, as rank 0 has it

    def leave(self, group: Any) -> bool:
        """Returns whether this was the last group: the context is closed."""
        self.groups.discard(group)
        if self.groups:
            return False
        self.watcher.stop()
        self.flight.stop()
        self.context.close()
        return True


_world: Job | None = None
_jobs = 0


def _join(store: dist.Store, rank: int, size: int, key: str) -> Job:
    checks, settings = asked(), flight_settings()
    if rank == 0:
        told = unique_id() + (b"1" if checks else b"0")
        store.set(key, told)
    else:
        told = bytes(store.get(key))
    return Job(Context(rank, size, told[:-1], backend="cpu"), told[-1:] == b"1", Flight(store, key, rank, *settings))


def create(options: Any, _: Any = None) -> ProcessGroup | Backend:
    """What torch calls for each group. The first one of all ranks makes the context that later ones share."""
    global _world, _jobs
    size, ranks = options.group_size, list(options.global_ranks_in_group)
    everybody = not ranks
    if _world is not None and not _world.groups:
        _world = None
    if everybody or _world is None:
        _jobs += everybody
        key = f"dfccl {_jobs}" if everybody else "dfccl"
        job = _join(options.store, options.group_rank, size, key)
        if everybody:
            _world = job
        ranks = list(range(size))
    else:
        job = _world
    group = ProcessGroup(job, options.store, options.group_id, ranks, options.timeout)
    return Backend(group) if is_one_of_several() else group
