"""Eviction of registrations that are not used any more.

The i-th run of a registration is matched with the i-th run on each other member. So all members
must evict a registration after the same number of runs, although they are not in step. A rank with
too many registrations, or with too much memory of them, sends a question to all. The coordinator
thread (keeper.py) of each member then holds the registrations of the group that its rank has not
run lately, lists them with their numbers of runs in torch's store, and waits for the other lists. A
registration that all members list with the same number of runs is evicted; all others are released.
A call of a held registration waits meanwhile. It waits for coordinator threads only, never for the
program of another rank, so this cannot cause a deadlock.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import struct
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .. import errors
from .keeper import Keeper, Question

if TYPE_CHECKING:
    from .job import Job

_MB = 1 << 20
_STANDARD, _LEAST, _MOST = 8192, 64, 60_000  # the limit of the library is 65,536
_LEAST_MB, _MOST_MB = 1, 1 << 20
_SHARE, _STANDARD_LEAST_MB = 64, 64
_OWN_GROUPS = "/proc/self/cgroup"
_LIMITS = {  # key: the controller, which is empty in version 2; values: root and file of the limit
    "": ("/sys/fs/cgroup", "memory.max"),
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}
# The memory of a registration: about that of its records, and at most that of its rings
_RECORD_BYTES, _RING_BYTES = 8 << 10, 2 << 20
_APART = 16  # least number of registrations between a mark and a round for the sake of memory
_FAR = 1.5  # times the memory at which new registrations wait for a round that is in progress
_PATIENCE_S = 2.0
_entry = struct.Struct("<QQ")  # id, runs


def _number(name: str, standard: int, least: int, most: int) -> int:
    value = os.environ.get(name, "") or str(standard)
    if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
        raise errors.InvalidUsage(
            f"environment variable {name} is {value!r}; it must be a whole number from {least} to "
            f"{most}"
        )
    return int(value)


def most_registrations() -> int:
    return _number("DFCCL_TORCH_REGISTRATIONS", _STANDARD, _LEAST, _MOST)


def _limits_of_groups() -> list[int]:
    """The limits of memory of this process's control group and of its parents. A container may show
    its own group as the root, and name it by its path outside."""
    files = {f"{root}/{name}" for root, name in _LIMITS.values()}
    with contextlib.suppress(OSError), open(_OWN_GROUPS) as own:
        for line in own:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            kind = "memory" if "memory" in controllers.split(",") else controllers
            if kind in _LIMITS:
                root, name = _LIMITS[kind]
                group = pathlib.PurePosixPath(path)
                files |= {f"{root}{each}/{name}" for each in (group, *group.parents)}
    found = []
    for each in files:
        with contextlib.suppress(OSError, ValueError), open(each) as file:
            found.append(int(file.read()))
    return found


def _machine_bytes() -> int:
    """The memory that the processes of this host may use together."""
    found = _limits_of_groups()
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as file:
        found += [int(line.split()[1]) << 10 for line in file if line.startswith("MemTotal:")]
    return min(found, default=0)


def most_bytes(ranks: int) -> int:
    """The memory of registrations, in bytes, beyond which a rank asks for an eviction. ranks: of
    the job; of this host, if the launcher says how many these are."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    if local.isascii() and local.isdigit() and 0 < int(local) < ranks:
        ranks = int(local)
    standard = max(_machine_bytes() // _SHARE // ranks // _MB, _STANDARD_LEAST_MB)
    name = "DFCCL_TORCH_MEMORY_MB"
    return _number(name, min(standard, _MOST_MB), _LEAST_MB, _MOST_MB) * _MB


def _weight(collectives: Iterable[tuple[Any, Any]]) -> int:
    """About the memory of registrations."""
    weight = 0
    for (_, _, dtype, count, *_), _ in collectives:
        elements = sum(count) if isinstance(count, tuple) else count or 0
        weight += _RECORD_BYTES + min(elements * dtype.itemsize, _RING_BYTES)
    return weight


class Forgetting:
    """The eviction of a job on one rank."""

    def __init__(self, job: Job, keeper: Keeper, most: int, most_bytes: int):
        self._job, self._keeper = weakref.proxy(job), keeper
        self._most, self._most_bytes = most, most_bytes
        self._rounds: dict[str, int] = {}  # key: group; value: rounds that were asked for
        self._ended: dict[str, int] = {}  # the same; rounds that this rank has ended
        self._marked = False
        self._next = most  # number of registrations at which a round begins
        self._is_far = False  # the memory is far above the limit
        self._decided = threading.Event()  # not set: this rank waits for the end of a round
        self._decided.set()
        self._apart = 0  # registrations that must follow the mark before a round for memory
        self._asked: tuple[str, int] | None = None
        self._fruitless: set[str] = set()  # groups whose last round has evicted little
        self._is_over = False  # torch's store is gone, so ranks cannot agree any more
        keeper.answer("forget", self._begin)
        keeper.losses.append(self._give_up)

    def make_room(self) -> None:
        """Called before each new registration. A program that registers faster than the
        coordinators agree waits for them: for these threads only, and for a limited time."""
        if self._is_far and not self._keeper.is_current_thread():
            self._decided.wait(_PATIENCE_S)

    def registered(self) -> None:
        """Called after each new registration."""
        count = sum(len(group._collectives) for group in list(self._job.groups))
        share = max(count / self._next, self._bytes() / self._most_bytes)
        self._is_far = share >= _FAR
        self._apart -= 1
        if not self._marked and share >= 0.75:
            self._marked = True
            self._apart = max(_APART, count // 8)
            self._mark()
        # Memory returns when all members have deregistered, so a round for its sake may follow
        # another one that has just ended.
        is_due = count >= self._next or (share >= 1 and self._apart <= 0)
        if is_due and self._asked is None and not self._job.checks and not self._is_over:
            group = self._choose(len if count >= self._next else _weight)
            self._asked = group._name, self._rounds.get(group._name, 0) + 1
            self._decided.clear()
            try:
                self._keeper.ask(
                    "forget", group=group._name, round=self._asked[1], ranks=group._ranks
                )
            except RuntimeError:  # the store is gone
                self._give_up()

    def _give_up(self) -> None:
        """No registration is evicted any more."""
        self._is_over = True
        for group in list(self._job.groups):
            group._decide(None)
        self._decided.set()

    def _choose(self, measure: Callable[[list[tuple[Any, Any]]], int]) -> Any:
        """The group with most registrations that could be evicted. A group in which few could be
        evicted, because other members use them, is chosen again after all others."""
        groups = list(self._job.groups)
        hopeful = [each for each in groups if each._name not in self._fruitless]
        if not hopeful:
            self._fruitless.clear()
        return max(hopeful or groups, key=lambda each: measure(each._idle()))

    def _mark(self) -> None:
        for group in list(self._job.groups):
            for collective in list(group._collectives.values()):
                collective.mark = collective.runs

    def _bytes(self) -> int:
        try:
            memory = self._job.context.memory()
        except errors.Error:  # the context is closed, and the caller gets the reason
            return 0
        return memory["recordBytes"] + memory["ringBytes"]

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
            # Another rank may have ended the previous round already. That round decides about the
            # registrations that were held for it, and about no later ones.
            if self._ended.get(name, 0) != round - 1:
                return False
            if not begun:
                begun = True
                held = group._hold() if group is not None else []
                told = b"".join(_entry.pack(each.id, each.runs) for each in held)
                self._keeper.store.set(self._list(name, round, self._keeper.rank), told)
            lists = self._lists(name, round, ranks)
            if lists is None:
                return False
            if group is not None:
                if group._decide(lists):
                    self._fruitless.discard(name)
                else:
                    self._fruitless.add(name)
            self._ended[name] = round
            self._over(name, round)
            return True

        if not step():
            self._keeper.watch(step)

    def _over(self, name: str, round: int) -> None:
        left = sum(len(group._collectives) for group in list(self._job.groups))
        self._next = max(self._most, left + self._most // 8)  # all registrations may be in use
        self._marked = False
        # A rank below its own limits has no other marks: a sender may have a hundredth of the
        # receiver's memory.
        self._mark()
        if self._asked is not None and self._asked[0] == name and self._asked[1] <= round:
            self._asked = None
            self._decided.set()
        if round > 2:  # no rank reads that list any more
            try:
                self._keeper.store.delete_key(self._list(name, round - 2, self._keeper.rank))
            except (RuntimeError, NotImplementedError):
                pass

    def _list(self, name: str, round: int, rank: int) -> str:
        return self._keeper.name(f"forget {name} {round} {rank}")

    def _lists(self, name: str, round: int, ranks: list[int]) -> dict[int, dict[int, int]] | None:
        """The list of each member: numbers of runs by id. None while a list is missing; a rank that
        has left has an empty list, and a lost one that has written none is left out."""
        found: dict[int, dict[int, int]] = {}
        lost = set(self._job.survivors.lost)
        for rank in ranks:
            key = self._list(name, round, rank)
            if not self._keeper.store.check([key]):
                if rank in lost:
                    continue
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

    def _idle(self) -> list[tuple[Any, Any]]:
        """The registrations that have not run since they were marked. Those of messages do not
        count in a group with receives from any rank, which need their numbers of runs."""
        asks = self._anywhere is not None or bool(self._askers.ranks)
        return [
            (key, collective)
            for key, collective in list(self._collectives.items())
            if collective.mark == collective.runs and not (asks and key[-1] == "send_recv")
        ]

    def _hold(self) -> list[Any]:
        """Holds the idle registrations that have no outstanding run."""
        with self._register_lock:
            for key, collective in self._idle():
                if collective.hold():
                    self._held[key] = self._collectives.pop(key)
            return list(self._held.values())

    def _decide(self, lists: dict[int, dict[int, int]] | None) -> bool:
        """Evicts the registrations that all members list with the same number of runs, and releases
        the others. None: releases all. Returns whether most were evicted."""
        evicted = 0
        with self._register_lock:
            held = list(self._held.items())
            self._held.clear()
            for key, collective in held:
                if lists is not None and all(
                    lists[rank].get(collective.id) == collective.runs
                    for rank in collective.members
                    if rank in lists
                ):
                    with contextlib.suppress(
                        errors.Error
                    ):  # the context is broken, and later calls raise its failure
                        collective.deregister()
                    self._plain.pop(collective.plain, None)
                    evicted += 1
                else:
                    collective.release()
                    self._collectives[key] = collective
            self._register_lock.notify_all()
        return 2 * evicted > len(held)
