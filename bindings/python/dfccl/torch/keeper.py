"""The keeper: a thread on each rank of a job that answers other ranks' questions, whatever the
program does meanwhile.

A question is an entry of torch's store that all ranks see, in the same order. Who asks pays for it;
a job in which nobody asks pays for one look at the store, twice a second. Tasks are what an answer
takes in several steps.
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

_LOOK_S = 0.5  # how often a rank looks for a question
_TASK_S = (0.001, 0.02)  # and for what a task waits for: at first, and after a long time
_JOIN_S = 2.0

Question = dict[str, Any]


class Keeper:
    """Of a job on one rank."""

    def __init__(self, store: Any, key: str, rank: int):
        # A client of its own: one that waits for a key in another thread would keep this one from
        # looking.
        clone = getattr(store, "clone", None)
        self.store = clone() if clone is not None else store
        self.rank = rank
        self._key = key
        self._answers: dict[str, Callable[[int, Question], Any]] = {}
        self._tasks: list[Callable[[], bool]] = []
        self._seen = self._own = (
            0  # the numbers of the last question that was seen, and of the last one of this rank
        )
        self._condition = threading.Condition()
        self._stopped = self._wanted = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._body, name="dfccl keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()
        _open.add(self)

    def answer(self, kind: str, function: Callable[[int, Question], Any]) -> None:
        """function(number, question) for each question of a kind, in the keeper's thread. Before
        start()."""
        self._answers[kind] = function

    def ask(self, kind: str, **what: Any) -> int:
        """Puts a question to all ranks, this one too: its number."""
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

    def watch(self, task: Callable[[], bool]) -> None:
        """task() again and again in the keeper's thread, until it returns True."""
        self._tasks.append(task)
        self.hurry()

    def name(self, text: str) -> str:
        """A key of the store for what this job's ranks tell each other."""
        return f"{self._key} {text}"

    def has_left(self, rank: int) -> bool:
        return bool(self.store.check([self.name(f"left {rank}")]))

    def _body(self) -> None:
        pause = _TASK_S[0]
        while True:
            with self._condition:
                if not self._stopped and not self._wanted:
                    # Another rank may have taken a number before this rank's question, and not put
                    # its own yet.
                    self._condition.wait(
                        pause if self._tasks or self._seen < self._own else _LOOK_S
                    )
                if self._stopped:
                    return
                pause = _TASK_S[0] if self._wanted else min(1.2 * pause, _TASK_S[1])
                self._wanted = False
            try:
                for number, question in self._new_questions():
                    with contextlib.suppress(
                        errors.Error
                    ):  # of a context that is broken or closed: calls say so
                        self._answers[question["kind"]](number, question)
                for task in list(self._tasks):
                    try:
                        over = task()
                    except errors.Error:
                        over = True
                    if over:
                        self._tasks.remove(task)
            except RuntimeError:  # the store is gone: nobody asks any more
                return

    def _new_questions(self) -> list[tuple[int, Question]]:
        """In their order. Of those that are answered by what this rank does now the last is
        enough."""
        found: list[tuple[int, Question]] = []
        while self.store.check([f"{self._key} question {self._seen + 1}"]):
            self._seen += 1
            question = json.loads(bytes(self.store.get(f"{self._key} question {self._seen}")))
            if question["kind"] == "flight":
                found = [each for each in found if each[1]["kind"] != "flight"]
            found.append((self._seen, question))
        return found

    def stop(self) -> None:
        if os.getpid() != self._process:  # a forked child has no such thread
            return
        _open.discard(self)
        with self._condition:
            self._stopped = True
            self._condition.notify()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
        try:
            self.store.set(self.name(f"left {self.rank}"), "1")
        except RuntimeError:  # the rank with the store has ended before
            pass


_open: weakref.WeakSet[Keeper] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """A thread that is inside torch's store when the interpreter ends would bring the process
    down."""
    for keeper in list(_open):
        keeper.stop()
