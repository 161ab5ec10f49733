"""Promises of calls that can never meet: the same blocking call with another shape, type, operator
or root on some ranks ends on all of them with a sentence that shows both sides. Calls in another
order, and ranks that are slow, are not taken for such calls. Skipped without torch."""

from __future__ import annotations

import datetime
import logging
import os
import threading
import time
import unittest
from unittest import mock

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch
from support import Case, meeting_place, on_processes
from torch_cases import on_ranks, refused

SECONDS = {"DFCCL_TORCH_MISMATCH_S": "1"}


def differs(call, *words: str) -> None:
    refused(call, "ranks differ in the same call", *words, error=dfccl.Mismatch)


def shapes(rank, group):
    sides = (
        "rank 0 calls all_reduce of float32 [2, 2], sum",
        "rank 1 calls all_reduce of float32 [5], sum",
    )
    tensor = torch.ones(2, 2) if rank == 0 else torch.ones(5)
    differs(lambda: dist.all_reduce(tensor), *sides, "test_torch_mismatch.py:")
    # The collectives of both sides have ended; others go on
    refused(lambda: dist.all_reduce(tensor), error=dfccl.Error)
    other = torch.ones(77)
    dist.all_reduce(other)
    assert other.sum() == 77 * dist.get_world_size()


def types(rank, group):
    tensor = torch.ones(11, dtype=torch.float64 if rank == 0 else torch.int64)
    differs(lambda: dist.all_reduce(tensor), "float64 [11]", "int64 [11]")


def operators(rank, group):
    op = dist.ReduceOp.MAX if rank == 0 else dist.ReduceOp.SUM
    differs(lambda: dist.all_reduce(torch.ones(12), op=op), "[12], max", "[12], sum")


def roots(rank, group):
    differs(lambda: dist.reduce(torch.ones(13), dst=rank), "root 0", "root 1")
    differs(lambda: dist.broadcast(torch.ones(14), src=1 - rank), "broadcast", "root 0", "root 1")


def names(rank, group):
    with dfccl.torch.name(f"weight {rank}"):
        differs(lambda: dist.all_reduce(torch.ones(15)), "'weight 0'", "'weight 1'")


def other_operations(rank, group):
    count = 20 + rank
    pieces, mine = [torch.zeros(count), torch.zeros(count)], torch.ones(count)
    differs(lambda: dist.all_gather(pieces, mine), "all_gather", "[20]", "[21]")
    both = torch.zeros(2 * count)
    differs(lambda: dist.all_to_all_single(torch.zeros(2 * count), both), "[40]", "[42]")
    differs(lambda: dist.reduce_scatter_tensor(mine, both), "reduce_scatter", "[20]", "[21]")


def waited_for_later(rank, group):
    works = [dist.all_reduce(torch.ones(count), async_op=True) for count in (30, 31 + rank)]
    works[0].wait()
    differs(works[1].wait, "[31]", "[32]")
    differs(works[1].wait)  # a further wait has the same error
    assert isinstance(works[1].exception(), dfccl.Mismatch)


def a_true_circle(rank, group):
    """The same line, with blocking calls in opposite orders."""

    def reduce_all():
        for count in (40, 41) if rank == 0 else (41, 40):
            dist.all_reduce(torch.ones(count))

    differs(reduce_all, "[40]", "[41]")


def in_another_group(rank, group):
    pair = dist.new_group([1, 0])
    differs(lambda: dist.all_reduce(torch.ones(50 + rank), group=pair), "[50]", "[51]")


def slow_ranks(rank, group):
    """A rank that comes late is no mismatch, and no warning."""
    with Warnings() as warnings:
        for late in range(2):
            if rank == late:
                time.sleep(3)
            tensor = torch.ones(60)
            dist.all_reduce(tensor)
            assert tensor.sum() == 120
    assert not warnings, warnings


def of_different_lines(rank, group):
    """Other calls at other lines could be calls in another order: a warning has both sides."""
    late = dist.new_group(timeout=datetime.timedelta(seconds=6))
    with Warnings() as warnings:
        if rank == 0:
            refused(lambda: dist.all_reduce(torch.ones(70), group=late), error=dfccl.Timeout)
        else:
            refused(lambda: dist.broadcast(torch.ones(71), 0, group=late), error=dfccl.Timeout)
    (text,) = warnings
    assert "rank 0 waits for call 1, all_reduce of float32 [70], sum" in text, text
    assert "rank 1 waits for call 1, broadcast of float32 [71], root 0" in text, text


def messages(rank, group):
    """Two receives that lack each other's message: a warning."""
    late = dist.new_group(timeout=datetime.timedelta(seconds=6))
    with Warnings() as warnings:
        box = torch.ones(95 + rank)
        refused(lambda: dist.recv(box, 1 - rank, group=late), error=dfccl.Timeout)
    (text,) = warnings
    assert "recv of float32 [95]" in text and "recv of float32 [96]" in text, text


def in_another_order(rank, group):
    """Threads of a program make their calls in another order, and one of them is slow."""
    box = {}

    def reduce(count: int, after: float) -> None:
        time.sleep(after)
        box[count] = torch.ones(count)
        dist.all_reduce(box[count])

    slow, fast = (80, 81) if rank == 0 else (81, 80)
    threads = [threading.Thread(target=reduce, args=each) for each in ((slow, 4), (fast, 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert box[80].sum() == 160 and box[81].sum() == 162


def time_of_its_own(rank, group):
    """A wait that ends before the group's timeout: the program makes the other call then."""
    first, second = torch.ones(90 + rank), torch.ones(91 - rank)
    work = dist.all_reduce(first, async_op=True)
    short = datetime.timedelta(seconds=2.5)
    refused(lambda: work.wait(short), "timeout", error=dfccl.Timeout)
    dist.all_reduce(second)
    work.wait()
    assert first.sum() == 2 * (90 + rank) and second.sum() == 2 * (91 - rank)


class _Collector(logging.Handler):
    def __init__(self, texts: list[str]):
        super().__init__()
        self.texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class Warnings:
    """The warnings of this package in the block."""

    def __enter__(self) -> list[str]:
        self.texts: list[str] = []
        self.handler = _Collector(self.texts)
        logging.getLogger("dfccl.torch").addHandler(self.handler)
        return self.texts

    def __exit__(self, *_) -> None:
        logging.getLogger("dfccl.torch").removeHandler(self.handler)


CASES = [
    shapes,
    types,
    operators,
    roots,
    names,
    other_operations,
    waited_for_later,
    a_true_circle,
    in_another_group,
    slow_ranks,
    of_different_lines,
    messages,
    in_another_order,
    time_of_its_own,
]


def one_of_three(rank, group):
    tensor = torch.ones(4 if rank == 1 else 3)
    differs(lambda: dist.all_reduce(tensor), "[4]", "[3]", "rank 1 calls")


def _off(rank: int, size: int, place: str) -> None:
    dist.init_process_group(
        "dfccl",
        rank=rank,
        world_size=size,
        init_method=f"file://{place}",
        timeout=datetime.timedelta(seconds=4),
    )
    refused(lambda: dist.all_reduce(torch.ones(3 + rank)), "timeout", error=dfccl.Timeout)


def _threads_first(rank: int, size: int, place: str) -> None:
    """The first calls of a job are those of threads, of which each could be the only one."""
    method = f"file://{place}"
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=method)
    in_another_order(rank, None)
    dist.destroy_process_group()


def _own_settings(rank: int, size: int, place: str) -> None:
    """A rank that does not look answers the others, and its coordinator goes on."""
    os.environ["DFCCL_TORCH_MISMATCH_S"] = "1" if rank == 0 else "0"
    limit = datetime.timedelta(seconds=4)
    method = f"file://{place}"
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=method, timeout=limit)
    if rank == 2:
        time.sleep(3)
    refused(lambda: dist.all_reduce(torch.ones(3 + rank)), error=dfccl.Error)
    names = {thread.name for thread in threading.enumerate()}
    assert "dfccl keeper" in names, names


class Mismatches(Case):
    def test_threads_make_the_first_calls(self):
        with mock.patch.dict(os.environ, SECONDS):
            self.assertEqual(on_processes(_threads_first, 2, meeting_place()), [0, 0])

    def test_ranks_with_other_settings(self):
        self.assertEqual(on_processes(_own_settings, 3, meeting_place()), [0, 0, 0])

    def test_two_ranks(self):
        with mock.patch.dict(os.environ, SECONDS):
            self.assertEqual(on_ranks(CASES), [0, 0])

    def test_three_ranks(self):
        with mock.patch.dict(os.environ, SECONDS):
            self.assertEqual(on_ranks([one_of_three], 3), [0] * 3)

    def test_off(self):
        with mock.patch.dict(os.environ, {"DFCCL_TORCH_MISMATCH_S": "0"}):
            self.assertEqual(on_processes(_off, 2, meeting_place()), [0, 0])


if __name__ == "__main__":
    unittest.main()
