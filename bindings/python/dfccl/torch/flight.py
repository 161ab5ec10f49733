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
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

try:
    from torch._C._profiler import gather_traceback, symbolize_tracebacks
except ImportError:  # this version of torch records no stacks
    gather_traceback = None

from .. import errors
from ..library import IN_PROGRESS, version
from .keeper import Keeper, Question

if TYPE_CHECKING:
    from .works import Part

_LOOK_S = 0.05  # interval at which a rank polls for answers to its question
_PATIENCE_S = 2.0  # how long a question waits for answers
_FRESH_S = 5.0  # answers of this age also serve the next late call
_TOLD_CALLS, _TOLD_RANKS, _TOLD_FRAMES = 20, 8, 5

# c10d's names of the operations that torch's analyser supports. Dumps omit the others, such as
# monitored_barrier.
_torch_names = {
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "allreduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_gather": "all_gather",
    "all_gather_single": "_all_gather_base",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_single": "_reduce_scatter_base",
    "gather": "gather",
    "scatter": "scatter",
    "all_to_all": "all_to_all",
    "all_to_all_single": "all_to_all",
    "barrier": "barrier",
    "send": "send",
    "recv": "recv",
}
_torch_types = {
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.float16: "Half",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.bool: "Bool",
    torch.bfloat16: "BFloat16",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}

FAILED = -1  # in place of the end time of a call that has failed

Frame = dict[str, Any]


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


def _setting(name: str, standard: int, most: int) -> int:
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
        _setting("DFCCL_TORCH_FLIGHT", 2000, 10**6),
        _setting("DFCCL_TORCH_STACKS", 1, 1) == 1,
        os.environ.get("DFCCL_TORCH_DUMP", ""),
    )


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


def _frames_of(calls: Sequence[Call]) -> list[list[Frame]]:
    """The stack of each call, the innermost frame first."""
    with_stack = [call for call in calls if call.stack is not None]
    stacks = iter(_symbolized([call.stack for call in with_stack]) if with_stack else [])
    return [[] if call.stack is None else list(next(stacks)) for call in calls]


_own = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
)


def _place(frames: Sequence[Frame]) -> str:
    """The frames of the program, as a part of a sentence."""
    program = [frame for frame in frames if not frame["filename"].startswith(_own)] or list(frames)
    shown = [
        f"{frame['filename']}:{frame['line']} in {frame['name']}"
        for frame in program[:_TOLD_FRAMES]
    ]
    return " < ".join(shown) + (" < ..." if len(program) > _TOLD_FRAMES else "")


def _threads() -> list[dict[str, Any]]:
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
        told.append({"thread": name, "at": _place(frames)})
    return sorted(told, key=lambda each: each["thread"] != "MainThread")


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
        places = [_place(frames) for frames in _frames_of(told)]
        texts = [{"call": call.text(), "at": place} for call, place in zip(told, places)]
        return {
            "asked": asked,
            "runs": runs,
            "waiting": texts[: len(waiting)],
            "last": texts[len(waiting) :],
            "threads": _threads(),
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
        (frames,) = _frames_of([call])
        lines = [call.text() + (f"; called at {_place(frames)}" if frames else "")]
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
        """The ring in the format of torch's recorder (version 2.10), with two more entries: `rank`,
        and `name` of each call."""
        calls = [
            call
            for call in list(self._ring)
            if call.operation in _torch_names and (call.peers is None or call.peers[0] >= 0)
        ]  # torch's dumps cannot have a receive from any rank
        entries = [self._entry(call, frames) for call, frames in zip(calls, _frames_of(calls))]
        groups = self._groups.values()
        done = {
            facts.number: [
                call.sequence
                for call in calls
                if call.facts is facts and call.peers is None and call.state() == "completed"
            ]
            for facts in groups
        }
        return {
            "version": "2.10",
            "comm_lib_version": version(),
            "rank": self._rank,
            "pg_config": {
                facts.name: {
                    "name": facts.name,
                    "desc": facts.description,
                    "ranks": str(facts.ranks),
                }
                for facts in groups
            },
            "pg_status": {
                str(facts.number): {
                    "last_enqueued_collective": facts.collectives,
                    "last_started_collective": facts.collectives,
                    "last_completed_collective": max(done[facts.number], default=-1),
                }
                for facts in groups
            },
            "entries": entries,
        }

    def _entry(self, call: Call, frames: list[Frame]) -> dict[str, Any]:
        operation = _torch_names[call.operation]
        if call.peers is not None:
            source, target = call.peers
            operation += f" {source}->{target}" if operation == "send" else f" {target}<-{source}"
        inputs, outputs = self._sizes(call)
        types = [] if call.dtype is None else [_torch_types.get(call.dtype, str(call.dtype))]
        state = call.state()
        entry = {
            "record_id": call.number,
            "pg_id": call.facts.number,
            "is_p2p": call.peers is not None,
            "process_group": (call.facts.name, call.facts.description),
            "collective_seq_id": call.sequence if call.peers is None else call.facts.collectives,
            "p2p_seq_id": 0 if call.peers is None else call.sequence,
            "op_id": call.sequence,
            "profiling_name": f"dfccl:{operation}",
            "name": call.name,
            "time_created_ns": call.created,
            "input_sizes": inputs,
            "input_dtypes": types * len(inputs),
            "output_sizes": outputs,
            "output_dtypes": types * len(outputs),
            "state": "completed" if state == "completed" else "started",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": call.ended if state == "completed" else None,
            "retired": state != "started",
            "timeout_ms": int(1000 * call.facts.timeout),
            "thread_id": str(call.thread),
            "thread_name": "",
            "frames": frames,
        }
        return entry

    @staticmethod
    def _sizes(call: Call) -> tuple[list[list[int]], list[list[int]]]:
        """Sizes of inputs and outputs. Only outputs are recorded, since the inputs follow from
        them."""
        outputs, size = [list(shape) for shape in call.shapes], len(call.facts.ranks)
        if call.operation in ("all_gather", "scatter"):
            return outputs[:1] if call.operation == "all_gather" else [], outputs
        if call.operation == "reduce_scatter":
            return outputs[:1] * size, outputs
        if call.operation in ("all_gather_single", "reduce_scatter_single"):

            def scaled(shape: list[int]) -> list[int]:
                first = shape[0] if shape else 1
                return [
                    first // size if call.operation == "all_gather_single" else first * size,
                    *shape[1:],
                ]

            return [scaled(shape) for shape in outputs], outputs
        if call.operation == "send":
            return outputs, []
        return [] if call.operation == "recv" else outputs, outputs

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
