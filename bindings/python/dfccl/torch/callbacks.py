"""Threads for the callbacks of futures.

Setting the result of one of torch's futures calls its callbacks, which are functions of the
program: they may take long, make calls of the group, and wait for other futures. So the thread that
notices the ends of works (works.py) sets no result itself. It leaves that to these threads.

Tasks begin in their order. A task begins while another one is in progress only if that one waits,
or is about to wait: for a work, for a future of a work, or for anything else in the kernel. So
short callbacks do not overlap, and their calls have the same order on each rank, unless the ends of
works differ in order. A callback that computes, or is ready to run on a busy machine, holds up the
next one for _PATIENCE_S at most.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

_PATIENCE_S = 1.0
# A thread that sleeps for so long in one piece does not wait for the interpreter's lock, since such
# a wait has timeouts of 5 ms.
_ASLEEP_S = 0.012
_IDLE_S = 10.0  # idle time after which a thread ends, if there are others
_STOP_S = 2.0  # how long the end of a job waits for callbacks


def _switches(thread: int) -> str:
    """The number of times that a thread has waited so far. Empty if it is not waiting now."""
    try:
        with open(f"/proc/self/task/{thread}/status") as file:
            text = file.read()
    except OSError:
        return ""
    sleeps = "\nState:\tS" in text
    return text.partition("\nvoluntary_ctxt_switches:\t")[2].partition("\n")[0] if sleeps else ""


class _Task:
    """A task in progress."""

    __slots__ = ("began", "seen", "switches", "thread", "waits")

    def __init__(self) -> None:
        self.thread, self.waits = threading.get_native_id(), False
        self.began = self.seen = time.monotonic()
        self.switches = ""

    def is_asleep(self) -> bool:
        """Whether the task has slept in the kernel since an earlier call."""
        now = time.monotonic()
        switches = _switches(self.thread)
        if switches != self.switches:
            self.seen, self.switches = now, switches
            return False
        return bool(switches) and now - self.seen >= _ASLEEP_S

    def look(self) -> None:
        """Notices whether the task waits."""
        self.waits = self.is_asleep() or time.monotonic() - self.began >= _PATIENCE_S


class _Local(threading.local):
    callbacks: Callbacks | None = None  # the threads that this thread belongs to
    task: _Task | None = None
    own = False  # whether this thread must not call functions of the program


_local = _Local()


def waits() -> None:
    """Called before this thread waits for a work: if a callback does so, the next task begins."""
    callbacks, task = _local.callbacks, _local.task
    if callbacks is not None and task is not None and not task.waits:
        callbacks._waits(task)


def runs_no_callbacks() -> None:
    """Called by a thread of the package that must not call functions of the program."""
    _local.own = True


def is_own_thread() -> bool:
    return _local.own


class Callbacks:
    """The threads of a job."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._running: set[_Task] = set()
        self._idle = 0  # threads that wait for a task, or have just been started
        self._stopped = False

    def start(self) -> None:
        """Starts the first thread, so that a caller gets the error if there can be no threads."""
        with self._changed:
            if not self._idle and not self._running:
                self._start_thread()

    def submit(self, task: Callable[[], None]) -> None:
        with self._changed:
            self._tasks.append(task)
            self._provide()
            self._changed.notify_all()  # stop() may wait too

    def stop(self) -> None:
        """Waits until all tasks have ended, but not for callbacks that take long."""
        own = _local.task
        with self._changed:
            self._changed.wait_for(lambda: not self._tasks and not self._running - {own}, _STOP_S)
            self._stopped = True
            self._changed.notify_all()

    def end(self) -> None:
        """At the end of the process: no task begins any more, and those that compute end. Only a
        task that sleeps may never end."""
        own = _local.task
        with self._changed:
            self._tasks.clear()
            while not all(task.is_asleep() for task in self._running - {own}):
                self._changed.wait(_ASLEEP_S)
            self._tasks.clear()
            self._stopped = True
            self._changed.notify_all()

    def _start_thread(self) -> None:
        _open.add(self)
        threading.Thread(target=self._body, name="dfccl callbacks", daemon=True).start()
        self._idle += 1

    def _provide(self) -> None:
        """Starts a thread if tasks wait and no thread is idle. The caller holds the lock."""
        if self._tasks and not self._idle:
            # Without a further thread, the task begins when one of those in progress has ended
            with contextlib.suppress(RuntimeError):
                self._start_thread()

    def _waits(self, task: _Task) -> None:
        with self._changed:
            task.waits = True
            self._provide()
            self._changed.notify_all()

    def _may_begin(self) -> bool:
        """Whether all tasks in progress wait. The caller holds the lock."""
        active = [task for task in self._running if not task.waits]
        for task in active:
            task.look()
        return all(task.waits for task in active)

    def _next(self) -> Callable[[], None] | None:
        """Takes a task, or None if this thread is to end. The caller holds the lock."""
        while True:
            if self._tasks:
                if self._may_begin():
                    return self._tasks.popleft()
                self._changed.wait(_ASLEEP_S)
            elif self._stopped or (
                not self._changed.wait(_IDLE_S) and not self._tasks and self._idle > 1
            ):
                return None

    def _body(self) -> None:
        _local.callbacks = self
        while True:
            with self._changed:
                task = self._next()
                self._idle -= 1
                if task is None:
                    return
                own = _local.task = _Task()
                self._running.add(own)
                self._provide()
            try:
                task()
            except Exception:  # torch keeps the errors of callbacks, so this is another one
                thread = threading.current_thread()
                threading.excepthook(threading.ExceptHookArgs([*sys.exc_info(), thread]))
            task = _local.task = None  # the objects that it holds end here
            with self._changed:
                self._running.discard(own)
                self._idle += 1
                self._changed.notify_all()


_open: weakref.WeakSet[Callbacks] = weakref.WeakSet()


def _forked() -> None:
    """In a forked child there are no threads, and any lock may be held by one of the parent."""
    for callbacks in list(_open):
        callbacks._changed = threading.Condition()
        callbacks._tasks.clear()
        callbacks._running.clear()
        callbacks._idle, callbacks._stopped = 0, True
    _open.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _stop_all() -> None:
    """Waits for tasks in progress, since a thread that sets the result of a future when the
    interpreter ends would crash the process."""
    for callbacks in list(_open):
        callbacks.end()
