"""Promise: DFCCL_TORCH_CHECK=1 finds exchanged calls of equal signature, and reports nothing else.
Skipped without torch."""

from __future__ import annotations

import os
import unittest

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl.torch
from support import Case, meeting_place, on_processes
from test_torch import join


def _checked(rank: int, size: int, place: str) -> None:
    os.environ["DFCCL_TORCH_CHECK"] = "1" if rank == 0 else "0"  # the value of rank 0 holds for all
    join(rank, size, place)


def _exchanged(
    rank: int,
    what: str,
    *words: str,
    call,
    first,
    second,
    wait=lambda works: [work.wait() for work in works],  # type: ignore[name-defined]
) -> None:
    """Rank 1 calls with the second tensor first. The error on each rank names the exchanged
    calls."""
    group = dist.new_group()  # the calls of a new group are counted from 0
    order = (second, first) if rank == 1 else (first, second)
    try:
        wait([call(each, group) for each in order])
    except RuntimeError as error:  # a future of C++ keeps only the text of the Mismatch
        assert "calls of equal signature were exchanged" in str(error), error
        assert (
            "Call 0 of rank 0 met another one, call 0 of rank 1, which made rank 0's as its call 1"
            in str(error)
        ), error
        for word in words:
            assert word in str(error), (word, error)
        stacks = str(error).partition("\nRank 0, call 0, of ")[2].partition("\nRank 1, call 0, of ")
        assert all(part.count("test_torch_check.py:") >= 2 for part in stacks[::2]), error
    else:
        raise AssertionError(what)


def _finds(rank: int, size: int, place: str) -> None:
    _checked(rank, size, place)
    mean, deviation = torch.ones(4), torch.ones(4)
    every = {"mean": mean, "deviation": deviation}
    reduce = lambda tensor, group: dist.all_reduce(tensor, group=group, async_op=True)
    _exchanged(
        rank,
        "variables",
        "`mean`",
        "`deviation`",
        "float32[4]",
        call=reduce,
        first=mean,
        second=deviation,
    )
    del mean, deviation
    _exchanged(
        rank,
        "entries of a dict",
        "`every['mean']`",
        "`every['deviation']`",
        call=lambda key, group: reduce(every[key], group),
        first="mean",
        second="deviation",
    )
    kept = [torch.ones(5), torch.ones(5)]
    _exchanged(
        rank,
        "places in a list",
        "`kept[0]`",
        "`kept[1]`",
        call=lambda at, group: reduce(kept[at], group),
        first=0,
        second=1,
    )
    model = torch.nn.ParameterList([torch.ones(6), torch.ones(6)])
    for parameter in model:
        parameter.grad = torch.ones(6)
    _exchanged(
        rank,
        "gradients",
        "`model.0.grad`",
        "`model.1.grad`",
        call=lambda at, group: reduce(model[at].grad, group),
        first=0,
        second=1,
    )
    _exchanged(
        rank,
        "lines",
        call=lambda line, group: line(group),
        first=lambda group: dist.broadcast(torch.ones(7), 0, group=group, async_op=True),
        second=lambda group: dist.broadcast(torch.ones(7), 0, group=group, async_op=True),
    )
    _exchanged(
        rank,
        "shapes",
        "shape (2, 4)",
        "shape (4, 2)",
        call=lambda shape, group: dist.all_gather_into_tensor(
            torch.ones(8 * size), torch.ones(shape), group=group, async_op=True
        ),
        first=(2, 4),
        second=(4, 2),
    )
    _exchanged(
        rank,
        "a later wait tells",
        call=lambda at, group: reduce(kept[at], group),
        first=0,
        second=1,
        wait=lambda works: works[1].wait(),
    )
    _exchanged(
        rank,
        "a future tells",
        call=lambda at, group: reduce(kept[at], group),
        first=0,
        second=1,
        wait=lambda works: [work.get_future().wait() for work in works],
    )
    dist.destroy_process_group()


def _lets(rank: int, size: int, place: str) -> None:
    _checked(rank, size, place)
    one, other = torch.ones(4), torch.ones(4)
    for _ in range(600):  # the ranks call from different lines, on purpose
        if rank == 0:
            dist.broadcast(one, 0)
        else:
            dist.broadcast(other, 0)
    lists = [one, other] if rank == 0 else [other, one]  # the same tensors at other positions
    for tensor in (one, other):
        dist.all_reduce(tensor)
    assert len(lists) == 2
    works = [
        dfccl.torch.all_reduce(one if key == "a" else other, async_op=True, name=key)
        for key in (("a", "b") if rank == 0 else ("b", "a"))
    ]
    for work in works:
        work.wait()
    barriers = [
        lambda: dist.barrier(),
        lambda: dist.barrier(),
    ]  # another line, which does not matter for a barrier
    for barrier in barriers if rank == 0 else barriers[::-1]:
        barrier()
    everybody = [None] * size
    dist.all_gather_object(everybody, "x" * rank)
    dist.all_to_all([torch.empty(2) for _ in range(size)], [torch.ones(2) for _ in range(size)])
    model = DistributedDataParallel(
        torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)]), bucket_cap_mb=0.0002
    )
    for _ in range(3):
        model(torch.ones(2, 8)).sum().backward()
    dist.destroy_process_group()


class Check(Case):
    def test_exchanged_calls_are_found(self):
        self.assertEqual(on_processes(_finds, 2, meeting_place()), [0, 0])

    def test_among_three_ranks(self):
        self.assertEqual(on_processes(_finds, 3, meeting_place()), [0, 0, 0])

    def test_nothing_else_is_taken_for_one(self):
        self.assertEqual(on_processes(_lets, 2, meeting_place()), [0, 0])


if __name__ == "__main__":
    unittest.main()
