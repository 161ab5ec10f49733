"""The flight recorder: the last calls of this process, and the state of other ranks when a call is
late.

Each call is recorded in a ring. A rank whose call reaches its time limit sends a question to the
others through torch's store. The coordinator thread of each rank (keeper.py) answers with the last
calls of its rank and the stacks of its threads. So the error names the ranks that have not made the
call, and the place in the program where each of them is. dump() writes the ring in the format of
torch's own recorder.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import errors
from ..library import IN_PROGRESS
from .flight_dump import in_format_of_torch
from .keeper import Keeper, Question
from .stacks import frames_of, gather_traceback, place, threads

if TYPE_CHECKING:
    from .works import Part

_LOOK_S = 0.05  # interval at which a rank polls for answers to its question
_PATIENCE_S = 2.0  # how long a question waits for answers
_FRESH_S = 5.0  # answers of this age also serve the next late call
_TOLD_CALLS, _TOLD_RANKS = 20, 8

FAILED = -1  # in place of the end time of a call that has failed


class GroupFacts:
    """The facts about a group that records refer to. A record must not keep its group alive."""

    def __init__(self, number: int, name: str, ranks: Sequence[int], timeout: float):
        self.number, self.name, self.ranks, self.timeout = number, name, list(ranks), timeout
        self.description = "undefined"
        self.collectives = self.points = 0  # numbers of calls so far


class Call:
    """One call of this rank."""

    __slots__ = (
        "number",
        "facts",
        "sequence",
        "operation",
        "peers",
        "name",
        "parts",
        "shapes",
        "dtype",
        "created",
        "stack",
        "thread",
        "ended",
    )
    number: int
    facts: Any
    sequence: int
    operation: str
    peers: Any
    name: Any
    parts: Any
    shapes: Any
    dtype: Any
    created: Any
    stack: Any
    thread: Any
    ended: Any

    def state(self) -> str:
        if self.ended is None:
            try:
                codes = [collective._look(number) for collective, number in self.parts]
            except errors.Error:  # the call has failed, or its group no longer exists
                codes = [errors.Error.code]
            if IN_PROGRESS not in codes:
                self.ended = FAILED if any(codes) else time.time_ns()
        return (
            "started" if self.ended is None else "failed" if self.ended == FAILED else "completed"
        )

    def text(self) -> str:
        what = self.operation
        if self.peers is not None:
            source, target = (
                "any rank" if peer < 0 else f"rank {self.facts.ranks[peer]}" for peer in self.peers
            )
            what += f" from {source} to {target}"
        if self.dtype is not None:
            what += (
                f" of {str(self.dtype).removeprefix('torch.')} "
                f"{', '.join(str(list(shape)) for shape in self.shapes[:4])}"
            )
            if len(self.shapes) > 4:
                what += f" and {len(self.shapes) - 4} more"
        named = "" if self.name is None else f", named {self.name!r}"
        return f"call {self.sequence} of group {self.facts.name!r}: {what}{named}"


def setting(name: str, standard: int, most: int) -> int:
    value = os.environ.get(name, "")
    if value == "":
        return standard
    if not value.isascii() or not value.isdigit() or int(value) > most:
        raise errors.InvalidUsage(
            f"environment variable {name} is {value!r}; it must be a whole number from 0 to {most}"
        )
    return int(value)


def flight_settings() -> tuple[int, bool, str]:
    """The number of recorded calls, whether they have stacks, and the folder of dumps."""
    return (
        setting("DFCCL_TORCH_FLIGHT", 2000, 10**6),
        setting("DFCCL_TORCH_STACKS", 1, 1) == 1,
        os.environ.get("DFCCL_TORCH_DUMP", ""),
    )


class Flight:
    """The recorder of a job on one rank."""

    def __init__(self, keeper: Keeper, calls: int, stacks: bool, folder: str):
        self._keeper, self._rank, self._folder = keeper, keeper.rank, folder
        self._ring: deque[Call] = deque(maxlen=calls)
        self._remembers = calls > 0
        self._gather = gather_traceback if stacks else None
        self._numbers = itertools.count()
        self._groups: dict[str, GroupFacts] = {}
        self._group_numbers = itertools.count()
        self._answers: dict[int, dict[str, Any]] = {}
        self._asked_ranks: set[int] = set()
        self._asked_at = float("-inf")
        self._ask_lock = threading.Lock()
        keeper.answer("flight", self._told)

    # ---- recording

    def group(self, name: str, ranks: Sequence[int], timeout: float) -> GroupFacts:
        facts = self._groups[name] = GroupFacts(next(self._group_numbers), name, ranks, timeout)
        return facts

    def record(
        self,
        facts: GroupFacts,
        operation: str,
        peers: tuple[int, int] | None,
        parts: list[Part],
        outputs: Sequence[torch.Tensor],
        name: str | None,
    ) -> Call | None:
        if not self._remembers:
            return None
        call = Call()
        if peers is None:
            facts.collectives = call.sequence = facts.collectives + 1
        else:
            facts.points = call.sequence = facts.points + 1
        call.number, call.facts, call.operation, call.peers = (
            next(self._numbers),
            facts,
            operation,
            peers,
        )
        call.name, call.parts = name, parts
        if len(outputs) == 1:  # the usual case
            output = outputs[0]
            call.shapes, call.dtype = (output.shape,), output.dtype
        else:
            call.shapes, call.dtype = (
                [tensor.shape for tensor in outputs],
                outputs[0].dtype if outputs else None,
            )
        call.created, call.thread, call.ended = time.time_ns(), threading.get_ident(), None
        call.stack = self._gather(True, False, False) if self._gather is not None else None
        self._ring.append(call)
        return call

    # ---- questions and answers

    def _told(self, asked: int, _: Question) -> None:
        if not self._remembers:
            return
        self._keeper.store.set(
            self._keeper.name(f"flight {self._rank}"), json.dumps(self._answer(asked))
        )
        self._dump_if_wanted()

    def _answer(self, asked: int) -> dict[str, Any]:
        calls = list(self._ring)
        runs: dict[str, int] = {}
        for call in calls:
            for collective, number in call.parts:
                runs[f"{collective.id}"] = number + 1
        waiting = [call for call in calls if call.state() == "started"][:_TOLD_CALLS]
        told = waiting + calls[-1:]
        places = [place(frames) for frames in frames_of(told)]
        texts = [{"call": call.text(), "at": at} for call, at in zip(told, places)]
        return {
            "asked": asked,
            "runs": runs,
            "waiting": texts[: len(waiting)],
            "last": texts[len(waiting) :],
            "threads": threads(),
        }

    def _ask(self, ranks: Sequence[int], patience: float) -> dict[int, dict[str, Any]]:
        """The answers that other ranks give within so many seconds."""
        with self._ask_lock:
            if time.monotonic() - self._asked_at < _FRESH_S and self._asked_ranks.issuperset(ranks):
                return self._answers
            number, store = self._keeper.ask("flight"), self._keeper.store
            answers: dict[int, dict[str, Any]] = {}
            end = time.monotonic() + patience
            while len(answers) < len(ranks) and time.monotonic() < end:
                time.sleep(_LOOK_S)
                for rank in ranks:
                    key = self._keeper.name(f"flight {rank}")
                    if rank not in answers and store.check([key]):
                        answer = json.loads(bytes(store.get(key)))
                        if answer["asked"] >= number:
                            answers[rank] = answer
            self._answers, self._asked_ranks, self._asked_at = answers, set(ranks), time.monotonic()
            return answers

    def late(self, call: Call, seconds: float) -> str:
        """The text of the error of a call that has reached its time limit: the call, and the ranks
        that have not made it."""
        (frames,) = frames_of([call])
        lines = [call.text() + (f"; called at {place(frames)}" if frames else "")]
        members = {rank for collective, _ in call.parts for rank in collective.members} or set(
            call.facts.ranks
        )
        others = sorted(members - {self._rank})
        try:
            answers = self._ask(others, min(_PATIENCE_S, seconds))
        except (
            RuntimeError,
            ValueError,
            KeyError,
        ) as failure:  # the store is gone, or has another value under the key
            lines.append(
                f"torch's store is out of reach ({failure}), so other ranks cannot be asked"
            )
            answers, others = {}, []
        missing = [
            rank for rank in others if rank not in answers or self._lacks(rank, answers[rank], call)
        ]
        for rank in missing[:_TOLD_RANKS]:
            lines.append(
                f"rank {rank} "
                + (
                    self._tell(answers[rank])
                    if rank in answers
                    else "has not answered: it has ended, or has had too little time, or a call "
                    "holds its interpreter"
                )
            )
        if len(missing) > _TOLD_RANKS:
            lines.append(f"and {len(missing) - _TOLD_RANKS} ranks more")
        self._dump_if_wanted()
        return "\n  ".join(lines)

    @staticmethod
    def _lacks(rank: int, answer: dict[str, Any], call: Call) -> bool:
        return not call.parts or any(
            rank in collective.members and answer["runs"].get(f"{collective.id}", 0) <= number
            for collective, number in call.parts
        )

    def _tell(self, answer: dict[str, Any]) -> str:
        def placed(told: dict[str, str]) -> str:
            return told["call"] + (f"; called at {told['at']}" if told["at"] else "")

        lines = ["has not come"]
        lines += ["  it waits for " + placed(told) for told in answer["waiting"][:3]]
        if not answer["waiting"]:
            lines += ["  its last call was " + placed(told) for told in answer["last"]] or [
                "  it has made no call"
            ]
        lines += [
            f"  its thread {each['thread']} is at {each['at']}" for each in answer["threads"][:4]
        ]
        return "\n  ".join(lines)

    # ---- dumps

    def flight(self) -> dict[str, Any]:
        """The ring in the format of torch's recorder."""
        return in_format_of_torch(self._rank, list(self._ring), list(self._groups.values()))

    def dump(self, folder: str) -> None:
        """Writes FOLDER/rank_R, which torchfrtrace reads, and FOLDER/R.json."""
        os.makedirs(folder, exist_ok=True)
        told = self.flight()
        for name, content in (
            (f"rank_{self._rank}", pickle.dumps(told, 2)),
            (f"{self._rank}.json", json.dumps(told).encode()),
        ):
            unfinished = os.path.join(folder, f".{name}.{os.getpid()}.{threading.get_ident()}")
            with open(unfinished, "wb") as file:
                file.write(content)
            os.replace(unfinished, os.path.join(folder, name))

    def _dump_if_wanted(self) -> None:
        if self._folder:
            try:
                self.dump(self._folder)
            except OSError as failure:
                print(f"dfccl: the flight recorder cannot be written: {failure}", file=sys.stderr)
