"""Promises of the threads that call callbacks of futures: order, failures, and ends, also those of
a job and of a program whose callbacks are in progress. Skipped without torch."""

from __future__ import annotations

import datetime
import threading
import time
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

from dfccl.torch import callbacks
from support import Case, meeting_place, on_processes
from torch_cases import called_back, reduced, refused


def _join(rank: int, size: int, place: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")


def _destroyed_by_a_callback(rank: int, size: int, place: str) -> None:
    """A callback may end its own job. A callback that never returns does not hold up that end."""
    _join(rank, size, place)
    called_back(lambda _: threading.Event().wait())
    called_back(lambda _: dist.destroy_process_group()).wait()
    refused(lambda: dist.all_reduce(torch.ones(3)), error=ValueError)  # there is no group


def _wanted_behind_the_end(rank: int, size: int, place: str) -> None:
    """A future that is wanted when its job has ended tells so."""
    _join(rank, size, place)
    work = dist.all_reduce(torch.ones(4), async_op=True)
    dist.barrier()
    dist.destroy_process_group()
    try:
        assert work.get_future().wait()[0].sum() == 8
    except RuntimeError as error:
        assert "closed" in str(error), error


def _left_open(rank: int, size: int, place: str) -> None:
    """A program ends while a callback waits, and another future has not ended."""
    _join(rank, size, place)
    called_back(lambda _: threading.Event().wait())
    if rank == 0:
        reduced(5)[1].then(lambda done: done.value())
    reduced(6)[1].wait()


def _computes_at_the_end(rank: int, size: int, place: str) -> None:
    """Callbacks that compute hold up neither wait(), beyond its time, nor the end of the process,
    which none of them may meet half-way."""
    _join(rank, size, place)

    def computes(_):
        end = time.monotonic() + 2
        while time.monotonic() < end:
            pass

    works = [dist.all_reduce(torch.ones(4), async_op=True) for _ in range(5)]
    for work in works[:4]:
        work.get_future().then(computes)
    works[4].get_future()
    works[4].wait(datetime.timedelta(seconds=1))
    assert works[4].is_completed()
    dist.destroy_process_group()


class Threads(Case):
    def test_tasks_begin_in_order(self):
        patience, callbacks._PATIENCE_S = callbacks._PATIENCE_S, 1000
        threads, begun, done = callbacks.Callbacks(), [], threading.Event()
        for at in range(500):
            threads.submit(lambda at=at: begun.append(at))
        threads.submit(done.set)
        done.wait()
        threads.stop()
        callbacks._PATIENCE_S = patience
        self.assertEqual(begun, list(range(500)))

    def test_a_failure_ends_no_thread(self):
        threads, done, seen = callbacks.Callbacks(), threading.Event(), []
        before, threading.excepthook = threading.excepthook, lambda given: seen.append(given)
        try:
            threads.submit(lambda: 1 / 0)
            threads.submit(done.set)
            done.wait()
            threads.stop()
        finally:
            threading.excepthook = before
        self.assertEqual([each.exc_type for each in seen], [ZeroDivisionError])

    def test_no_further_thread_can_be_started(self):
        threads, done = callbacks.Callbacks(), threading.Event()
        threads.start()
        before = threading.Thread.start

        def fails(_):
            raise RuntimeError("can't start new thread")

        threading.Thread.start = fails
        try:
            for _ in range(10):
                threads.submit(lambda: None)
            threads.submit(done.set)
            done.wait()
        finally:
            threading.Thread.start = before
        threads.stop()

    def test_stop_ends_the_threads(self):
        threads, done = callbacks.Callbacks(), threading.Event()
        threads.submit(done.set)
        done.wait()
        threads.stop()
        while any(each.name == "dfccl callbacks" for each in threading.enumerate()):
            threading.Event().wait(0.01)  # the test's time limit ends this


class Ends(Case):
    def _on(self, function, size: int) -> None:
        self.assertEqual(on_processes(function, size, meeting_place()), [0] * size)

    def test_destroyed_by_a_callback(self):
        self._on(_destroyed_by_a_callback, 2)

    def test_wanted_behind_the_end(self):
        self._on(_wanted_behind_the_end, 2)

    def test_left_open(self):
        self._on(_left_open, 2)

    def test_computes_at_the_end(self):
        self._on(_computes_at_the_end, 2)


if __name__ == "__main__":
    unittest.main()
