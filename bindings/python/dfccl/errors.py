"""Errors: one class for each result code that a program may want to handle."""

from __future__ import annotations

__all__ = [
    "Error",
    "InvalidArgument",
    "InvalidUsage",
    "RemoteError",
    "Timeout",
    "Mismatch",
    "Aborted",
    "OutOfMemory",
]


class Error(RuntimeError):
    """A call or a run has failed. The text is the message of the library, and `code` is the result
    code of include/dfccl.h."""

    code = 3


class InvalidArgument(Error, ValueError):
    """An argument has an invalid value."""

    code = 4


class InvalidUsage(Error):
    """The arguments are valid, but the call is not allowed in this state."""

    code = 5


class RemoteError(Error):
    """A peer has died or left, or the connection to it was lost."""

    code = 6


class Timeout(Error, TimeoutError):
    """A run was not complete within its time limit. If `goes_on` is true, only the wait has ended,
    and the run goes on."""

    code = 8
    goes_on = False


class Mismatch(Error):
    """Ranks registered or ran a collective differently, or their settings differ."""

    code = 9


class Aborted(Error):
    """The context or the collective was aborted."""

    code = 10


class OutOfMemory(Error, MemoryError):
    """Memory or another resource of the system is exhausted."""

    code = 11


_classes = {
    each.code: each
    for each in (
        Error,
        InvalidArgument,
        InvalidUsage,
        RemoteError,
        Timeout,
        Mismatch,
        Aborted,
        OutOfMemory,
    )
}


def of_code(code: int, sentence: str) -> Error:
    error = _classes.get(code, Error)(sentence)
    error.code = code
    return error
