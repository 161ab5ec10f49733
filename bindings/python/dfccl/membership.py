"""The members of a job that goes on when ranks are lost."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from collections.abc import Callable, Iterable
from ctypes import byref, c_int, c_void_p
from typing import Any

from . import errors
from .collective import as_callback, inside_callback
from .library import AdmitCallback, MembershipCallback, UniqueId, check, last_error, lib
from .library import Membership as Struct

# Key: a result code that the library gives as the reason
_reasons = {0: "left", 6: "ended", 8: "silent", 10: "excluded"}


@dataclasses.dataclass(frozen=True)
class Membership:
    """One view of a job: the ranks that go on.

    view      its number, 0 at the start
    members   ranks in increasing order; ranks keep their numbers
    lost      the ranks that the view before had, each with the reason: "left" (it has closed its
              context), "ended" (its process has ended, or its context is broken), "silent" (it did
              not answer) or "excluded"
    joined    the ranks that have joined since the view before (Context.join)
    rank      the rank whose view it is
    """

    view: int
    members: tuple[int, ...]
    lost: dict[int, str]
    joined: tuple[int, ...]
    rank: int


def _copy(given: Any, rank: int) -> Membership:
    lost = {given.lost[at]: given.reasons[at] for at in range(given.nLost)}
    return Membership(
        given.view,
        tuple(given.members[: given.nMembers]),
        {each: _reasons.get(code, f"result {code}") for each, code in lost.items()},
        tuple(given.joined[: given.nJoined]) if given.nJoined else (),
        rank,
    )


class Notifier:
    """Receives the views of the contexts that are made by one call."""

    def __init__(self, survive: int, function: Callable[[Membership], Any] | None):
        if function is not None and survive == 0:
            raise errors.InvalidArgument("membership is called only with survive 1 or 2; it is 0")
        self.survive, self._function = survive, function
        # The library frees the arrays of a view when this function has returned for the next one.
        # A thread that copies them has this lock, and the function begins with it.
        self.lock = threading.Lock()
        self.closing: set[int] = set()  # contexts that are being closed
        self._callback = MembershipCallback(self._told)
        self.address = ctypes.cast(self._callback, c_void_p).value if survive else None

    def _told(self, handle: int, given: Any, _: Any) -> None:
        with self.lock:
            rank = c_int()
            lib.dfcclGetRank(handle, byref(rank), None)
            view = _copy(given.contents, rank.value)
        if self._function is not None and handle not in self.closing:
            with as_callback():
                self._function(view)


class Admit:
    """One call of Context.admit."""

    def __init__(self, function: Callable[[errors.Error | None], Any] | None):
        self._function = function
        self._error: errors.Error | None = None
        self._over = threading.Event()
        self.callback = AdmitCallback(self._ended)

    def _ended(self, handle: int, status: int, _: Any) -> None:
        if status != 0:
            self._error = errors.of_code(status, last_error(handle))
        self._over.set()
        if self._function is not None:
            with as_callback():
                self._function(self._error)

    def done(self) -> bool:
        """Whether a process has joined, or the call has failed."""
        return self._over.is_set()

    def wait(self, timeout: float | None = None) -> None:
        """Waits until a process has joined. Raises the error if none has, alike on all members:
        Timeout (none came within DFCCL_INIT_TIMEOUT_MS), RemoteError (it was lost while it joined),
        Mismatch (members have called between different runs), Aborted (this context was closed).
        After `timeout` seconds it raises Timeout with goes_on true, and the call goes on."""
        if inside_callback():
            raise errors.InvalidUsage("a callback cannot wait for an admit")
        if not self._over.wait(timeout):
            error = errors.Timeout(f"the admit has not ended after {timeout} s; it goes on")
            error.goes_on = True
            raise error
        if self._error is not None:
            raise errors.of_code(self._error.code, str(self._error))


class Members:
    """The part of Context that concerns the members of the job."""

    # Members of the context that these methods use.
    rank: int
    _entered: Any
    _notifier: Notifier
    _admits: tuple[Admit, ...] = ()  # the latest calls, whose functions the library may use

    def membership(self) -> Membership:
        """The latest view of this rank (dfcclGetMembership), of a context with survive 1 or 2. The
        function `membership` of the constructor may be called for it later."""
        struct = Struct()
        with self._entered() as handle, self._notifier.lock:
            check(lib.dfcclGetMembership(handle, byref(struct)))
            return _copy(struct, self.rank)

    def exclude(self, ranks: Iterable[int]) -> None:
        """Excludes ranks from the job (dfcclExclude): the next view is without them, as if their
        processes had ended. Does not wait for that view. Excluded ranks end their runs with
        RemoteError. Ranks that are lost already are ignored."""
        given = [int(rank) for rank in ranks]
        with self._entered() as handle:
            check(lib.dfcclExclude(handle, (c_int * len(given))(*given), len(given)))

    def join_id(self) -> bytes:
        """An id by which one process after another can join this job on this host (Context.join):
        128 bytes with a secret (dfcclGetJoinId). It is valid until this context is closed."""
        made = UniqueId()
        with self._entered() as handle:
            check(lib.dfcclGetJoinId(handle, byref(made)))
        return bytes(made)

    def admit(self, callback: Callable[[errors.Error | None], Any] | None = None) -> Admit:
        """Takes in one process that calls Context.join (dfcclAdmit). All members call it between
        the same runs, and go on without waiting. Collectives that are registered after it has ended
        have the newcomer; earlier ones stay as they are. Nothing can be registered meanwhile.

        callback   called once on a thread of the library, as callback(None) when a process has
                   joined, or callback(error); it may register and run collectives, and must not
                   wait
        """
        admit = Admit(callback)
        with self._entered() as handle:
            self._admits = (*self._admits[-2:], admit)
            check(lib.dfcclAdmit(handle, admit.callback, None))
        return admit
