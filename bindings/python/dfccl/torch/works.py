"""Works, which the operations of a process group return, and their futures.

A work is ended by the first thread that notices the end of its runs: one that waits for it, or the
thread of a Watcher. Neither calls callbacks of its future, which are functions of the program:
callbacks.py has threads for them.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import datetime
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .. import errors
from ..collective import Collective
from ..library import IN_PROGRESS, last_error
from .callbacks import Callbacks, is_own_thread, runs_no_callbacks, waits
from .flight import FAILED

Part = tuple[Collective, int]
no_time = datetime.timedelta(0)
_FUTURE_S = 0.5  # how long wait() waits for the callbacks of other works


def _without_frames(error: BaseException) -> BaseException:
    """The error without its traceback, whose frames would hold the work that holds the error."""
    error.__context__ = error.__traceback__ = None
    return error


def _raised(error: BaseException) -> BaseException:
    """A copy of a work's error, to be raised: raising adds a traceback to it."""
    try:
        return _without_frames(copy.copy(error))
    except Exception:  # a class whose objects cannot be copied
        return error


class _Result:
    """The result of a work, as its future has it. It does not hold the work: the cycle of a future
    of C++, its result and the work would never be collected."""

    __slots__ = ("outputs", "error")

    def __init__(self, outputs: list[torch.Tensor]):
        self.outputs, self.error = outputs, None  # type: list[torch.Tensor], BaseException | None

    def of(self, _: torch.futures.Future) -> list[torch.Tensor]:
        if self.error is not None:
            raise _raised(self.error)
        return self.outputs


def _set_result(ending: torch.futures.Future, inference: bool, gradients: bool) -> None:
    with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
        ending.set_result(None)  # calls the callbacks


def _failed(error: BaseException) -> torch.futures.Future:
    """A future that has ended with an error."""
    result, ending = _Result([]), torch.futures.Future()
    result.error = _without_frames(error)
    future = ending.then(result.of)
    ending.set_result(None)
    return future


class Work(dist.Work):
    """One or several runs, and the steps that remain to be done once with their results (copies
    into place)."""

    # Members of the class, since most works never change them, and assignments would slow each
    # call.
    _error: BaseException | None = None
    _ending: torch.futures.Future | None = None  # None: the future's result is set, or being set
    _future: torch.futures.Future | None = None
    _result: _Result | None = None
    _modes = (False, True)  # inference mode and grad mode of the thread that wants the future
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
            if error is not None:
                error = self._group._job.mismatches.error_of(self, error)
                error = self._group._job.survivors.error_of(error)
                self._error = _without_frames(error)
            self._finish, self._ended = None, True
            if self._call is not None:
                self._call.ended = time.time_ns() if error is None else FAILED
            ending, self._ending = self._ending, None
            if ending is not None and self._result is not None:
                self._result.error = self._error
        callbacks = self._group._job.watcher.callbacks
        if self._error is not None:
            if is_own_thread():  # the group has hooks of the program
                callbacks.submit(partial(self._group._has_failed, self._error))
            else:
                self._group._has_failed(self._error)
        error = None  # an error, its traceback and this frame would be a cycle
        if ending is not None:
            callbacks.submit(partial(_set_result, ending, *self._modes))

    def _look(self) -> bool:
        """Whether the work has ended. Makes no progress."""
        if self._ended:
            return True
        error = None
        try:
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
        finally:
            error = None  # an error, its traceback and this frame would be a cycle

    def wait(self, timeout: datetime.timedelta = no_time) -> bool:
        if not self._ended:
            waits()
            self._wait(timeout)
        if self._error is not None:
            raise _raised(self._error)
        if self._future is not None and not self._future.done():
            self._await_future(self._future)
        return True

    @staticmethod
    def _await_future(future: torch.futures.Future) -> None:
        """A thread is about to set the result, so that callbacks begin before wait() returns. Other
        callbacks that compute may be before it: they do not hold up the caller."""
        waits()
        end = time.monotonic() + _FUTURE_S
        while not future.done() and time.monotonic() < end:
            time.sleep(0.0002)

    def _wait(self, timeout: datetime.timedelta) -> None:
        seconds = (
            timeout.total_seconds() if timeout > no_time else self._limit or self._group._timeout
        )
        error = None
        try:
            for collective, number in self._parts:
                try:
                    self._wait_part(
                        collective, number, seconds, timeout > no_time or self._limit is not None
                    )
                except errors.Timeout as failure:
                    raise self._group._late(self, failure, seconds) from None
                except errors.Error as failure:
                    error = error or failure
            self._end(error)
        finally:
            error = None  # an error, its traceback and this frame would be a cycle

    def _wait_part(
        self, collective: Collective, number: int, seconds: float, is_bounded: bool
    ) -> None:
        mismatches = self._group._job.mismatches
        if not 0 < mismatches.after < seconds:
            collective._wait_run(number, seconds)
            return
        try:
            collective._wait_run(number, mismatches.after)
            return
        except errors.Timeout as failure:
            if not failure.goes_on:
                raise
        wait = mismatches.begin(self, is_bounded)
        try:
            collective._wait_run(number, seconds - mismatches.after, before=mismatches.after)
        finally:
            mismatches.end(wait)

    def _check_process(self) -> None:
        """Raises InvalidUsage in a forked child, where nothing ends a call of the parent."""
        if self._group._job.watcher.is_forked:
            raise errors.InvalidUsage(
                f"{self._operation} was called before this process was forked, so only the parent "
                "process can wait for it"
            )

    def synchronize(self) -> None:
        self.wait()

    block_current_stream = synchronize  # tensors of the CPU have no stream

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
        """A future that the job's watcher ends, since c10d waits for it where no Python runs."""
        waits()  # a callback that wants the future is about to wait for it
        if not (self._ended if self._future is None else self._future.done()):
            try:
                self._check_process()
            except errors.InvalidUsage as error:
                return _failed(error)
        with self._lock:
            if self._future is not None:
                return self._future
            self._modes = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
            self._result = _Result(self._outputs)
            ending = torch.futures.Future()
            # C++ treats the result of set_exception as a value, and DistributedDataParallel
            # crashes. It handles the error of a callback correctly.
            future = self._future = ending.then(self._result.of)
            if self._ended:
                self._result.error = self._error
                ending.set_result(None)  # nobody has added a callback yet
                return future
            self._ending = ending
        self._watched = time.monotonic()
        self._group._job.watcher.add(self)
        return future

    def get_future_result(self) -> torch.futures.Future:
        """A future of the kind of result, a WorkResult as a number. It raises no error."""
        return self.get_future().then(lambda _: int(self._kind_of_result()))

    def _kind_of_result(self) -> Any:
        if self._error is None:
            return c10d.WorkResult.SUCCESS
        late = isinstance(self._error, errors.Timeout)
        return c10d.WorkResult.TIMEOUT if late else c10d.WorkResult.COMM_ERROR

    @property
    def timeout(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self._limit or self._group._timeout)

    def source_rank(self) -> int:
        alive = self._group._alive
        return alive.index(self._source) if self._source in alive else self._source

    _source_rank = source_rank

    def abort(self) -> None:
        self._group._abort_collectives([collective for collective, _ in self._parts])

    def _get_sequence_number(self) -> int:
        return self._sequence

    def _get_operation_type(self) -> str:
        return self._operation


class Watcher:
    """A thread that notices the ends of works with futures, in any order. It runs no function of
    the program, and waits for nothing but runs."""

    _LOOK_MS = 1  # delay after which a work that ends before an older one is noticed

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._works: list[Work] = []
        self._stopped = self._gives_up = False
        self.is_forked = False  # this process is a child of the one whose works these are
        # Works whose time limit has passed. The error of one is made at a time, since that asks
        # other ranks and takes seconds.
        self._overdue: deque[Work] = deque()
        self._makes_error = False
        _open.add(self)
        self._thread: threading.Thread | None = None
        self.callbacks = Callbacks()

    def add(self, work: Work) -> None:
        self.callbacks.start()
        with self._condition:
            stopped = self._stopped
            if not stopped:
                self._works.append(work)
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._body, name="dfccl futures", daemon=True
                    )
                    self._thread.start()
                self._condition.notify()
        if stopped and not self._over(work):
            work._end(errors.Aborted("the process group of this call has been destroyed"))

    def settle(self, group: Any) -> None:
        """Ends the works of a group, whose runs are all complete."""
        with self._condition:
            works = [work for work in self._works if work._group is group]
        for work in works:
            self._over(work)

    def stop(self, gives_up: bool = False) -> None:
        """Waits until all works have ended. gives_up: their futures never end."""
        with self._condition:
            self._stopped, self._gives_up = True, gives_up
            self._condition.notify()
            thread = self._thread
        if thread is not None:
            thread.join()
        self.callbacks.stop()
        _open.discard(self)

    def _body(self) -> None:
        runs_no_callbacks()
        while True:
            with self._condition:
                while not self._works and not self._stopped:
                    self._condition.wait()
                if self._stopped and (self._gives_up or not self._works):
                    return
                works = list(self._works)
            left = [work for work in works if not self._over(work)]
            if len(left) < len(works):
                with self._condition:
                    self._works = left + self._works[len(works) :]
            elif left:
                with contextlib.suppress(errors.Error):  # the next look has the error
                    left[0]._group._drive(left[0], self._LOOK_MS)
            works = left = []  # an idle watcher keeps no work alive

    def _over(self, work: Work) -> bool:
        """Whether the watcher is done with a work."""
        try:
            if work._look():
                return True
            if work._group._is_late(work):
                with self._condition:
                    self._overdue.append(work)
                    self._make_error()
                return True
        except errors.Error as error:  # the context is closed
            work._end(error)
            return True
        return False

    def _make_error(self) -> None:
        """The caller holds the lock."""
        if self._overdue and not self._makes_error:
            self._makes_error = True
            self.callbacks.submit(partial(self._end_late, self._overdue.popleft()))

    def _end_late(self, work: Work) -> None:
        waits()
        late: BaseException
        try:
            late = work._group._lateness(work)
        except Exception as error:  # the context is closed, or a description cannot be had
            late = _without_frames(error)
        with self._condition:  # the next error is made while hooks of the program are called
            self._makes_error = False
            self._make_error()
        try:
            if not work._look():
                work._end(late)
        except errors.Error as error:  # the context is closed
            work._end(error)


_open: weakref.WeakSet[Watcher] = weakref.WeakSet()


def _forked() -> None:
    """A forked child has no thread that would notice ends."""
    for watcher in list(_open):
        watcher._condition = threading.Condition()
        watcher._works, watcher._thread, watcher._stopped = [], None, True
        watcher._overdue.clear()
        watcher.is_forked = True
    _open.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _stop_all() -> None:
    """Stops all watchers, so that no future ends while the interpreter ends (callbacks.py)."""
    for watcher in list(_open):
        watcher.stop(gives_up=True)
