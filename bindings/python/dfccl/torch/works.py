"""Works, which the operations of a process group return, and their futures."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .. import errors
from ..collective import Collective
from ..library import IN_PROGRESS, last_error
from .flight import FAILED

Part = tuple[Collective, int]
no_time = datetime.timedelta(0)


class Work(dist.Work):
    """One or several runs, and the steps that remain to be done once with their results (copies
    into place)."""

    # Members of the class, since most works never change them, and assignments would slow each
    # call.
    _error: BaseException | None = None
    _ending: torch.futures.Future | None = None
    _future: torch.futures.Future | None = None
    _limit: float | None = None  # seconds, if the call has a time limit of its own
    _call: Any = None  # record of the flight recorder
    _asks = True  # whether a late work asks the other ranks for their state
    _source = -1  # the source of a receive from any rank
    _inner: Sequence[Work] = ()  # the works that it joins, each with a record of its own

    def __init__(
        self,
        group: Any,
        operation: str,
        parts: Sequence[Part],
        outputs: list[torch.Tensor],
        finish: Callable[[], Any] | None = None,
    ):
        super().__init__()
        self._group, self._operation, self._parts, self._outputs = group, operation, parts, outputs
        self._finish = finish
        self._lock = threading.Lock()
        self._ended = not parts and finish is None
        self._sequence = group._sequence

    def _end(self, error: BaseException | None) -> None:
        with self._lock:
            if self._ended:
                return
            if error is None and self._finish is not None:
                try:
                    self._finish()
                except Exception as failure:
                    error = failure
            self._error, self._finish, self._ended = error, None, True
            if self._call is not None:
                self._call.ended = time.time_ns() if error is None else FAILED
            ending = self._ending
        if ending is not None:
            ending.set_result(None)

    def _told(self, _: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._outputs

    def _look(self) -> bool:
        """Whether the work has ended. Makes no progress."""
        if self._ended:
            return True
        error = None
        for collective, number in self._parts:
            try:
                code = collective._look(number)
            except errors.Error as failure:
                code, error = failure.code, error or failure
            if code == IN_PROGRESS:
                return False
            if code != 0:
                error = error or errors.of_code(code, last_error())
        self._end(error)
        return True

    def wait(self, timeout: datetime.timedelta = no_time) -> bool:
        if not self._ended:
            seconds = (
                timeout.total_seconds()
                if timeout > no_time
                else self._limit or self._group._timeout
            )
            error = None
            for collective, number in self._parts:
                try:
                    collective._wait_run(number, seconds)
                except errors.Timeout as failure:
                    raise self._group._late(self, failure, seconds) from None
                except errors.Error as failure:
                    error = error or failure
            self._end(error)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._look()

    def is_success(self) -> bool:
        return self._look() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error if self._look() else None

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._outputs

    def get_future(self) -> torch.futures.Future:
        """A future that the group's watcher completes, since c10d waits for it where no Python
        runs."""
        with self._lock:
            if self._future is not None:
                return self._future
            ending = torch.futures.Future()
            # C++ treats the result of set_exception as a value, and DistributedDataParallel
            # crashes. It handles the error of a callback correctly.
            future = self._future = ending.then(self._told)
            self._ending, ended = ending, self._ended
        if ended:
            ending.set_result(None)
        else:
            self._watched = time.monotonic()
            self._group._job.watcher.add(self)
        return future

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def abort(self) -> None:
        self._group._abort_collectives([collective for collective, _ in self._parts])

    def _get_sequence_number(self) -> int:
        return self._sequence

    def _get_operation_type(self) -> str:
        return self._operation


class Watcher:
    """A thread that waits for the works that have futures, in any order of their ends."""

    _LOOK_MS = 1  # delay after which a work that ends before an older one is noticed

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._works: list[Work] = []
        self._stopped = False
        self._thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        with self._condition:
            self._works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._body, name="dfccl futures", daemon=True
                )
                self._thread.start()
            self._condition.notify()

    def settle(self, group: Any) -> None:
        """Ends the works of a group, whose runs are all complete."""
        with self._condition:
            works = [work for work in self._works if work._group is group]
        for work in works:
            self._over(work)

    def stop(self) -> None:
        with self._condition:
            self._stopped = True
            self._condition.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _body(self) -> None:
        while True:
            with self._condition:
                while not self._works and not self._stopped:
                    self._condition.wait()
                if self._stopped and not self._works:
                    return
                works = list(self._works)
            left = [work for work in works if not self._over(work)]
            if len(left) < len(works):
                with self._condition:
                    self._works = left + self._works[len(works) :]
            elif left:
                left[0]._group._drive(left[0], self._LOOK_MS)

    @staticmethod
    def _over(work: Work) -> bool:
        try:
            if work._look():
                return True
            late = work._group._is_late(work)
            if late is not None:
                work._end(late)
            return late is not None
        except errors.Error as error:  # the context is closed
            work._end(error)
            return True
