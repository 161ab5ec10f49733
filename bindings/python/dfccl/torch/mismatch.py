"""Blocking calls that can never meet, because ranks make the same call with another shape, type,
operator or root.

Such a call has another signature on each side, so the library takes it for calls in another order,
and waits. A rank whose wait has lasted for DFCCL_TORCH_MISMATCH_S writes to torch's store what it
waits for. The first such rank of a group is the reference. A later one that waits for another call
compares itself with the reference, and asks the reference's rank. If each of the two ranks lacks
the other's call, and waits in its main thread without a time limit of the call, and no other thread
of theirs has made calls, neither can go on. Both waits end if it is the same call of the program:
its line, operation and number in the group are equal. Otherwise both ranks log a warning, since a
thread that has not called yet could still make the missing calls.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from .. import errors
from .check import frames
from .keeper import Question

if TYPE_CHECKING:
    from .job import Job
    from .works import Work

_log = logging.getLogger("dfccl.torch")
_MARK = "ranks differ in the same call"

Report = dict[str, Any]


def _text(work: Work) -> str:
    """The operation of a work, with all that its signature has."""
    shapes = [list(tensor.shape) for tensor in work._outputs]
    shown = ", ".join(map(str, shapes[:4])) + (" and more" if len(shapes) > 4 else "")
    given, _, dtype, _, _, op, root, *_ = work._parts[0][0].key
    return (
        work._operation
        + (f" of {str(dtype).removeprefix('torch.')} {shown}" if shapes else "")
        + (f", {op.name.lower()}" if op is not None else "")
        + (f", root {root}" if root is not None else "")
        + (f", named {given!r}" if given is not None else "")
    )


def _place() -> list[str]:
    """The lines of the program that wait, innermost first. Hosts may have other folders."""
    return [f"{os.path.basename(each.f_code.co_filename)}:{each.f_lineno}" for each in frames()]


class _Wait:
    """A wait without progress."""

    def __init__(self, work: Work, report: Report):
        self.work, self.report, self.text = work, report, json.dumps(report)
        self.next = 0.0  # when the store is looked at next
        self.compared: set[str] = set()  # the references that this wait was compared with
        self.warned = False

    def is_for(self, report: Report) -> bool:
        return any(part in report["parts"] for part in self.report["parts"])


class Mismatches:
    """The comparison of waits of a job on one rank."""

    def __init__(self, job: Job, after: float):
        self.after = after  # seconds; 0: never
        self.threads: set[int] = set()  # threads of the program that have made calls
        self._job, self._keeper = weakref.proxy(job), job.keeper
        self._lock = threading.Lock()
        self._waits: list[_Wait] = []
        # Key: group; value: the report of this rank that the store has as the reference
        self._references: dict[str, str] = {}
        self._sentences: dict[str, str] = {}  # key: group; value: the text of its mismatch
        # Ranks may have other settings: each answers, whether it asks or not.
        self._keeper.answer("differs", self._asked)
        self._keeper.answer("mismatch", self._told)
        if after > 0:
            self._keeper.looks.append(self._look)

    # ---- in threads of the program

    def _is_alone(self) -> bool:
        """Whether this is the program's main thread, and no other thread has made calls. Any other
        thread may have fellows that have not called yet, and make the missing calls later."""
        own = threading.current_thread()
        return own is threading.main_thread() and self.threads == {own.ident}

    def begin(self, work: Work, is_bounded: bool) -> _Wait:
        """From here to end(), the wait of this thread is compared with those of other ranks.
        is_bounded: it has a time limit of its own, after which the program may make the missing
        call."""
        call = work._call
        report = {
            "rank": self._keeper.rank,
            "group": work._group._name,
            "operation": work._operation,
            "number": call.sequence if call is not None else work._sequence,
            "is_message": call is not None and call.peers is not None,
            "text": _text(work),
            "place": _place(),
            "parts": [
                # No list of members: the whole group
                [each.id, number, each.members if each.key[-2] is not None else None]
                for each, number in work._parts
            ],
            "alone": self._is_alone() and not is_bounded,
        }
        wait = _Wait(work, report)
        with self._lock:
            self._waits.append(wait)
        self._keeper.hurry()
        return wait

    def end(self, wait: _Wait) -> None:
        with self._lock:
            self._waits.remove(wait)

    def error_of(self, work: Work, error: BaseException) -> BaseException:
        """The error of a work, which is a Mismatch if a rank has found one."""
        _, found, rest = str(error).partition(_MARK)
        if not found:
            return error
        return errors.Mismatch(self._sentences.get(work._group._name, found + rest))

    # ---- in the coordinator thread

    def _key(self, group: str) -> str:
        return self._keeper.name(f"waits {group}")

    def _lacks(self, report: Report) -> bool:
        """Whether this rank has not submitted a run that another rank waits for."""
        known, own = self._job.context._collectives, self._keeper.rank
        for id, number, members in report["parts"]:
            found = known.get(id)  # a thread of the program may deregister it at any moment
            if (members is None or own in members) and (found is None or found.runs <= number):
                return True
        return False

    def _look(self) -> None:
        with self._lock:
            waits = list(self._waits)
        texts = {wait.text for wait in waits}
        for group, text in list(self._references.items()):
            if text not in texts:
                self._keeper.store.compare_set(self._key(group), text, "")
                del self._references[group]
        now = time.monotonic()
        for wait in waits:
            if now >= wait.next:
                wait.next = now + self.after
                with contextlib.suppress(NotImplementedError):  # a store without this operation
                    self._compare(wait)

    def _compare(self, wait: _Wait) -> None:
        group = wait.report["group"]
        found = self._keeper.store.compare_set(self._key(group), "", wait.text)
        text = found.decode() if isinstance(found, bytes) else found
        if text == wait.text:
            self._references[group] = text
            return
        reference = json.loads(text)
        if reference["rank"] == self._keeper.rank or text in wait.compared:
            return
        wait.compared.add(text)  # once: a call that is not lacking now will not be later
        if self._lacks(reference):
            report = {**wait.report, "alone": wait.report["alone"] and len(self.threads) == 1}
            self._keeper.ask("differs", reference=reference, report=report)

    def _asked(self, _: int, question: Question) -> None:
        """The rank of the reference looks whether it still waits, and lacks the other's call."""
        reference, report = question["reference"], question["report"]
        with self._lock:
            waits = any(wait.report == reference for wait in self._waits)
        if waits and self._lacks(report):
            same = ("operation", "number", "place")
            certain = (
                all(reference[each] == report[each] for each in same)
                and not (reference["is_message"] or report["is_message"])
                and reference["alone"]
                and report["alone"]
                and len(self.threads) == 1
            )
            sides = sorted([reference, report], key=lambda side: side["rank"])
            self._keeper.ask("mismatch", certain=certain, sides=sides)

    def _told(self, _: int, question: Question) -> None:
        one, other = question["sides"]
        with self._lock:
            waits = [wait for wait in self._waits if wait.is_for(one) or wait.is_for(other)]
        if question["certain"]:
            place = f"; at {one['place'][0]}" if one["place"] else ""
            sentence = (
                f"{_MARK}, call {one['number']} of group {one['group']!r}: rank {one['rank']} "
                f"calls {one['text']}; rank {other['rank']} calls {other['text']}{place}"
            )
            self._sentences[one["group"]] = sentence
            for wait in waits:
                collectives = [collective for collective, _ in wait.work._parts]
                wait.work._group._abort_collectives(collectives, sentence)
            return
        sides = "; ".join(
            f"rank {side['rank']} waits for call {side['number']}, {side['text']}"
            + (f", at {side['place'][0]}" if side["place"] else "")
            for side in (one, other)
        )
        for wait in waits:
            if not wait.warned and self._keeper.rank in (one["rank"], other["rank"]):
                wait.warned = True
                _log.warning(
                    "two ranks of group %r wait for each other in different calls: %s. Unless "
                    "another thread makes these calls, they end at the group's timeout",
                    one["group"],
                    sides,
                )
