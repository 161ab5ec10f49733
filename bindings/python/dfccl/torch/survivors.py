"""Jobs that go on when ranks are lost (DFCCL_TORCH_SURVIVE).

Ranks of the library keep their numbers, and so do the positions of a group's members in its
collectives. A program sees dense numbers instead: the members that are left, from 0. The numbers of
a call are translated where it begins, so its registration is the same on a rank that has not
received the view yet (smaller.py).
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from .. import errors
from ..membership import Membership

if TYPE_CHECKING:
    from .job import Job

_PATIENCE_S = 2.0  # how long the error of a work waits for the notification of its view
_view_of = re.compile(r"(?:a member was lost \(|is lost since )view (\d+)")
_functions: list[Callable[[Membership], Any]] = []


class MembershipChanged(errors.RemoteError):
    """A call has failed on all ranks that are left, because a rank was lost. The program gives up
    what it has begun since the last successful call, such as a training step, and goes on.

    view   the number of the view in which the rank is lost
    lost   the ranks that are lost since the view before, by their numbers at the start, each with
           the reason: "left", "ended", "silent" or "excluded"
    """

    def __init__(self, text: str, view: int = 0, lost: dict[int, str] | None = None):
        super().__init__(text)
        self.view, self.lost = view, dict(lost or {})


def on_membership(function: Callable[[Membership], Any]) -> Callable[[Membership], Any]:
    """Calls function(view) for each new view of this process's jobs, with a dfccl.Membership, which
    has the numbers that ranks had at the start. The call comes on a thread of the library, after
    size() and rank() of the groups have changed, and before any call completes in the new view.
    The function must not wait. May be used as a decorator."""
    _functions.append(function)
    return function


def survive_setting() -> int:
    value = os.environ.get("DFCCL_TORCH_SURVIVE", "") or "0"
    if value not in ("0", "1", "2"):
        raise errors.InvalidUsage(
            f"environment variable DFCCL_TORCH_SURVIVE is {value!r}; it takes 0, 1 or 2"
        )
    return int(value)


def check_survive(checks: bool, several: bool) -> None:
    """Refuses what cannot go on without lost ranks."""
    if not survive_setting():
        return
    if checks:
        raise errors.InvalidUsage(
            "DFCCL_TORCH_CHECK=1 compares the calls of all ranks, so it cannot be used with "
            "DFCCL_TORCH_SURVIVE"
        )
    if several:
        raise errors.InvalidUsage(
            "DFCCL_TORCH_SURVIVE needs groups with the backend dfccl alone: the size of a group "
            "with several backends cannot change"
        )


class Survivors:
    """The members of a job, as this rank has been notified of them."""

    def __init__(self, survive: int, size: int):
        self.survive, self.view = survive, 0
        self.members: tuple[int, ...] = tuple(range(size))
        self.lost: dict[int, str] = {}
        self._lost_in: dict[int, dict[int, str]] = {}  # key: view
        self._changed = threading.Condition()
        self._find_job: Any = None

    def belongs_to(self, job: Job) -> None:
        with self._changed:
            self._find_job = weakref.ref(job)

    def add(self, group: Any) -> None:
        """Adds a group to those of its job, and shows it the members."""
        with self._changed:
            group._job.groups.add(group)
            group._see(self.members)

    def notified(self, view: Membership) -> None:
        """The library has a new view."""
        with self._changed:
            self.view, self.members = view.view, view.members
            self.lost.update(view.lost)
            self._lost_in[view.view] = view.lost
            job = self._find_job() if self._find_job is not None else None
            for group in list(job.groups) if job is not None else ():
                group._see(self.members)
                self._renumber(group)
            self._changed.notify_all()
        failure = None
        for function in list(_functions):
            try:
                function(view)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure  # as an exception of other callbacks

    def _renumber(self, group: Any) -> None:
        """Replaces the numbers that torch has for the members of a group."""
        numbers = dist.distributed_c10d._world.pg_group_ranks
        if group in numbers:
            dense = {rank: at for at, rank in enumerate(self.members)}
            numbers[group] = {dense[group._ranks[at]]: to for to, at in enumerate(group._alive)}

    def ranks_of(self, numbers: Sequence[int]) -> list[int]:
        """The ranks of the library of members that the program numbers so."""
        with self._changed:
            members = self.members
        return [members[number] for number in numbers]

    def error_of(self, error: BaseException) -> BaseException:
        """The error of a work. If a lost rank is the reason, the group has its new size before the
        program receives the error."""
        found = _view_of.search(str(error)) if isinstance(error, errors.RemoteError) else None
        if not self.survive or found is None:
            return error
        view, end = int(found.group(1)), time.monotonic() + _PATIENCE_S
        with self._changed:
            while self.view < view and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            lost = self._lost_in.get(view, {})
        ranks = ", ".join(f"rank {rank} ({reason})" for rank, reason in sorted(lost.items()))
        return MembershipChanged(
            f"{ranks or 'a rank'} is lost since view {view}, and this call has failed on all ranks "
            f"that are left; drop the step, and go on: {error}",
            view,
            lost,
        )


def no_store(what: str, failure: BaseException) -> errors.InvalidUsage:
    return errors.InvalidUsage(
        f"{what} needs torch's store, which is out of reach: it was in the process of a rank that "
        f"has ended, rank 0 unless the program chose another place ({failure})"
    )


def check_store(store: Any, survivors: Survivors) -> None:
    """Raises InvalidUsage if a new group cannot be made, because the store was lost with a rank."""
    if survivors.lost:
        try:
            store.add("dfccl is there", 0)
        except RuntimeError as failure:
            raise no_store("a new group", failure) from None
