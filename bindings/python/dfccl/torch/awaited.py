"""Receives that have no run when they are made, and the messages of a rank to itself.

A message of a rank to itself is no run of the library. It is copied when it is sent: into the
tensor of the oldest receive of its signature that waits, or else into memory of its own, where the
next such receive finds it. So its send is complete at once, whether its receive comes before it,
in the same batch, later, or in another thread. A receive from any rank does not take it, because
torch.distributed.recv refuses its own rank as the source.
"""

from __future__ import annotations

import datetime
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import errors
from ..library import IN_PROGRESS
from .callbacks import waits
from .tensors import packed, put, writable
from .types import Key, Tensors, alive
from .works import Work, no_time

if TYPE_CHECKING:
    from .group import ProcessGroup


class Awaited(Work):
    """A receive that has no run until its message is known."""

    def __init__(self, group: Any, outputs: list[torch.Tensor]):
        super().__init__(group, "recv", [], outputs)
        self._ended = False
        self._found = threading.Event()

    def _search(self, seconds: float) -> bool:
        """Waits for the message."""
        return self._found.wait(seconds)

    def _nobody(self, seconds: float) -> errors.Timeout:
        """The error if there is none."""
        raise NotImplementedError

    def wait(self, timeout: datetime.timedelta = no_time) -> bool:
        seconds = (
            timeout.total_seconds() if timeout > no_time else self._limit or self._group._timeout
        )
        waits()
        self._check_process()
        if self._search(seconds):
            return super().wait(timeout)
        raise self._group._late(self, self._nobody(seconds), seconds)

    def _look(self) -> bool:
        return self._found.is_set() and super()._look()


class Unmatched:
    """Stands for the run of such a receive in the flight recorder."""

    def __init__(self, rank: int, ranks: Sequence[int]):
        self.id, self.members = f"receive of rank {ranks[rank]}", ranks

    @staticmethod
    def _look(_: int) -> int:
        return IN_PROGRESS


class Joined(Work):
    """The work of several calls, of which some are such receives."""

    _awaited: Sequence[Awaited] = ()

    def wait(self, timeout: datetime.timedelta = no_time) -> bool:
        for each in self._awaited:
            each.wait(timeout)
        return super().wait(timeout)

    def _look(self) -> bool:
        if not all(each._look() for each in self._awaited):
            return False
        failed = [each._error for each in self._awaited if each._error is not None]
        if failed:
            self._end(failed[0])
        return super()._look()


class OwnReceive(Awaited):
    """A receive from this rank itself that waits for its message."""

    _asks = False  # other ranks have no part in it

    def __init__(self, group: Any, outputs: list[torch.Tensor], target: torch.Tensor):
        super().__init__(group, outputs)
        self.target, self._source = target, group._rank

    def arrive(self, message: torch.Tensor) -> None:
        self._finish = lambda: put([self.target], [message])
        self._end(None)
        self._found.set()

    def _nobody(self, seconds: float) -> errors.Timeout:
        return errors.Timeout(
            f"after {seconds:g} s this rank has not sent {self.target.dtype}"
            f"[{self.target.numel()}] to itself; the receive goes on"
        )


class OwnMessages:
    """The messages of this rank to itself in one group."""

    def __init__(self, group: ProcessGroup):
        self._find_group = weakref.ref(group)  # no cycle, since the group has a store of torch
        self._lock = threading.Lock()
        # For each signature there are messages or receives, never both, and no empty queues
        self._sent: dict[Key, deque[torch.Tensor]] = {}
        self._waiting: dict[Key, deque[OwnReceive]] = {}

    @property
    def _group(self) -> ProcessGroup:
        return alive(self._find_group)

    @staticmethod
    def _next(queues: dict[Key, deque[Any]], key: Key) -> Any:
        """Takes the oldest of a signature. The caller holds the lock."""
        queue = queues.get(key)
        if queue is None:
            return None
        oldest = queue.popleft()
        if not queue:
            del queues[key]
        return oldest

    def _key(self, what: str, tensor: torch.Tensor) -> Key:
        rank = self._group._rank
        return self._group._key_of_point(what, tensor, rank, rank)

    def _peers(self) -> tuple[int, int]:
        return self._group._rank, self._group._rank

    def send(self, what: str, tensors: Tensors) -> Work:
        message = packed(tensors[0])
        if message.numel() > 0:
            key = self._key(what, message)
            with self._lock:
                receive = self._next(self._waiting, key)
                if receive is None:
                    self._sent.setdefault(key, deque()).append(message.clone())
            if receive is not None:
                receive.arrive(message)
        return self._group._work("send", [], list(tensors), None, self._peers())

    def receive(self, what: str, tensors: Tensors) -> Work:
        target, outputs = writable(tensors[0]), list(tensors)
        message = None
        if target.numel() > 0:
            key = self._key(what, target)
            with self._lock:
                message = self._next(self._sent, key)
                if message is None:
                    work = OwnReceive(self._group, outputs, target)
                    self._group._await(work, self._group._rank)
                    self._waiting.setdefault(key, deque()).append(work)
                    return work
            put([target], [message])
        done = self._group._work("recv", [], outputs, None, self._peers())
        done._source = self._group._rank
        return done

    def give_up(self) -> None:
        with self._lock:
            works = [work for queue in self._waiting.values() for work in queue]
            self._waiting.clear()
            self._sent.clear()
        for work in works:
            work._end(errors.Aborted("the process group has given up this receive from itself"))
            work._found.set()
