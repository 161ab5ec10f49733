"""Collectives and their runs."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_void_p
from typing import TYPE_CHECKING, Any

from . import errors
from .arrays import DataType, Memory, memory_of
from .library import IN_PROGRESS, SUCCESS, Callback, Configuration, check, last_error, lib
from .library import Run as RunStruct

if TYPE_CHECKING:
    from .context import Context

_SLICE_MS = 200  # a wait returns to Python at this interval, so that Ctrl-C works
_callbacks: dict[int, tuple[Callable[[errors.Error | None], Any], Collective]] = {}
_tokens = iter(range(1, 2**62))
_tokens_lock = threading.Lock()


class _Inside(threading.local):
    callback = 0  # the token of the callback that this thread executes


_inside = _Inside()


@Callback
def _callback(coll: int, status: int, token: int) -> None:
    function, collective = _callbacks.pop(token)
    error = None
    if status != SUCCESS:
        error = errors.of_code(status, last_error(collective.context._handle))
    _inside.callback = token
    try:
        function(error)
    finally:
        _inside.callback = 0


_callback_address = ctypes.cast(_callback, c_void_p).value


def inside_callback() -> bool:
    return _inside.callback != 0


class _GoesOn(errors.Timeout):
    """The time limit of a wait has passed; the run itself has not failed."""


class Held(Exception):
    """A run was refused, because the collective is held (Collective.hold): it is being
    deregistered, or will be released soon."""


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

    def __repr__(self) -> str:
        return f"<run {self.number} of {self.collective!r}>"


class Collective:
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
        wide = self.size
        # Least elements of both arrays (None: no such array); None if the kind decides.
        self._sizes = sizes
        self._send_wide, self._recv_wide = {
            "all_gather": (1, wide),
            "reduce_scatter": (wide, 1),
            "all_to_all": (wide, wide),
            "gather": (1, wide),
            "scatter": (wide, 1),
        }.get(kind, (1, 1))
        if sizes is None and kind in ("gather", "scatter"):
            at_root = self.rank == root
            self._sizes = (
                count if kind == "gather" else count * wide if at_root else None,
                count if kind == "scatter" else count * wide if at_root else None,
            )

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
        source, target = (
            self._memories(send, recv, elements)
            if self._sizes is None
            else self._separate(send, recv, count, send_counts)
        )
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

    def _memories(self, send: Any, recv: Any, elements: int) -> tuple[Memory | None, Memory | None]:
        in_place = send is None or recv is None or send is recv
        if in_place and send is None and recv is None:
            raise errors.InvalidArgument(f"a run of {self!r} without an array")
        if in_place and self.kind == "reduce" and self.rank != self.root:
            return self._checked(send if recv is None else recv, elements, False), None
        if in_place and self.kind == "broadcast" and self.rank == self.root:
            both = self._checked(send if recv is None else recv, elements, False)
            return both, both
        if in_place:
            both = self._checked(
                send if recv is None else recv,
                elements * max(self._send_wide, self._recv_wide),
                True,
            )
            return both, both
        source = (
            None
            if self.kind == "broadcast" and self.rank != self.root
            else self._checked(send, elements * self._send_wide, False)
        )
        target = (
            None
            if self.kind == "reduce" and self.rank != self.root
            else self._checked(recv, elements * self._recv_wide, True)
        )
        return source, target

    def _separate(
        self, send: Any, recv: Any, count: int, send_counts: Sequence[int] | None
    ) -> tuple[Memory | None, Memory | None]:
        sent, received = self._sizes or (None, None)
        if send_counts is not None:
            if len(send_counts) != self.size or any(
                not 0 <= each <= self.count for each in send_counts
            ):
                raise errors.InvalidArgument(f"send_counts {list(send_counts)} of {self!r}")
            sent = sum(send_counts)
        if count and self.varying and count <= self.count:
            scale = [each and each // self.count * count for each in (sent, received)]
            sent, received = scale
        if send is not None and send is recv:
            raise errors.InvalidArgument(f"a run of {self!r} in place: it has two arrays here")
        pair: list[Memory | None] = []
        for thing, elements, writable in ((send, sent, False), (recv, received, True)):
            if not elements:
                pair.append(None)
                continue
            memory = memory_of(thing, writable)
            if memory.type is not None and memory.type != self.type:
                raise errors.InvalidArgument(f"an array of {memory.type.name} for {self!r}")
            if memory.bytes < elements * self.type.bytes:
                raise errors.InvalidArgument(
                    f"an array of {memory.bytes // self.type.bytes} elements where {self!r} needs "
                    f"{elements}"
                )
            pair.append(memory)
        return pair[0], pair[1]

    def _checked(self, thing: Any, elements: int, writable: bool) -> Memory:
        memory = memory_of(thing, writable)
        if memory.type is not None and memory.type != self.type:
            raise errors.InvalidArgument(f"an array of {memory.type.name} for {self!r}")
        if memory.bytes != elements * self.type.bytes:
            raise errors.InvalidArgument(
                f"an array of {memory.bytes // self.type.bytes} elements where {self!r} needs "
                f"{elements}"
            )
        return memory

    def _submit(
        self,
        send: int | None,
        recv: int | None,
        count: int,
        keep: Any,
        token: int = 0,
        counts: Any = None,
        told: Any = None,
    ) -> int:
        context, run = self.context, self._run
        context._calls.append(None)
        try:
            handle = context._handle
            if handle is None:
                raise context._closed()
            with self._lock:
                if self._held:
                    raise Held
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
        """Notes the result of a run. After a failure all later runs of the collective fail too, so
        the result of the last of several runs is enough."""
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

    def _wait_run(self, number: int, timeout: float | None) -> None:
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
                raise _GoesOn(
                    f"run {number} of {self!r} is not complete after {timeout:g} s; it goes on. "
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
            waiting = self._outstanding
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
            except _GoesOn:
                raise
            except errors.Error:
                pass  # _failure has this error, or an earlier one

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
