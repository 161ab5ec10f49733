"""The members of a job that goes on when ranks are lost."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from collections.abc import Callable, Iterable
from ctypes import byref, c_int, c_void_p
from typing import Any

from . import errors
from .collective import as_callback
from .library import Membership as Struct
from .library import MembershipCallback, check, lib

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
    joined    always empty: no rank can join yet
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


class Members:
    """The part of Context that concerns the members of the job."""

    # Members of the context that these methods use.
    rank: int
    _entered: Any
    _notifier: Notifier

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
