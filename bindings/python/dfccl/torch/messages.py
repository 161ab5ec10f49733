"""Messages from one rank to another, and receives from any rank.

A receive from any rank needs the numbers of messages that each rank has sent. Members do not count
their messages until the first such receive sends a question to the group. From then on each member
counts, in torch's store, the messages that it sends to the asking rank. A rank that has sent more
messages of a signature than the asking rank has received from it serves the receive. So a receive
only takes a message that was sent, whichever call comes first, and a waiting receive blocks no
other call.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import errors
from . import names
from .keeper import Keeper, Question
from .types import Key, Tensors, check, element
from .works import Part, Work, no_time

if TYPE_CHECKING:
    from .group import ProcessGroup
    from .job import Job

_LOOKS_S = (0.0002, 0.01)  # interval at which the store is polled: at first, and after a long time


class AnyWork(Work):
    """A receive from any rank. It is a work without runs until its source is known."""

    def __init__(self, group: Any, operation: str, outputs: list[torch.Tensor]):
        super().__init__(group, operation, [], outputs)
        self._ended = False
        self._found = threading.Event()

    def wait(self, timeout: datetime.timedelta = no_time) -> bool:
        seconds = timeout.total_seconds() if timeout > no_time else self._group._timeout
        if self._group._anywhere.search(self._found, seconds):
            return super().wait(timeout)
        raise self._group._late(self, self._nobody(seconds), seconds)

    def _nobody(self, seconds: float) -> errors.Timeout:
        tensor = self._outputs[0]
        return errors.Timeout(
            f"after {seconds:g} s no rank has sent {tensor.dtype}[{tensor.numel()}] that is not "
            "received; "
            "the receive goes on"
        )

    def _look(self) -> bool:
        return self._found.is_set() and super()._look()


class Anywhere:
    """The receives from any rank of one group on this rank."""

    def __init__(self, group: ProcessGroup, keeper: Keeper):
        self._group, self._keeper = group, keeper
        self.lock = (
            threading.RLock()
        )  # also held by receives from named ranks, which may take the same message
        self._waiting: list[tuple[AnyWork, str, torch.Tensor, str | None]] = []
        self._changes = -1
        self._next = 0
        self._watched = False
        keeper.ask("any", group=group._name, rank=group._rank)

    def add(self, work: AnyWork, what: str, tensor: torch.Tensor) -> None:
        with self.lock:
            self._waiting.append((work, what, tensor, names.current()))
            self._changes = -1
            self._look()
            if self._waiting and not self._watched:
                self._watched = True
                self._keeper.watch(self._task)

    def _task(self) -> bool:
        """Serves receives in the coordinator thread, since the program may wait for something
        else."""
        with self.lock:
            self._look()
            self._watched = bool(self._waiting)
            return not self._watched

    def search(self, found: threading.Event, seconds: float) -> bool:
        """Polls until the source of a work is found."""
        end, pause = time.monotonic() + seconds, _LOOKS_S[0]
        while not found.is_set():
            with self.lock:
                self._look()
            left = end - time.monotonic()
            if found.wait(max(0.0, min(pause, left))):
                break
            if left <= 0:
                return False
            pause = min(1.2 * pause, _LOOKS_S[1])
        return True

    @staticmethod
    def _end(work: AnyWork, failure: errors.Error) -> None:
        work._end(failure)
        work._found.set()

    def give_up(self) -> None:
        with self.lock:
            waiting, self._waiting = self._waiting, []
        for work, *_ in waiting:
            self._end(
                work, errors.Aborted("the process group has given up this receive from any rank")
            )

    def _look(self) -> None:
        """Serves the receives that can be served, in their order. The caller holds the lock."""
        if self._waiting:
            changes = self._keeper.store.add(
                _changes(self._keeper, self._group, self._group._rank), 0
            )
            if changes != self._changes:
                self._changes = changes
                for each in list(self._waiting):
                    try:
                        served = self._served(*each)
                    except errors.Error as failure:  # the context is broken or closed
                        self._end(each[0], failure)
                        served = True
                    if served:
                        self._waiting.remove(each)

    def _served(self, work: AnyWork, what: str, tensor: torch.Tensor, given: str | None) -> bool:
        group, store = self._group, self._keeper.store
        with names.name(given):
            for by in range(group._size):
                source = (self._next + by) % group._size
                key = group._key_of_point(what, tensor, source, group._rank)
                told = _sent(self._keeper, group, key)
                if source == group._rank or not store.check([told]):
                    continue
                if key in group._held:  # its registration may be evicted next
                    self._changes = -1
                elif int(store.get(told)) > group._runs_of(key):
                    # The search begins at another member each time, so that none starves
                    self._next = source + 1
                    part, after = group._point(what, tensor, source, group._rank)
                    group._served_from(work, part, after, source)
                    return True
        return False


def _changes(keeper: Keeper, group: ProcessGroup, target: int) -> str:
    return keeper.name(f"any {group._name} {target} changes")


def _sent(keeper: Keeper, group: ProcessGroup, key: Key) -> str:
    given, what, dtype, count, *_ = key
    return keeper.name(f"any {group._name} {what} {dtype}[{count}] {given!r}")


class Askers:
    """The members of one group that receive from any rank, as far as this rank has received their
    questions."""

    def __init__(self, group: ProcessGroup, keeper: Keeper):
        self._group, self._keeper = group, keeper
        self._lock = threading.Lock()
        self.ranks: set[int] = set()

    def answer(self, target: int) -> None:
        """Answers the first question of a member, in the coordinator thread: writes the numbers of
        messages that this rank has sent to it so far."""
        group = self._group
        # First, so that a message sent meanwhile is counted twice rather than never
        self.ranks.add(target)

        def tell_all() -> bool:
            if group._held:  # the counts of held registrations may restart at zero
                return False
            for key in list(group._collectives):
                if key[-1] == "send_recv" and key[-2] == (group._rank, target):
                    self.tell(target, key)
            return True

        if target != group._rank and not tell_all():
            self._keeper.watch(tell_all)

    def tell(self, target: int, key: Key) -> None:
        store = self._keeper.store
        with self._lock:  # a later count must not be written before an earlier one
            store.set(_sent(self._keeper, self._group, key), str(self._group._runs_of(key)))
            store.add(_changes(self._keeper, self._group, target), 1)


def answer_any(job: Job, _: int, question: Question) -> None:
    """Answers a question in the coordinator thread. A group that does not exist yet answers when it
    is made."""
    job.asked_any.setdefault(question["group"], set()).add(question["rank"])
    for group in list(job.groups):
        if group._name == question["group"]:
            group._askers.answer(question["rank"])


class Messages:
    """A part of ProcessGroup."""

    # Members of the process group that these methods use.
    _rank: int
    _sequence: int
    _anywhere: Anywhere | None
    _askers: Any
    _facts: Any
    _job: Any
    _move: Any
    _register_lock: Any
    _timed: Any
    _work: Any

    def _point(
        self, what: str, tensor: torch.Tensor, source: int, target: int
    ) -> tuple[Part, Callable[[], Any] | None]:
        """Submits a message, which is one run of a channel from one member to another."""
        sends, dense = self._rank == source, tensor.contiguous()
        at = dense.data_ptr()
        part = self._move(
            "send_recv",
            f"{what} {source}->{target}",
            dense.numel(),
            dense,
            at if sends else 0,
            0 if sends else at,
            dense,
            None,
            (source, target),
        )
        return part, None if dense is tensor or sends else lambda: tensor.copy_(dense)

    def _key_of_point(self, what: str, tensor: torch.Tensor, source: int, target: int) -> Key:
        type, factor = element(tensor)
        return (
            names.current(),
            f"{what} {source}->{target}",
            tensor.dtype,
            tensor.numel() * factor,
            type,
            None,
            None,
            (source, target),
            "send_recv",
        )

    def _points(
        self,
        what: str,
        sends: Sequence[tuple[torch.Tensor, int]],
        receives: Sequence[tuple[torch.Tensor, int]],
        outputs: list[torch.Tensor],
        operation: str = "",
        peers: tuple[int, int] | None = None,
    ) -> Work:
        """Sends to members and receives from them, also from this rank to itself."""
        check([tensor for tensor, _ in (*sends, *receives)])
        parts, afters = [], []
        own = [tensor for tensor, peer in sends if peer == self._rank]
        for tensor, peer in receives:
            if peer == self._rank:
                if not own:
                    raise errors.InvalidUsage(f"{what} from rank {peer} to itself")
                mine = own.pop(0)
                tensor.copy_(mine.view(tensor.shape))
            elif tensor.numel() > 0:
                part, after = self._point(what, tensor, peer, self._rank)
                parts.append(part)
                afters += [after] if after else []
        for tensor, peer in sends:
            if peer != self._rank and tensor.numel() > 0:
                parts.append(self._point(what, tensor, self._rank, peer)[0])
        return self._work(
            operation or what,
            parts,
            outputs,
            (lambda: [each() for each in afters]) if afters else None,
            peers,
        )

    def send(self, tensors: Tensors, target: int, tag: int) -> Work:
        what = f"send, tag {tag},"
        work = self._timed(
            "send",
            self._points,
            what,
            [(tensors[0], target)],
            [],
            list(tensors),
            "send",
            (self._rank, target),
        )
        if target in self._askers.ranks and tensors[0].numel() > 0:
            self._askers.tell(target, self._key_of_point(what, tensors[0], self._rank, target))
        return work

    def recv(self, tensors: Tensors, source: int, tag: int) -> Work:
        with self._anywhere.lock if self._anywhere is not None else contextlib.nullcontext():
            return self._timed(
                "recv",
                self._points,
                f"send, tag {tag},",
                [],
                [(tensors[0], source)],
                list(tensors),
                "recv",
                (source, self._rank),
            )

    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        return self._timed("recvAnySource", self._receive_any, tensors, f"send, tag {tag},")

    recvAnysource = recv_anysource

    def _receive_any(self, tensors: Tensors, what: str) -> Work:
        check(tensors)
        if tensors[0].numel() == 0:
            raise errors.InvalidArgument(
                "a receive of no elements from any rank: a message of none is not sent"
            )
        with self._register_lock:
            if self._anywhere is None:
                self._anywhere = Anywhere(self, self._job.keeper)  # type: ignore[arg-type]
        work = AnyWork(self, "recv", list(tensors))
        self._sequence += 1
        work._call = self._job.flight.record(
            self._facts, "recv", (-1, self._rank), [], list(tensors), names.current()
        )
        self._anywhere.add(work, what, tensors[0])
        return work

    def _served_from(
        self, work: AnyWork, part: Part, after: Callable[[], Any] | None, source: int
    ) -> None:
        work._parts, work._finish, work._source = [part], after, source
        if work._call is not None:
            work._call.parts, work._call.peers = work._parts, (source, self._rank)
        work._found.set()
