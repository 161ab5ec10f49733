"""The coordinator thread: a thread on each rank of a job that answers the questions of other ranks,
whatever the program does meanwhile.

A question is an entry of torch's store. All ranks see the questions in the same order. A job in
which no rank asks has the cost of one read of the store, twice a second. A task is the work for an
answer that needs several steps.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .. import errors
from .callbacks import runs_no_callbacks

_LOOK_S = 0.5  # interval at which a rank polls for questions
_TASK_S = (0.001, 0.02)  # interval between two calls of a task: at first, and after a long time
_JOIN_S = 2.0

Question = dict[str, Any]


class _NoStore:
    """The store of a job that has ended."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("the process group has been destroyed")


class Keeper:
    """The coordinator of a job on one rank."""

    def __init__(self, store: Any, key: str, rank: int):
        # The thread has a client of its own, because a client that waits for a key in another
        # thread would block it.
        clone = getattr(store, "clone", None)
        self.store = clone() if clone is not None else store
        self.rank = rank
        self._key = key
        self.losses: list[Callable[[], None]] = []  # called when the store is lost
        self._answers: dict[str, Callable[[int, Question], Any]] = {}
        self._tasks: list[Callable[[], bool]] = []
        self.looks: list[Callable[[], None]] = []  # called whenever the thread looks for questions
        self._seen = self._own = (
            0  # the number of the last question seen, and of the last question of this rank
        )
        self._condition = threading.Condition()
        self._stopped = self._wanted = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._body, name="dfccl keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()
        _open.add(self)

    def answer(self, kind: str, function: Callable[[int, Question], Any]) -> None:
        """Sets the function that answers the questions of a kind: function(number, question), in
        the coordinator thread. Must be called before start()."""
        self._answers[kind] = function

    def ask(self, kind: str, **what: Any) -> int:
        """Sends a question to all ranks, including this one. Returns its number."""
        number = self.store.add(f"{self._key} questions", 1)
        self.store.set(f"{self._key} question {number}", json.dumps({"kind": kind, **what}))
        with self._condition:
            self._own = max(self._own, number)
        self.hurry()
        return number

    def hurry(self) -> None:
        with self._condition:
            self._wanted = True
            self._condition.notify()

    def is_current_thread(self) -> bool:
        return self._thread is threading.current_thread()

    def watch(self, task: Callable[[], bool]) -> None:
        """Calls task() repeatedly in the coordinator thread, until it returns True."""
        self._tasks.append(task)
        self.hurry()

    def name(self, text: str) -> str:
        """A key of the store for messages between the ranks of this job."""
        return f"{self._key} {text}"

    def has_left(self, rank: int) -> bool:
        return bool(self.store.check([self.name(f"left {rank}")]))

    def _body(self) -> None:
        runs_no_callbacks()
        pause = _TASK_S[0]
        while True:
            with self._condition:
                if not self._stopped and not self._wanted:
                    # Another rank may have taken an earlier number than this rank's question, and
                    # not yet written its question.
                    self._condition.wait(
                        pause if self._tasks or self._seen < self._own else _LOOK_S
                    )
                if self._stopped:
                    return
                pause = _TASK_S[0] if self._wanted else min(1.2 * pause, _TASK_S[1])
                self._wanted = False
            try:
                for number, question in self._new_questions():
                    answer = self._answers.get(question["kind"])
                    # An error: the context is broken or closed, and calls raise the reason
                    with contextlib.suppress(errors.Error):
                        if answer is not None:
                            answer(number, question)
                for look in self.looks:
                    look()
                for task in list(self._tasks):
                    try:
                        over = task()
                    except errors.Error:
                        over = True
                    if over:
                        self._tasks.remove(task)
            except RuntimeError:  # the store is gone, so no rank can ask any more
                for loss in self.losses:
                    loss()
                return

    def _new_questions(self) -> list[tuple[int, Question]]:
        """The new questions, in their order. If several are answered by the present state of this
        rank, only the last of them is returned."""
        found: list[tuple[int, Question]] = []
        while self.store.check([f"{self._key} question {self._seen + 1}"]):
            self._seen += 1
            question = json.loads(bytes(self.store.get(f"{self._key} question {self._seen}")))
            if question["kind"] == "flight":
                found = [each for each in found if each[1]["kind"] != "flight"]
            found.append((self._seen, question))
        return found

    def stop(self) -> None:
        if os.getpid() != self._process:  # a forked child does not have the thread
            return
        _open.discard(self)
        with self._condition:
            self._stopped = True
            self._condition.notify()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
        if not self._thread.is_alive():  # otherwise the store's host does not answer
            with contextlib.suppress(RuntimeError):  # the rank that has it may have ended
                self.store.set(self.name(f"left {self.rank}"), "1")
        # No cycle may hold torch's store: it would be freed at any time, also in a forked child,
        # where that ends in a crash.
        self._answers.clear()
        self._tasks.clear()
        self.looks.clear()
        self.losses.clear()
        self.store = _NoStore()


_open: weakref.WeakSet[Keeper] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stops all coordinators, since a thread that executes in torch's store when the interpreter
    ends would crash the process."""
    for keeper in list(_open):
        keeper.stop()
