"""The process group: each call of c10d becomes runs of collectives, which are registered at their
first use.

The id of a collective is a hash of the signature: the group's name, the operation, the number and
type of elements, the operator, the root, and the name that the program has given, if any. So the
i-th call of a signature is matched with the i-th call of the same signature on each other member,
whatever calls of other signatures come between.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from .. import errors
from ..arrays import DataType
from ..collective import Collective, Held
from ..library import IN_PROGRESS
from . import names
from .awaited import Awaited, Joined, OwnMessages
from .check import Check
from .forget import Forgets
from .forms import seconds
from .hooks import Hooks, check_for_nan
from .interface import Interface, check_device
from .messages import Anywhere, Askers, Messages
from .moves import Moves
from .reductions import Reductions
from .types import Key, element
from .works import Part, Work

if TYPE_CHECKING:
    from .job import Job


class _Coalescing(threading.local):
    works: list[Work] | None = None  # the calls of this thread since start_coalescing()


class ProcessGroup(Reductions, Moves, Messages, Forgets, Interface, dist.ProcessGroup):
    """Collectives of CPU tensors over the library."""

    def __init__(
        self,
        job: Job,
        store: dist.Store,
        name: str,
        ranks: Sequence[int],
        timeout: datetime.timedelta,
    ):
        rank = list(ranks).index(job.context.rank)
        super().__init__(store, rank, len(ranks))
        self._job, self._context, self._name, self._ranks = job, job.context, name, list(ranks)
        self._rank, self._size = rank, len(ranks)
        self._timeout = timeout.total_seconds()
        self._collectives: dict[Key, Collective] = {}
        self._plain: dict[
            Any, Collective
        ] = {}  # all-reduces that need no further check of their tensor
        self._held: dict[Key, Collective] = {}  # the collectives that are being evicted
        self._register_lock = threading.Condition()
        self._coalescing = _Coalescing()
        self._hooks = Hooks()
        check_for_nan(self._hooks, rank)
        self._sequence = self._times_split = 0
        self._check = Check(self) if job.checks else None
        self._facts = job.flight.group(name, self._ranks, self._timeout)
        # The positions of the members that are left, and those of earlier views by their number
        self._alive = tuple(range(self._size))
        self._layouts = {self._size: self._alive}
        self._anywhere: Anywhere | None = None
        self._askers = Askers(self, job.keeper)
        self._own_messages = OwnMessages(self)
        job.survivors.add(self)
        for asker in job.asked_any.get(name, ()):
            self._askers.answer(asker)

    # ---- the properties that torch reads

    def getBackendName(self) -> str:
        return "dfccl"

    def getRank(self) -> int:
        return self._alive.index(self._rank)

    def getSize(self) -> int:
        return len(self._alive)

    rank, size = getRank, getSize
    name = getBackendName

    def _see(self, members: Sequence[int]) -> None:
        """Some ranks of the job are lost; these are left."""
        alive = tuple(at for at, rank in enumerate(self._ranks) if rank in members)
        if self._rank in alive:
            self._layouts[len(alive)] = self._alive = alive

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = self._facts.name = name

    def getGroupDesc(self) -> str:
        return self._facts.description

    def setGroupDesc(self, description: str) -> None:
        self._facts.description = description

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._facts.description

    @property
    def _device_types(self) -> list[torch.device]:
        # Empty, because torch's flight recorder requests a backend in C++ from a group with
        # devices.
        asker = sys._getframe(1).f_code.co_name
        return [] if asker == "_maybe_attach_flight_recorder" else [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> ProcessGroup:
        check_device(device)
        return self

    get_backend = _get_backend

    @property
    def supports_splitting(self) -> bool:
        # torch's new_group would pass this group on as options.split_from, which must be an object
        # of C++.
        return sys._getframe(1).f_code.co_name != "_get_split_source"

    def _set_default_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout = self._facts.timeout = seconds(timeout).total_seconds()

    set_timeout = _set_default_timeout

    def timeout(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self._timeout)

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: datetime.timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> ProcessGroup | None:
        """A group of some ranks of this group, or None on the others. No rank waits for another."""
        for each in device_types or ():
            check_device(each)
        if (
            len(ranks) == 0
            or len(set(ranks)) < len(ranks)
            or not set(ranks) <= set(range(self.getSize()))
        ):
            raise errors.InvalidArgument(
                f"split_group: ranks {list(ranks)} in a group of {self.getSize()}; they must be "
                f"one or more different numbers from 0 to {self.getSize() - 1}"
            )
        ranks = [self._alive[rank] for rank in ranks]
        self._times_split += 1
        if self._rank not in ranks:
            return None
        group_name = group_name or getattr(opts, "group_name", None)
        timeout = timeout or getattr(opts, "_timeout", None)
        name = group_name or f"{self._name}:split:{self._times_split}:{sorted(ranks)}"
        made = ProcessGroup(
            self._job,
            dist.PrefixStore(name, self.get_group_store()),
            name,
            [self._ranks[rank] for rank in ranks],
            timeout or self.timeout(),
        )
        made.setGroupDesc(group_desc or f"{self._facts.description}:split")
        return made

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    # ---- collectives and runs

    def _of(self, *signature: Any) -> Collective:
        """The collective of a signature: (operation, count, type, operator or None, root or None,
        members or None, kind)."""
        key = (names.local.name, *signature)
        found = self._collectives.get(key)
        return found if found is not None else self._register_new(key)

    def _register_new(self, key: Key) -> Collective:
        given, what, dtype, count, type, op, root, members, kind = key
        self._job.forgetting.make_room()
        with self._register_lock:
            if not self._register_lock.wait_for(lambda: key not in self._held, self._timeout):
                raise errors.Timeout(
                    f"the ranks {self._ranks} have not agreed for {self._timeout:g} s which "
                    "registrations are "
                    "forgotten: one of them has ended, or a call holds its interpreter"
                )
            found = self._collectives.get(key)
            if found is None:
                text = (
                    f"{what} {dtype}[{count}]"
                    + (f" {op.name.lower()}" if op is not None else "")
                    + (f" root {root}" if root is not None else "")
                    + f", group {self._name!r}"
                    + (f", named {given!r}" if given is not None else "")
                )
                id = int.from_bytes(
                    hashlib.blake2b(f"{members} {text}".encode(), digest_size=8).digest(), "little"
                )
                ranks = (
                    self._ranks if members is None else [self._ranks[member] for member in members]
                )
                found = self._register_as(
                    kind, id, count, type, op=op, root=root, ranks=ranks, name=text
                )
                found.members, found.key = ranks, key
                self._collectives[key] = found
                self._job.forgetting.registered()
            return found

    def _runs_of(self, key: Key) -> int:
        """The number of runs that this rank has submitted of the registration of a signature."""
        found = self._collectives.get(key) or self._held.get(key)
        return found.runs if found is not None else 0

    def _register_as(
        self, kind: str, id: int, count: Any, type: DataType, *, op: Any, root: Any, **options: Any
    ) -> Collective:
        if kind == "barrier":
            return self._context.register_barrier(id, **options)
        if kind == "send_recv":
            return self._context.register_send_recv(id, count, type, 0, 1, **options)
        if kind == "all_gather_v":
            return self._context.register_all_gather_v(id, count, type, **options)
        if kind == "reduce_scatter_v":
            return self._context.register_reduce_scatter_v(id, count, type, op, **options)
        return self._context._register(kind, id, count, type, op=op, root=root, **options)

    def _abort_collectives(
        self, collectives: Sequence[Collective], reason: str | None = None
    ) -> None:
        self._context.abort_collectives({collective.id for collective in collectives}, reason)

    def _move(
        self,
        kind: str,
        what: str,
        count: int | tuple[int, ...],
        like: torch.Tensor,
        send: int,
        recv: int,
        keep: Any,
        root: int | None = None,
        members: tuple[int, ...] | None = None,
    ) -> Part:
        """Submits one run that moves elements of any type."""
        dtype, type, factor = element(like)
        count = (
            tuple(each * factor for each in count) if isinstance(count, tuple) else count * factor
        )
        collective = self._of(what, dtype, count, type, None, root, members, kind)
        return self._run(collective, like if members is None else None, send, recv, keep)

    def _run(
        self, collective: Collective, tensor: torch.Tensor | None, send: int, recv: int, keep: Any
    ) -> Part:
        """Submits a run. tensor: the tensor of the program, if the call can be exchanged."""
        if self._check is None or tensor is None or names.local.name is not None:
            while True:
                try:
                    return collective, collective._submit(send or None, recv or None, 0, keep)
                except Held:
                    collective = self._of(*collective.key[1:])
        return self._check.run(
            collective, tensor, lambda: collective._submit(send or None, recv or None, 0, keep)
        )

    def _work(
        self,
        what: str,
        parts: list[Part],
        outputs: list[torch.Tensor],
        finish: Callable[[], Any] | None = None,
        peers: tuple[int, int] | None = None,
        inner: Sequence[Work] = (),
        kind: type[Work] = Work,
    ) -> Work:
        self._sequence += 1
        self._job.mismatches.threads.add(threading.get_ident())
        if self._check is not None:
            parts, finish = self._check.joined(parts, finish)
        work = kind(self, what, parts, outputs, finish)
        if inner:
            work._inner, work._call = inner, inner[0]._call
        else:
            work._call = self._job.flight.record(
                self._facts, what, peers, parts, outputs, names.local.name
            )
        if self._coalescing.works is not None:
            self._coalescing.works.append(work)
        return work

    def _late(self, work: Work, failure: errors.Error, seconds: float) -> errors.Timeout:
        """The error of a work that a thread has waited for."""
        late = self._error_of_late(work, str(failure), seconds)
        self._has_failed(late)
        return late

    def _error_of_late(self, work: Work, reason: str, seconds: float) -> errors.Timeout:
        text = (
            f"{work._operation} in group {self._name!r} (ranks {self._ranks}) reached its timeout "
            "on "
            f"rank {self._rank} of {self._size}: {reason}"
        )
        if work._call is not None and work._asks:
            late = (each._call for each in work._inner if each._call.state() == "started")
            text += "\n  " + self._job.flight.late(next(late, work._call), seconds)
        return errors.Timeout(text)

    def _is_late(self, work: Work) -> bool:
        """Whether the time limit of a work has passed for which only its future waits."""
        return time.monotonic() - work._watched >= (work._limit or self._timeout)

    def _lateness(self, work: Work) -> errors.Error:
        """The error of such a work."""
        limit = work._limit or self._timeout
        reason = f"it was not complete after {limit:g} s"
        try:
            for collective, number in work._parts:
                collective._wait_run(number, 0, before=limit)
            for each in (work, *getattr(work, "_awaited", ())):
                if isinstance(each, Awaited) and not each._found.is_set():
                    reason = str(each._nobody(limit))
                    break
        except errors.Timeout as failure:
            reason = str(failure)
        return self._error_of_late(work, reason, limit)

    def _drive(self, work: Work, milliseconds: int) -> None:
        if not work._parts:  # a receive whose source is not yet known
            time.sleep(milliseconds / 1000)
        for collective, number in work._parts:
            if collective._drive_once(number, milliseconds) == IN_PROGRESS:
                return

    def _together(self, what: str, works: list[Work], outputs: list[torch.Tensor]) -> Work:
        parts = [part for work in works for part in work._parts]
        awaited = [work for work in works if isinstance(work, Awaited) and not work._ended]
        finishes = [work._finish for work in works if work._finish is not None]
        joined = self._work(
            what,
            parts,
            outputs,
            (lambda: [each() for each in finishes]) if finishes else None,
            inner=works,
            kind=Joined if awaited else Work,
        )
        if awaited:
            joined._awaited, joined._ended = awaited, False
        return joined

    # ---- several at once, profiles, the end

    def start_coalescing(self, device_type: Any = None) -> None:
        self._coalescing.works = []

    def end_coalescing(self, device_type: Any = None) -> Work:
        works, self._coalescing.works = self._coalescing.works, None
        if works is None:
            raise errors.InvalidUsage(
                "end_coalescing in a thread that has not called start_coalescing"
            )
        work = self._together(
            "coalesced", works, [output for work in works for output in work._outputs]
        )
        limits = [each._limit or self._timeout for each in works]
        work._limit = max(limits) if limits else None
        return work

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing

    def _timed(self, what: str, function: Callable[..., Work], *arguments: Any) -> Work:
        if not torch.autograd._profiler_enabled():
            return function(*arguments)
        with torch.profiler.record_function("dfccl:" + what):
            return function(*arguments)

    def abort(self) -> None:
        """Aborts this group's collectives, here and on the other members; other groups continue."""
        self._hooks.abort()
        self._own_messages.give_up()
        if self._anywhere is not None:
            self._anywhere.give_up()
        collectives = [*self._collectives.values(), *self._held.values()]
        self._abort_collectives(collectives, "it has aborted the process group")

    _abort = abort

    def shutdown(self) -> None:
        """Leaves the group. Incomplete runs are aborted. The last group closes the context."""
        if self not in self._job.groups:
            return
        self._own_messages.give_up()
        if self._anywhere is not None:
            self._anywhere.give_up()
        self._decide(None)
        late = [each for each in self._collectives.values() if not each.done()]
        self._abort_collectives(late, "it has left the process group")
        for collective in late:
            try:
                collective.wait()
            except errors.Error:
                pass
        self._job.watcher.settle(self)
        if not self._job.leave(self):
            for collective in self._collectives.values():
                with contextlib.suppress(
                    errors.Error
                ):  # the context is broken, so there is nothing to abort
                    collective.deregister()
        self._collectives.clear()
        self._plain.clear()
        self._hooks = Hooks()

    _shutdown = shutdown
