"""Jobs: the context that process groups share, which the first group makes."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from ..context import Context, unique_id
from .backend import Backend, is_one_of_several
from .check import asked
from .flight import Flight, flight_settings
from .forget import Forgetting, most_registrations
from .group import ProcessGroup
from .keeper import Keeper
from .messages import answer_any
from .works import Watcher


class Job:
    """One context for all process groups of a set of ranks."""

    def __init__(self, context: Context, checks: bool, keeper: Keeper, flight: Flight, most: int):
        self.context, self.watcher, self.keeper, self.flight, self.groups = (
            context,
            Watcher(),
            keeper,
            flight,
            set[Any](),
        )
        self.checks = checks  # DFCCL_TORCH_CHECK, as rank 0 has it
        # Key: group; value: the members that receive from any rank
        self.asked_any: dict[str, set[int]] = {}
        self.forgetting = Forgetting(self, keeper, most)
        keeper.answer("any", lambda number, question: answer_any(self, number, question))
        keeper.start()

    def leave(self, group: Any) -> bool:
        """Removes a group. Returns whether it was the last one, in which case the context is
        closed."""
        self.groups.discard(group)
        if self.groups:
            return False
        self.watcher.stop()
        self.keeper.stop()
        self.context.close()
        return True


_world: Job | None = None
_jobs = 0


def _join(store: dist.Store, rank: int, size: int, key: str) -> Job:
    checks, settings, most = asked(), flight_settings(), most_registrations()
    if rank == 0:
        told = unique_id() + (b"1" if checks else b"0")
        store.set(key, told)
    else:
        told = bytes(store.get(key))
    context, keeper = Context(rank, size, told[:-1], backend="cpu"), Keeper(store, key, rank)
    return Job(context, told[-1:] == b"1", keeper, Flight(keeper, *settings), most)


def create(options: Any, _: Any = None) -> ProcessGroup | Backend:
    """Makes the process group of a call of torch. The first group, which has all ranks, makes the
    context that later groups share."""
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
