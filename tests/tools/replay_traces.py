#!/usr/bin/env python3
"""Writes traces of every format that dfccl-bench replay reads, and files that it must refuse.

replay_traces.py DIRECTORY
"""

import json
import pathlib
import sys
from typing import Any

RANKS = 2


def write(path: pathlib.Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def lines(path: pathlib.Path, *objects: dict) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")


def param(rank: int) -> list[dict]:
    calls: list[dict] = [{"comms": "init", "pg_id": 0, "global_ranks": [0, 1]}]
    for number in range(6):
        calls.append(
            {"comms": "all_reduce", "in_msg_size": 1000 + number % 2, "dtype": "float", "pg_id": 0}
        )
        if number == 2:
            calls.append({"comms": "wait", "req": 0})
    calls.append(
        {"comms": "all_gather", "in_msg_size": 500, "out_msg_size": 1000, "dtype": "bfloat16"}
    )
    calls.append({"comms": "broadcast", "in_msg_size": 700, "dtype": "float", "root": 1})
    calls.append({"compute": "gemm"})
    word = "send" if rank == 0 else "recv"
    calls.append({"comms": word, "src_rank": 0, "dst_rank": 1, "in_msg_size": 64, "dtype": "float"})
    return calls


def execution(rank: int) -> dict:
    def node(number: int, operation: str, elements: int) -> dict:
        return {
            "id": number,
            "name": "record_param_comms",
            "inputs": {
                "values": [[[1]], 1, ["0", "default_pg"], rank, operation, [], []],
                "shapes": [[[elements]]],
                "types": ["GenericList[Tensor(float)]"],
            },
        }

    groups = '[{"pg_name": "0", "ranks": [0, 1]}]'
    nodes: list[dict] = [
        {"id": 1, "name": "## process_group:init ##", "inputs": {"values": [groups]}}
    ]
    operations = ["allreduce", "_allgather_base", "allreduce", "_reduce_scatter_base", "alltoall"]
    nodes += [node(2 + i, operation, 4096) for i, operation in enumerate(operations)]
    return {"schema": "1.1.1", "nodes": nodes}


def flight(rank: int, calls: int) -> dict:
    entries = []
    for number in range(calls):
        entries.append(
            {
                "record_id": number,
                "process_group": ["0", "default_pg"],
                "collective_seq_id": number + 1,
                "p2p_seq_id": 0,
                "is_p2p": False,
                "profiling_name": "nccl:" + ["all_reduce", "broadcast", "barrier"][number % 3],
                "input_sizes": [[10 + number, 7]],
                "input_dtypes": ["Float"],
                "output_sizes": [[10 + number, 7]],
                "output_dtypes": ["Float"],
            }
        )
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return {"version": "2.10", "rank": rank, "pg_config": config, "entries": entries}


def program() -> list[dict]:
    """Every operation, groups side by side, and waits for single calls."""
    pairs, rows = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
    calls: list[dict] = [
        {"collective": "allreduce", "bytes": 40960, "name": "a", "after": 100},
        {"collective": "allreduce", "bytes": 81920, "group": "pairs", "name": "b", "after": 50},
        {"collective": "allgather", "bytes": 81920, "group": rows, "name": "c"},
    ]
    calls += [{"collective": "reducescatter", "bytes": 8190, "name": "d"}] * 7
    calls += [
        {"collective": "sendrecv", "bytes": 9000, "group": "pairs"},
        {"collective": "sendrecv", "bytes": 9000, "group": [[1, 0], [3, 2]]},
        {"collective": "alltoall", "bytes": 8192, "type": "bfloat16"},
        {"collective": "broadcast", "bytes": 8192, "root": 2},
        {"collective": "reduce", "bytes": 8192, "root": 1, "type": "half", "op": "max"},
        {"collective": "gather", "bytes": 8192, "root": 1},
        {"collective": "scatter", "bytes": 8192, "root": 1},
        {"collective": "barrier"},
        {"depends": "a", "after": 50},
        {"collective": "allreduce", "bytes": 12, "depends": ["b", "c"], "priority": 3},
        {"depends": "b", "after": 50},
    ]
    return [{"trace": "all", "ranks": 4, "groups": {"pairs": pairs}}, *calls]


def bad(folder: pathlib.Path) -> None:
    one = {"collective": "allreduce", "bytes": 64, "group": [0, 1]}
    lines(folder / "unknown.jsonl", one, {**one, "collective": "allshuffle"})
    lines(folder / "negative.jsonl", one, {**one, "bytes": -4})
    lines(folder / "twice.jsonl", {**one, "group": [0, 0]})
    lines(folder / "overlap.jsonl", {**one, "group": [[0, 1], [1, 2]]})
    lines(folder / "no-group.jsonl", {"trace": "x", "ranks": 2}, {**one, "group": "tp"})
    lines(folder / "no-rank.jsonl", {"trace": "x", "ranks": 2}, {**one, "group": [0, 5]})
    lines(folder / "no-size.jsonl", {"collective": "allreduce", "group": [0, 1]})
    lines(folder / "key.jsonl", {**one, "bites": 3})
    lines(folder / "depends.jsonl", {**one, "depends": "later"})
    lines(folder / "root.jsonl", {**one, "collective": "broadcast", "root": 2})
    lines(folder / "nothing.jsonl", {"trace": "x", "ranks": 2})
    (folder / "cut.jsonl").write_text(json.dumps(one) + "\n" + json.dumps(one)[:20])
    (folder / "empty.jsonl").write_text("")
    write(folder / "param-unknown.json", [{"comms": "all_shuffle", "in_msg_size": 4}])
    write(folder / "param-negative.json", [{"comms": "all_reduce", "in_msg_size": -4}])
    broken = flight(0, 2)
    broken["entries"][1]["input_sizes"] = [[-3]]
    write(folder / "flight-negative.json", broken)
    # Two calls that each program waits for, in opposite orders.
    for rank, names in enumerate(("ab", "ba")):
        calls = []
        for name in names:
            size = 100 if name == "a" else 200
            calls.append({"comms": "all_reduce", "in_msg_size": size, "dtype": "float"})
            calls.append({"comms": "wait", "req": 0})
        write(folder / f"circle_rank{rank}.json", calls)
    for rank in (0, 2):
        lines(folder / f"gap_rank{rank}.jsonl", {**one, "group": [0, 1, 2]})
    # The ranks of one call give different sizes of it.
    for rank in (0, 1):
        event = {"coll": "x#0", "group": "g", "op": "allreduce", "type": "float", "count": 5 + rank}
        write(
            folder / f"differ-{rank}.json", {"groups": {"g": [0, 1]}, "gpus": {str(rank): [event]}}
        )


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for rank in range(RANKS):
        write(folder / f"param_rank{rank}.json", param(rank))
        write(folder / f"execution_rank{rank}.json", execution(rank))
        write(folder / f"flight_rank{rank}.json", flight(rank, 8))
        write(folder / f"short_rank{rank}.json", flight(rank, 8 - 3 * rank))
        # Rank 0 sends two messages, rank 1 receives one.
        word = ("send", "recv")[rank]
        message = {"comms": word, "src_rank": 0, "dst_rank": 1, "in_msg_size": 9, "dtype": "float"}
        together = {"comms": "all_reduce", "in_msg_size": 9, "dtype": "float"}
        write(folder / f"message_rank{rank}.json", [together] + [message] * (2 - rank))
        own = {"collective": "allreduce", "bytes": 640, "group": [0, 1], "name": "own"}
        lines(folder / f"lines_rank{rank}.jsonl", own, {"depends": "own", "after": 10}, own)
    lines(folder / "program.jsonl", *program())
    bad(folder)


if __name__ == "__main__":
    main()
