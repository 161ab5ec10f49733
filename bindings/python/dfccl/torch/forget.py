"""Eviction of registrations that are not used any more.

The i-th run of a registration is matched with the i-th run on each other member. So all members
must evict a registration after the same number of runs, although they are not in step. A rank with
too many registrations sends a question to all. The coordinator thread (keeper.py) of each member
then holds the registrations of the group that its rank has not run lately, lists them with their
numbers of runs in torch's store, and waits for the other lists. A registration that all members
list with the same number of runs is evicted; all others are released. A call of a held registration
waits meanwhile. It waits for coordinator threads only, never for the program of another rank, so
this cannot cause a deadlock.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import TYPE_CHECKING, Any

from .. import errors
from .keeper import Keeper, Question

if TYPE_CHECKING:
    from .job import Job

_STANDARD, _LEAST, _MOST = 8192, 64, 60_000  # the limit of the library is 65,536
_entry = struct.Struct("<QQ")  # id, runs


def most_registrations() -> int:
    name = "DFCCL_TORCH_REGISTRATIONS"
    value = os.environ.get(name, "") or str(_STANDARD)
    if not value.isascii() or not value.isdigit() or not _LEAST <= int(value) <= _MOST:
        raise errors.InvalidUsage(
            f"environment variable {name} is {value!r}; it must be a whole number from {_LEAST} to "
            f"{_MOST}"
        )
    return int(value)


class Forgetting:
    """The eviction of a job on one rank."""

    def __init__(self, job: Job, keeper: Keeper, most: int):
        self._job, self._keeper, self._most = job, keeper, most
        self._rounds: dict[str, int] = {}  # key: group; value: rounds that have begun
        self._marked = False
        self._next = most  # number of registrations at which a round begins
        self._asked: tuple[str, int] | None = None
        keeper.answer("forget", self._begin)

    def registered(self) -> None:
        """Called after each new registration."""
        count = sum(len(group._collectives) for group in list(self._job.groups))
        if not self._marked and count >= self._next * 3 // 4:
            self._marked = True
            for group in list(self._job.groups):
                for collective in list(group._collectives.values()):
                    collective.mark = collective.runs
        if count >= self._next and self._asked is None and not self._job.checks:
            group = max(list(self._job.groups), key=lambda each: len(each._collectives))
            self._asked = group._name, self._rounds.get(group._name, 0) + 1
            self._keeper.ask("forget", group=group._name, round=self._asked[1], ranks=group._ranks)

    def _begin(self, _: int, question: Question) -> None:
        """Begins a round, in the coordinator thread. All ranks see the questions of a group in the
        same order, and the second question of one round is ignored."""
        name, round, ranks = question["group"], question["round"], question["ranks"]
        if self._keeper.rank not in ranks or round != self._rounds.get(name, 0) + 1:
            return
        self._rounds[name] = round
        group = next((each for each in list(self._job.groups) if each._name == name), None)
        begun = False

        def step() -> bool:
            nonlocal begun
            if not begun and group is not None and group._held:
                return False  # this rank has not finished the previous round
            if not begun:
                begun = True
                held = group._hold() if group is not None else []
                told = b"".join(_entry.pack(each.id, each.runs) for each in held)
                self._keeper.store.set(self._list(name, round, self._keeper.rank), told)
            lists = self._lists(name, round, ranks)
            if lists is None:
                return False
            if group is not None:
                group._decide(lists)
            self._over(name, round)
            return True

        if not step():
            self._keeper.watch(step)

    def _over(self, name: str, round: int) -> None:
        left = sum(len(group._collectives) for group in list(self._job.groups))
        self._next = max(self._most, left + self._most // 8)  # all registrations may be in use
        self._marked = False
        if self._asked is not None and self._asked[0] == name and self._asked[1] <= round:
            self._asked = None
        if round > 2:  # no rank reads that list any more
            try:
                self._keeper.store.delete_key(self._list(name, round - 2, self._keeper.rank))
            except (RuntimeError, NotImplementedError):
                pass

    def _list(self, name: str, round: int, rank: int) -> str:
        return self._keeper.name(f"forget {name} {round} {rank}")

    def _lists(self, name: str, round: int, ranks: list[int]) -> dict[int, dict[int, int]] | None:
        """The list of each member: numbers of runs by id. None while a list is missing; a rank that
        has left has an empty list."""
        found: dict[int, dict[int, int]] = {}
        for rank in ranks:
            key = self._list(name, round, rank)
            if not self._keeper.store.check([key]):
                if not self._keeper.has_left(rank):
                    return None
                # The rank may have written its list before it left
                if not self._keeper.store.check([key]):
                    found[rank] = {}
                    continue
            told = bytes(self._keeper.store.get(key))
            found[rank] = dict(_entry.iter_unpack(told))
        return found


class Forgets:
    """A part of ProcessGroup."""

    # Members of the process group that these methods use.
    _anywhere: Any
    _askers: Any
    _collectives: dict[Any, Any]
    _held: dict[Any, Any]
    _plain: dict[Any, Any]
    _register_lock: Any

    def _hold(self) -> list[Any]:
        """Holds the registrations that may be evicted: those without a run since they were marked,
        and without an outstanding run."""
        with self._register_lock:
            asks = self._anywhere is not None or bool(
                self._askers.ranks
            )  # in this case the numbers of messages are kept
            for key, collective in list(self._collectives.items()):
                if (
                    not (asks and key[-1] == "send_recv")
                    and collective.mark == collective.runs
                    and collective.hold()
                ):
                    self._held[key] = self._collectives.pop(key)
            return list(self._held.values())

    def _decide(self, lists: dict[int, dict[int, int]] | None) -> None:
        """Evicts the registrations that all members list with the same number of runs, and releases
        the others. None: releases all."""
        with self._register_lock:
            held = list(self._held.items())
            self._held.clear()
            for key, collective in held:
                if lists is not None and all(
                    lists[rank].get(collective.id) == collective.runs for rank in collective.members
                ):
                    with contextlib.suppress(
                        errors.Error
                    ):  # the context is broken, and later calls raise its failure
                        collective.deregister()
                    self._plain.pop(collective.plain, None)
                else:
                    collective.release()
                    self._collectives[key] = collective
            self._register_lock.notify_all()
