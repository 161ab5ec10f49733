"""Collectives and their runs."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_int, c_void_p
from typing import TYPE_CHECKING, Any

from . import errors
from .arrays import DataType
from .library import (
    IN_PROGRESS,
    SUCCESS,
    Callback,
    Configuration,
    MemoryUse,
    check,
    last_error,
    lib,
    run_error,
)
from .library import Run as RunStruct
from .run_arrays import RunArrays

if TYPE_CHECKING:
    from .context import Context

_SLICE_MS = 200  # a wait returns to Python at this interval, so that Ctrl-C works
_callbacks: dict[int, tuple[Callable[[errors.Error | None], Any], Collective]] = {}
_tokens = iter(range(1, 2**62))
_tokens_lock = threading.Lock()


class _Inside(threading.local):
    # The token of the callback that this thread executes; -1: a function that is of no run
    callback = 0


_inside = _Inside()


@Callback
def _callback(coll: int, status: int, token: int) -> None:
    function, collective = _callbacks.pop(token)
    error = None
    if status != SUCCESS:
        handle = collective.context._handle
        # The run is not there if it ends while it is being submitted.
        numbers = [each[0] for each in list(collective._outstanding) if each[2] == token]
        error = run_error(handle, coll, numbers[0]) if numbers else None
        error = error or errors.of_code(status, last_error(handle))
    _inside.callback = token
    try:
        function(error)
    finally:
        _inside.callback = 0


_callback_address = ctypes.cast(_callback, c_void_p).value


def inside_callback() -> bool:
    return _inside.callback != 0


@contextlib.contextmanager
def as_callback() -> Iterator[None]:
    """The block is a function of the program that is not the callback of a run."""
    _inside.callback = -1
    try:
        yield
    finally:
        _inside.callback = 0


def _goes_on(text: str) -> errors.Timeout:
    """The error of a wait whose run goes on."""
    error = errors.Timeout(text)
    error.goes_on = True
    return error


class Held(Exception):
    """A run was refused, because the collective is held (Collective.hold): it is being
    deregistered, or will be released soon."""


class Enough(Exception):
    """A run was refused, because the collective has had as many runs as the caller allows."""


class Run:
    """One run of a collective. The run keeps its arrays alive until it is complete."""

    __slots__ = ("collective", "number", "_told")

    def __init__(self, collective: Collective, number: int, told: Any = None):
        self.collective, self.number, self._told = collective, number, told

    def received(self) -> list[int]:
        """The number of elements received from each position, after a complete
        all_to_all_dynamic."""
        if self._told is None:
            raise errors.InvalidUsage(f"{self!r} has no counts of its own")
        return list(self._told)

    def wait(self, timeout: float | None = None) -> None:
        """Waits until this run is complete and its callback has returned.

        The waiting thread makes progress for the library. Raises the error of the run, or Timeout
        after so many seconds; after a Timeout the run continues.
        """
        self.collective._wait_run(self.number, timeout)

    def done(self) -> bool:
        """Whether the run is complete. Raises the error of the run if it has failed."""
        code = self.collective._look(self.number)
        if code == IN_PROGRESS:
            return False
        check(code)
        return True

    def error(self) -> errors.Error | None:
        """The error of this run, whatever else has failed; None if the run has not failed, or is
        not complete. Does not wait, and may be called from a callback."""
        with self.collective.context._entered() as handle:
            return run_error(handle, self.collective.id, self.number)

    def __repr__(self) -> str:
        return f"<run {self.number} of {self.collective!r}>"


class Collective(RunArrays):
    """A registered collective. It runs any number of times, in any order relative to others."""

    def __init__(
        self,
        context: Context,
        kind: str,
        id: int,
        count: int,
        type: DataType,
        root: int,
        ranks: Sequence[int] | None,
        name: str | None,
        varying: bool,
        sizes: tuple[int | None, int | None] | None = None,
    ):
        self.context, self.kind, self.id, self.count, self.type, self.root = (
            context,
            kind,
            id,
            count,
            type,
            root,
        )
        self.size = context.size if ranks is None else len(ranks)
        self.rank = context.rank if ranks is None else list(ranks).index(context.rank)
        self.name, self.varying = name, varying
        self._lock = threading.Lock()
        self._outstanding: deque[tuple[int, Any, int]] = (
            deque()
        )  # number, the objects that the run keeps alive, the callback's token
        self._failure: tuple[int, str] | None = (
            None  # the first failure since the last wait; no wait has raised it yet
        )
        self._run = RunStruct()
        self._run_reference = byref(self._run)
        self.runs = 0  # submitted so far
        self.mark = -1  # `runs` at an earlier time; equal to `runs` if there was no run since
        self.members: Sequence[int] = ()  # this and the next two belong to the process group
        self.key: Any = None
        self.plain: Any = None
        self._held = False
        self._inside: deque[None] = (
            deque()
        )  # one entry for each call that waits in the library for the end of a run
        self._expect(sizes)

    def __repr__(self) -> str:
        name = self.name or f"{self.id}"
        return (
            f"<collective {name}, {self.kind} of {self.count} {self.type.name}, group of "
            f"{self.size}>"
        )

    def run(
        self,
        send: Any = None,
        recv: Any = None,
        *,
        count: int = 0,
        send_counts: Sequence[int] | None = None,
        callback: Callable[[errors.Error | None], Any] | None = None,
    ) -> Run:
        """Submits one run; never blocks.

        send, recv   arrays. If only one is given, the run is in place. An all_gather or a
                     reduce_scatter in place gets the whole array, with the part of this rank at
                     its position in the group. A barrier has no arrays, and the kinds from gather
                     on cannot run in place. A rank may pass None for an array that it does not
                     need: recv of a reduce and send of a broadcast, except on the root.
        count        number of elements of this run, at most the registered number; only for a
                     collective registered with varying=True
        send_counts  number of elements for each position; only for all_to_all_dynamic
        callback     called with None, or with the error, on a thread of the library or in a call
                     that waits
        """
        elements = count or self.count
        if count and not self.varying and count != self.count:
            raise errors.InvalidArgument(
                f"a run of {count} elements of {self!r}, which was registered without varying"
            )
        if (self.kind == "all_to_all_dynamic") != (send_counts is not None):
            raise errors.InvalidArgument(
                f"send_counts are of all_to_all_dynamic, and it needs them; this is {self!r}"
            )
        source, target = self._arrays(send, recv, count, send_counts)
        counts = told = None
        if send_counts is not None:
            counts, told = (
                (ctypes.c_size_t * self.size)(*send_counts),
                (ctypes.c_size_t * self.size)(),
            )
        send_at, recv_at = source.address if source else 0, target.address if target else 0
        if self.kind == "all_gather" and target is source and source:
            send_at += self.rank * elements * self.type.bytes
        if self.kind == "reduce_scatter" and target is source and source:
            recv_at += self.rank * elements * self.type.bytes
        token = 0
        if callback is not None:
            with _tokens_lock:
                token = next(_tokens)
            _callbacks[token] = (callback, self)
        try:
            keep = (source, target, counts, told)
            return Run(
                self,
                self._submit(send_at or None, recv_at or None, count, keep, token, counts, told),
                told,
            )
        except BaseException:
            _callbacks.pop(token, None)
            raise

    def _submit(
        self,
        send: int | None,
        recv: int | None,
        count: int,
        keep: Any,
        token: int = 0,
        counts: Any = None,
        told: Any = None,
        most: int = sys.maxsize,
    ) -> int:
        """Returns the number of the run. most: number of runs from which on no run is submitted."""
        context, run = self.context, self._run
        context._calls.append(None)
        try:
            handle = context._handle
            if handle is None:
                raise context._closed()
            with self._lock:
                if self._held:
                    raise Held
                if self.runs >= most:
                    raise Enough
                if self._outstanding:
                    self._drop_complete(handle)
                run.sendBuf, run.recvBuf, run.count = send, recv, count
                if counts is not None:
                    run.sendCounts, run.recvCounts = (
                        ctypes.addressof(counts),
                        ctypes.addressof(told),
                    )
                if token:
                    run.callback, run.arg = _callback_address, token
                code = lib.dfcclRun(handle, self.id, self._run_reference)
                if token:
                    run.callback = run.arg = None
                if code != SUCCESS:
                    check(code)
                number = run.run
                self.runs = number + 1
                self._outstanding.append((number, keep, token))
                return number
        finally:
            context._calls.pop()

    def _drop_complete(self, handle: int) -> None:
        """The caller holds the lock."""
        waiting, token = self._outstanding, _inside.callback
        if not token:
            while (
                waiting
                and (code := lib.dfcclWaitRun(handle, self.id, waiting[0][0], 0)) != IN_PROGRESS
            ):
                self._note(code)
                waiting.popleft()
        elif any(
            each[2] == token for each in waiting
        ):  # runs end in order, so these precede the run of the callback
            while waiting[0][2] != token:
                waiting.popleft()
        elif waiting:  # a callback may not wait for a run
            done = c_int()
            if lib.dfcclTest(handle, self.id, byref(done)) == SUCCESS and done.value:
                waiting.clear()

    def _note(self, code: int) -> None:
        """Notes the result of a run. Without config.survive all runs after a failed one fail too,
        so the result of the last of several runs is enough."""
        if code != SUCCESS:
            failure = code, last_error()
            self._failure = self._failure or failure
            self.context._failure = self.context._failure or failure

    def _look(self, number: int) -> int:
        context = self.context
        context._calls.append(None)
        self._inside.append(None)
        try:
            if context._handle is None:
                raise context._closed()
            if self._held:
                return SUCCESS
            code = lib.dfcclWaitRun(context._handle, self.id, number, 0)
            if code != IN_PROGRESS:
                self._forget(number, code)
            return code
        finally:
            self._inside.pop()
            context._calls.pop()

    def _wait_run(self, number: int, timeout: float | None, before: float = 0) -> None:
        """before: the seconds that the caller has waited without this method."""
        context = self.context
        context._calls.append(None)
        self._inside.append(None)
        try:
            handle = context._handle
            if handle is None:
                raise context._closed()
            if self._held:
                return
            if (
                timeout is None or timeout * 1000 > _SLICE_MS
            ):  # Most runs end within the first slice.
                code = lib.dfcclWaitRun(handle, self.id, number, _SLICE_MS)
                left = None if timeout is None else timeout - _SLICE_MS / 1000
            else:
                code, left = IN_PROGRESS, timeout
            if code != IN_PROGRESS:
                self._forget(number, code)
            else:
                code = self._drive(
                    handle, number, None if left is None else time.monotonic() + left
                )
            if code == IN_PROGRESS:
                waited = (timeout or 0) + before
                raise _goes_on(
                    f"run {number} of {self!r} is not complete after {waited:g} s; it goes on. "
                    + context._state_of(self.id)
                )
            if code != SUCCESS:
                check(code)
        finally:
            self._inside.pop()
            context._calls.pop()

    def _drive(self, handle: int, number: int, end: float | None) -> int:
        """Waits in slices until the run is complete or the time has come."""
        slice_ms = _SLICE_MS
        while True:
            if end is not None:
                slice_ms = max(0, min(_SLICE_MS, int((end - time.monotonic()) * 1000) + 1))
            code = lib.dfcclWaitRun(handle, self.id, number, slice_ms)
            if code != IN_PROGRESS:
                self._forget(number, code)
                return code
            if end is not None and time.monotonic() >= end:
                return code

    def _drive_once(self, number: int, milliseconds: int) -> int:
        """Makes progress for so long, or until the run is complete. Returns the library's code."""
        self._inside.append(None)
        try:
            with self.context._entered() as handle:
                return (
                    SUCCESS
                    if self._held
                    else lib.dfcclWaitRun(handle, self.id, number, milliseconds)
                )
        finally:
            self._inside.pop()

    def _forget(self, number: int, code: int) -> None:
        """Releases the runs up to this one, which are complete, since the runs of a collective end
        in order."""
        if inside_callback():
            return  # the library has refused the call
        with self._lock:
            waiting, handle = self._outstanding, self.context._handle
            if self.context.survive and handle is not None:
                self._drop_complete(handle)  # an earlier run may have failed, and this one not
            if waiting and waiting[0][0] <= number:
                self._note(code)
            while waiting and waiting[0][0] <= number:
                waiting.popleft()

    def _last(self) -> int | None:
        with self._lock:
            return self._outstanding[-1][0] if self._outstanding else None

    def wait(self, timeout: float | None = None) -> None:
        """Waits for all runs submitted before this call. Raises the first failure since the last
        such wait."""
        self._wait_up_to(self._last(), timeout)
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise errors.of_code(*failure)
        with self.context._entered() as handle:
            check(
                lib.dfcclTest(handle, self.id, byref(c_int()))
            )  # the context is broken, and raises its failure

    def _wait_up_to(self, number: int | None, timeout: float | None) -> None:
        if inside_callback():
            raise errors.InvalidUsage("a callback cannot wait")
        if number is not None:
            try:
                self._wait_run(number, timeout)
            except errors.Error as error:
                if isinstance(error, errors.Timeout) and error.goes_on:
                    raise
                # Otherwise _failure has this error, or an earlier one.

    def done(self) -> bool:
        """Whether all runs are complete."""
        number = self._last()
        return number is None or self._look(number) != IN_PROGRESS

    def hold(self) -> bool:
        """Refuses further runs (Held) if all runs have succeeded and no thread waits. Returns
        whether the collective is held.

        From here on, the results of its runs are available without the library, also after the
        collective is deregistered.
        """
        with self.context._entered() as handle, self._lock:
            self._drop_complete(handle)
            if self._outstanding or self._failure is not None or self._held:
                return False
            self._held = (
                True  # set before the waiters are counted; a waiter reads it after it is counted
            )
            self._held = not self._inside
            return self._held

    def release(self) -> None:
        """Ends hold()."""
        with self._lock:
            self._held = False

    def deregister(self) -> None:
        """Deregisters the collective. All its runs must be complete."""
        with self.context._entered() as handle, self._lock:
            self._drop_complete(handle)
            check(lib.dfcclDeregister(handle, self.id))
            self._outstanding.clear()
        self.context._collectives.pop(self.id, None)

    def memory(self) -> dict[str, int]:
        """The memory of the collective on this rank, in bytes (dfcclGetCollectiveMemory)."""
        struct = MemoryUse()
        with self.context._entered() as handle:
            check(lib.dfcclGetCollectiveMemory(handle, self.id, byref(struct)))
        return {field[0]: getattr(struct, field[0]) for field in struct._fields_[3:]}

    def configuration(self) -> dict[str, Any]:
        """The configuration of the collective and its reasons (dfcclGetConfiguration)."""
        struct = Configuration()
        with self.context._entered() as handle:
            check(lib.dfcclGetConfiguration(handle, self.id, byref(struct)))
        values = {field[0]: getattr(struct, field[0]) for field in struct._fields_[3:]}
        return {
            key: value.decode() if isinstance(value, bytes) else value
            for key, value in values.items()
        }
