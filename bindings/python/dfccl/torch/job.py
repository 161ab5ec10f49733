"""Jobs: the context that process groups share, which the first group makes."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context, unique_id
from . import rendezvous
from .backend import Backend, is_one_of_several
from .check import asked
from .flight import Flight, flight_settings, setting
from .forget import Forgetting, most_bytes, most_registrations
from .group import ProcessGroup
from .interface import check_device
from .keeper import Keeper
from .messages import answer_any
from .mismatch import Mismatches
from .survivors import Survivors, check_store, check_survive, survive_setting
from .works import Watcher


class Job:
    """One context for all process groups of a set of ranks."""

    def __init__(
        self,
        context: Context,
        checks: bool,
        keeper: Keeper,
        flight: Flight,
        survivors: Survivors,
        most: tuple[int, int],
        after: float,
    ):
        self.context, self.watcher, self.keeper, self.flight, self.groups = (
            context,
            Watcher(),
            keeper,
            flight,
            set[Any](),
        )
        self.survivors = survivors
        survivors.belongs_to(self)
        self.checks = checks  # DFCCL_TORCH_CHECK, as rank 0 has it
        # Key: group; value: the members that receive from any rank
        self.asked_any: dict[str, set[int]] = {}
        self.mismatches = Mismatches(self, after)
        self.forgetting = Forgetting(self, keeper, *most)
        keeper.answer("any", lambda number, question: answer_any(self, number, question))
        keeper.start()

    def leave(self, group: Any) -> bool:
        """Removes a group. Returns whether it was the last one, in which case the context is
        closed."""
        self.groups.discard(group)
        if self.groups:
            return False
        global _world
        self.watcher.stop()
        self.keeper.stop()
        self.context.close()
        if _world is self:
            _world = None
        return True


_world: Job | None = None
_jobs = 0


def _join(store: dist.Store, rank: int, size: int, key: str) -> Job:
    """Joins the job. The settings of rank 0 for checks and survival hold for all ranks."""
    checks, settings, most = asked(), flight_settings(), (most_registrations(), most_bytes(size))
    after = setting("DFCCL_TORCH_MISMATCH_S", 5, 86400)
    if rank == 0:
        told = unique_id() + b"%d%d" % (checks, survive_setting())
        answers = rendezvous.answers(store, key, told) if size > 1 else contextlib.nullcontext()
    else:
        told, answers = rendezvous.request(store, key), contextlib.nullcontext()
    id, checks, survive = told[:-2], told[-2:-1] == b"1", int(told[-1:])
    survivors = Survivors(survive, size)
    with answers:
        context = Context(
            rank,
            size,
            id,
            backend="cpu",
            survive=survive,
            membership=survivors.notified if survive else None,
        )
    keeper = Keeper(store, rendezvous.name_of(id), rank)
    flight = Flight(keeper, *settings)
    return Job(context, checks, keeper, flight, survivors, most, after)


def _bound_device(options: Any) -> torch.device | None:
    """The device that the program has given to init_process_group."""
    return getattr(getattr(options, "process_group", None), "bound_device_id", None)


def create(options: Any, _: Any = None) -> ProcessGroup | Backend:
    """Makes the process group of a call of torch. The first group, which has all ranks, makes the
    context that later groups share."""
    global _world, _jobs
    device, several = _bound_device(options), is_one_of_several()
    if not several:
        check_device(device)
    check_survive(asked(), several)
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
        check_store(options.store, job.survivors)
        ranks = job.survivors.ranks_of(ranks)
    group = ProcessGroup(job, options.store, options.group_id, ranks, options.timeout)
    if several:
        return Backend(group)
    if device is not None:
        group.bound_device_id = device
    return group
