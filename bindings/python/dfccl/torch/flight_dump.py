"""Dumps of the flight recorder in the format of torch's own recorder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..library import version
from .stacks import Frame, frames_of

if TYPE_CHECKING:
    from .flight import Call, GroupFacts

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


def in_format_of_torch(
    rank: int, ring: Sequence[Call], groups: Sequence[GroupFacts]
) -> dict[str, Any]:
    """The calls of a rank in the format of torch's recorder (version 2.10), with two more entries:
    `rank`, and `name` of each call."""
    calls = [
        call
        for call in ring
        if call.operation in _torch_names
        and (call.peers is None or 0 <= call.peers[0] != call.peers[1])
    ]  # torch's dumps can have no receive from any rank, and no message of a rank to itself
    entries = [_entry(call, frames) for call, frames in zip(calls, frames_of(calls))]
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
        "rank": rank,
        "pg_config": {
            facts.name: {"name": facts.name, "desc": facts.description, "ranks": str(facts.ranks)}
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


def _entry(call: Call, frames: list[Frame]) -> dict[str, Any]:
    operation = _torch_names[call.operation]
    if call.peers is not None:
        source, target = call.peers
        operation += f" {source}->{target}" if operation == "send" else f" {target}<-{source}"
    inputs, outputs = _sizes(call)
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
