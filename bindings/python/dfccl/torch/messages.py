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
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import errors
from ..collective import Enough
from . import names
from .awaited import Awaited, OwnMessages, Unmatched
from .forms import operation, the_one
from .keeper import Keeper, Question
from .survivors import no_store
from .tensors import After, all_apart, distinct, landing, packed, put, together, writable
from .types import Key, Tensors, alive, element
from .works import Part, Work

if TYPE_CHECKING:
    from .group import ProcessGroup
    from .job import Job

_LOOKS_S = (0.0002, 0.01)  # interval at which the store is polled: at first, and after a long time


class AnyWork(Awaited):
    """A receive from any rank."""

    def _search(self, seconds: float) -> bool:
        return self._group._anywhere.search(self._found, seconds)

    def _nobody(self, seconds: float) -> errors.Timeout:
        tensor = self._outputs[0]
        return errors.Timeout(
            f"after {seconds:g} s no rank has sent {tensor.dtype}[{tensor.numel()}] that is not "
            "received; the receive goes on"
        )


class Anywhere:
    """The receives from any rank of one group on this rank."""

    def __init__(self, group: ProcessGroup, keeper: Keeper):
        self._find_group, self._keeper = weakref.ref(group), keeper
        self._lock = threading.Lock()
        # Held by the thread that serves receives, which may register a collective. Threads that
        # could serve them do not wait for it: the coordinator may have to decide what that
        # registration waits for.
        self._serving = threading.Lock()
        self._waiting: list[tuple[AnyWork, str, torch.Tensor, str | None]] = []
        self._changes = -1
        self._next = 0
        self._watched = False
        keeper.ask("any", group=group._name, rank=group._rank)

    @property
    def _group(self) -> ProcessGroup:
        return alive(self._find_group)

    def add(self, work: AnyWork, what: str, tensor: torch.Tensor) -> None:
        with self._lock:
            self._waiting.append((work, what, tensor, names.current()))
            self._changes = -1
        self._look()
        with self._lock:
            if self._waiting and not self._watched:
                self._watched = True
                self._keeper.watch(self._task)

    def _task(self) -> bool:
        """Serves receives in the coordinator thread, since the program may wait for something
        else."""
        self._look()
        with self._lock:
            self._watched = bool(self._waiting)
            return not self._watched

    def search(self, found: threading.Event, seconds: float) -> bool:
        """Polls until the source of a work is found."""
        end, pause = time.monotonic() + seconds, _LOOKS_S[0]
        while not found.is_set():
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
        with self._serving, self._lock:
            waiting, self._waiting = self._waiting, []
        for work, *_ in waiting:
            self._end(
                work, errors.Aborted("the process group has given up this receive from any rank")
            )

    def _look(self) -> None:
        """Serves the receives that can be served, in their order, unless another thread does so."""
        if not self._waiting or not self._serving.acquire(blocking=False):
            return
        try:
            failures = self._serve()
        except errors.Error:
            raise
        except RuntimeError as lost:  # torch's
            with self._lock:
                waiting, self._waiting = self._waiting, []
            failures = [(each[0], no_store("a receive from any rank", lost)) for each in waiting]
        finally:
            self._serving.release()
        for work, failure in failures:  # without the lock, since this calls hooks of the program
            self._end(work, failure)

    def _serve(self) -> list[tuple[AnyWork, errors.Error]]:
        """Returns the receives that have failed. The caller holds the lock `_serving`."""
        failures: list[tuple[AnyWork, errors.Error]] = []
        changes = self._keeper.store.add(_changes(self._keeper, self._group, self._group._rank), 0)
        if changes != self._changes:
            self._changes = changes
            for each in list(self._waiting):
                try:
                    served = self._served(*each)
                except errors.Error as failure:  # the context is broken or closed
                    failures.append((each[0], failure))
                    served = True
                if served:
                    with self._lock:
                        self._waiting.remove(each)
        return failures

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
                elif (sent := int(store.get(told))) > group._runs_of(key):
                    dense, after = landing(tensor)
                    part = group._receive_up_to(sent, key, dense)
                    if part is None:  # a receive from this rank has taken the message meanwhile
                        continue
                    # The search begins at another member each time, so that none starves
                    self._next = source + 1
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
        self._find_group, self._keeper = weakref.ref(group), keeper
        self._lock = threading.Lock()
        self.ranks: set[int] = set()

    @property
    def _group(self) -> ProcessGroup:
        return alive(self._find_group)

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
        # A later count must not be written before an earlier one. If the store is gone, no rank
        # receives from any rank.
        with self._lock, contextlib.suppress(RuntimeError):
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
    _size: int
    _sequence: int
    _anywhere: Anywhere | None
    _askers: Any
    _coalescing: Any
    _facts: Any
    _job: Any
    _move: Any
    _of: Any
    _own_messages: OwnMessages
    _ranks: list[int]
    _register_lock: Any
    _timed: Any
    _work: Any

    def _point_at(self, what: str, dense: torch.Tensor, source: int, target: int) -> Part:
        """Submits a message, which is one run of a channel from one member to another."""
        sends, at = self._rank == source, dense.data_ptr()
        return self._move(
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

    def _receive_up_to(self, most: int, key: Key, dense: torch.Tensor) -> Part | None:
        """Submits a receive, unless there are so many already of its signature."""
        collective = self._of(*key[1:])
        try:
            return collective, collective._submit(None, dense.data_ptr(), 0, dense, most=most)
        except Enough:
            return None

    def _key_of_point(self, what: str, tensor: torch.Tensor, source: int, target: int) -> Key:
        dtype, type, factor = element(tensor)
        return (
            names.current(),
            f"{what} {source}->{target}",
            dtype,
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
        after: After = None,
    ) -> Work:
        """Sends to members and receives from them, also from this rank to itself."""
        own = distinct(what, [tensor for tensor, _ in receives]) if receives else []
        targets = [landing(output) for output in own]
        sources = all_apart(
            [packed(tensor) for tensor, _ in sends], [target for target, _ in targets]
        )
        to_itself = self._pairs_of_itself(what, sends, sources, receives, own)
        parts, afters = [], [after]
        for (_, peer), (target, into_place) in zip(receives, targets):
            if peer != self._rank and target.numel() > 0:
                parts.append(self._point_at(what, target, peer, self._rank))
                afters.insert(0, into_place)
        for (_, peer), source in zip(sends, sources):
            if peer != self._rank and source.numel() > 0:
                parts.append(self._point_at(what, source, self._rank, peer))
        put(*to_itself)
        return self._work(operation or what, parts, outputs, together(afters), peers)

    def _pairs_of_itself(
        self,
        what: str,
        sends: Sequence[tuple[torch.Tensor, int]],
        sources: Sequence[torch.Tensor],
        receives: Sequence[tuple[torch.Tensor, int]],
        own: Sequence[torch.Tensor],
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The outputs that this rank fills itself, and their inputs."""
        given = [source for (_, peer), source in zip(sends, sources) if peer == self._rank]
        taken = [output for (_, peer), output in zip(receives, own) if peer == self._rank]
        for output, source in zip(taken, given):
            if (output.numel(), output.dtype) != (source.numel(), source.dtype):
                raise errors.InvalidArgument(
                    f"{what}: {source.numel()} elements of {source.dtype} from rank {self._rank} "
                    f"to itself, which receives {output.numel()} of {output.dtype}"
                )
        return taken, given

    def _check_message(self, what: str, tensors: Tensors, peer: int, tag: int) -> None:
        the_one(what, tensors)
        if not 0 <= peer < self._size:
            raise errors.InvalidArgument(f"{what}: rank {peer} in a group of {self._size}")
        if tag < 0:
            raise errors.InvalidArgument(f"{what}: tag {tag} is negative")

    @operation("SEND", None, "tensors, dstRank: int, tag: int")
    def send(self, tensors: Tensors, target: int, tag: int) -> Work:
        self._check_message("send", tensors, target, tag)
        what = f"send, tag {tag},"
        if target == self._rank:
            return self._timed("send", self._own_messages.send, what, tensors)
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

    @operation("RECV", None, "tensors, srcRank: int, tag: int")
    def recv(self, tensors: Tensors, source: int, tag: int) -> Work:
        self._check_message("recv", tensors, source, tag)
        what = f"send, tag {tag},"
        if source == self._rank:
            return self._timed("recv", self._own_messages.receive, what, tensors)
        return self._timed(
            "recv",
            self._points,
            what,
            [],
            [(tensors[0], source)],
            list(tensors),
            "recv",
            (source, self._rank),
        )

    @operation("RECV", None, "tensors, tag: int")
    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        self._check_message("recv", tensors, self._rank, tag)
        return self._timed("recvAnySource", self._receive_any, tensors, f"send, tag {tag},")

    recvAnysource = recv_anysource

    def _receive_any(self, tensors: Tensors, what: str) -> Work:
        writable(tensors[0])
        if tensors[0].numel() == 0:
            raise errors.InvalidArgument(
                "a receive of no elements from any rank: a message of none is not sent"
            )
        with self._register_lock:
            if self._anywhere is None:
                try:
                    self._anywhere = Anywhere(self, self._job.keeper)  # type: ignore[arg-type]
                except RuntimeError as failure:
                    raise no_store("a receive from any rank", failure) from None
        work = AnyWork(self, list(tensors))
        self._await(work, -1)
        self._anywhere.add(work, what, tensors[0])
        return work

    def _await(self, work: Awaited, source: int) -> None:
        """Records a receive that has no run yet."""
        self._sequence += 1
        work._sequence = self._sequence
        work._call = self._job.flight.record(
            self._facts,
            "recv",
            (source, self._rank),
            [(Unmatched(self._rank, self._ranks), 0)],
            work._outputs,
            names.current(),
        )
        if self._coalescing.works is not None:
            self._coalescing.works.append(work)

    def _served_from(
        self, work: AnyWork, part: Part, after: Callable[[], Any] | None, source: int
    ) -> None:
        work._parts, work._finish, work._source = [part], after, source
        if work._call is not None:
            work._call.parts, work._call.peers = work._parts, (source, self._rank)
        work._found.set()
