"""Stacks of recorded calls and of the threads of this process, as texts and as torch's dumps have
them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

try:
    from torch._C._profiler import gather_traceback, symbolize_tracebacks
except ImportError:  # this version of torch records no stacks
    gather_traceback = None

if TYPE_CHECKING:
    from .flight import Call

_TOLD_FRAMES = 5

Frame = dict[str, Any]


def _symbolized(stacks: list[Any]) -> list[list[Frame]]:
    """Stacks with names of functions and files. torch would import _inductor here, which takes
    seconds in which no question is answered, and which is not needed for this."""
    if "torch._inductor" in sys.modules:
        return symbolize_tracebacks(stacks)
    stand_in = torch._inductor = SimpleNamespace()
    try:
        return symbolize_tracebacks(stacks)
    finally:
        if torch._inductor is stand_in:
            del torch._inductor


def frames_of(calls: Sequence[Call]) -> list[list[Frame]]:
    """The stack of each call, the innermost frame first."""
    with_stack = [call for call in calls if call.stack is not None]
    stacks = iter(_symbolized([call.stack for call in with_stack]) if with_stack else [])
    return [[] if call.stack is None else list(next(stacks)) for call in calls]


_own = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
)


def place(frames: Sequence[Frame]) -> str:
    """The frames of the program, as a part of a sentence."""
    program = [frame for frame in frames if not frame["filename"].startswith(_own)] or list(frames)
    shown = [
        f"{frame['filename']}:{frame['line']} in {frame['name']}"
        for frame in program[:_TOLD_FRAMES]
    ]
    return " < ".join(shown) + (" < ..." if len(program) > _TOLD_FRAMES else "")


def threads() -> list[dict[str, Any]]:
    """The position of each Python thread, except the calling one and those of this package."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    told = []
    for ident, frame in sys._current_frames().items():
        name = names.get(ident, str(ident))
        if ident == threading.get_ident() or name.startswith("dfccl "):
            continue
        frames: list[Frame] = []
        while frame is not None and len(frames) < 64:
            frames.append(
                {
                    "name": frame.f_code.co_name,
                    "filename": frame.f_code.co_filename,
                    "line": frame.f_lineno,
                }
            )
            frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
        told.append({"thread": name, "at": place(frames)})
    return sorted(told, key=lambda each: each["thread"] != "MainThread")
