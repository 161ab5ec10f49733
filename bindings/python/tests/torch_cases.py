"""Runs many short cases in one job, since each process of a job imports torch, which takes seconds.
Functions that such cases share."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import dfccl.torch
import torch
import torch.distributed as dist
from support import meeting_place, on_processes


def _cases(rank: int, size: int, place: str, cases: Sequence[Callable[..., Any]]) -> None:
    """Calls case(rank, group) for each case, and names all that fail."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "dfccl",
        rank=rank,
        world_size=size,
        init_method=f"file://{place}",
        timeout=datetime.timedelta(seconds=20),
    )
    failed = []
    for case in cases:
        try:
            case(rank, dist.group.WORLD)
        except Exception:
            failed.append(f"{case.__name__}: {traceback.format_exc()}")
        dist.barrier()  # a failed case does not meet the next one
    dist.destroy_process_group()
    assert not failed, "\n".join(failed)


def on_ranks(cases: Sequence[Callable[..., Any]], size: int = 2) -> list[int]:
    """The exit statuses of the processes of a job that runs the cases."""
    return on_processes(_cases, size, meeting_place(), cases)


def refused(
    call: Callable[[], Any], *words: str, error: type[Exception] = dfccl.InvalidArgument
) -> None:
    """Checks that a call raises an error whose text has the words."""
    try:
        call()
    except error as failure:
        assert all(word in str(failure) for word in words), failure
    else:
        raise AssertionError(f"not refused; expected: {words}")


def reduced(count: int, group=None) -> tuple[torch.Tensor, torch.futures.Future]:
    """An all-reduce of ones, and its future."""
    tensor = torch.ones(count)
    return tensor, dist.all_reduce(tensor, group=group, async_op=True).get_future()


def open_future(count: int) -> tuple[torch.futures.Future, Callable[[], None]]:
    """The future of an all-reduce that has not ended before the function is called, so that threads
    of the package call the callbacks that are added until then."""
    group, own, box = dist.group.WORLD, dist.get_rank(), torch.zeros(1)
    group.start_coalescing(torch.device("cpu"))
    dist.irecv(box, own, tag=1000 + count)
    dist.all_reduce(torch.ones(count), async_op=True)
    future = group.end_coalescing(torch.device("cpu")).get_future()
    return future, lambda: dist.isend(torch.ones(1), own, tag=1000 + count).wait()


def called_back(callback: Callable[[torch.futures.Future], Any]) -> torch.futures.Future:
    """The future of a callback that a thread of the package calls."""
    future, end = open_future(4)
    chained = future.then(callback)
    end()
    return chained
