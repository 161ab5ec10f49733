"""Promises of forks and of ends: a child may be forked at any moment of a job's life, and the
garbage collector may run at any time, also in the child; no cycle holds torch's store after the
job. Skipped without torch."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import signal
import threading
import traceback
import unittest
from collections.abc import Callable

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl.torch
from support import Case, meeting_place, on_processes


def _join(rank: int, size: int, place: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")


def fork(moment: str, check: Callable[[], None] = lambda: None) -> None:
    """Forks a child that collects garbage and calls check(), with collections on both sides."""
    gc.collect()
    child = os.fork()
    if child == 0:
        try:
            # The threads of a time limit are not there: the signal prints the stack and ends the
            # child.
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(40)
            gc.collect()
            check()
            gc.collect()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"a child forked {moment} ended with {status}"
    gc.collect()


def no_group() -> None:
    """A call in a child is refused."""
    try:
        dist.all_reduce(torch.ones(3))
    except (RuntimeError, ValueError):
        return
    raise AssertionError("a call in a child was not refused")


def _life(rank: int, size: int, place: str) -> None:
    fork("before the job")
    _join(rank, size, place)
    fork("before the first call", no_group)
    is_held, released = threading.Event(), threading.Event()

    def registers() -> None:
        with dist.group.WORLD._register_lock:
            is_held.set()
            released.wait()

    thread = threading.Thread(target=registers)
    thread.start()
    is_held.wait()
    fork("while a thread registers", no_group)
    released.set()
    thread.join()
    work = dist.all_reduce(torch.ones(4), async_op=True)

    def futures() -> None:
        for wanted in (work, pending):
            try:
                wanted.get_future().wait()
            except RuntimeError:
                pass
            else:
                raise AssertionError("a future of the parent has a result in a child")

    pending = dist.irecv(torch.zeros(3), rank)
    fork("with calls outstanding", futures)
    future = pending.get_future()

    def watched() -> None:
        for wait in (pending.wait, pending.get_future().wait, work.wait):
            try:
                wait()
            except RuntimeError as error:
                assert "fork" in str(error), error
            else:
                raise AssertionError("a child has waited for a call of its parent")

    seen = threading.Event()

    def forks(_: torch.futures.Future) -> bool:
        fork("in a callback", no_group)
        return seen.wait()

    slow = future.then(forks)
    fork("with a future watched", watched)
    dist.isend(torch.ones(3), rank)
    fork("while a callback is called", no_group)
    seen.set()
    assert slow.wait()
    work.wait()
    group = dist.new_group()
    dist.all_reduce(torch.ones(3), group=group)
    box = torch.zeros(2)
    if rank == 0:
        dist.recv(box)
    else:
        dist.send(box, 0)
    fork("after a receive from any rank", no_group)
    dist.destroy_process_group(group)
    del group
    fork("after the end of a group", no_group)
    enough = threading.Event()

    def calls() -> None:
        stop = torch.zeros(1)
        while not stop:  # all ranks make the same number of calls
            tensor = torch.ones(9)
            dist.all_reduce(tensor, async_op=True).get_future().wait()
            stop = torch.tensor([float(enough.is_set())])
            dist.all_reduce(stop, op=dist.ReduceOp.MAX)

    thread = threading.Thread(target=calls)
    thread.start()
    for _ in range(10):
        fork("while a thread makes calls", no_group)
    dist.barrier()
    enough.set()
    thread.join()
    dist.barrier()
    dist.destroy_process_group()
    fork("after the job", no_group)


def _again(rank: int, size: int, place: str) -> None:
    """Children of later jobs, and a child that calls the functions of atexit."""
    for _ in range(2):
        _join(rank, size, place)
        work = dist.all_reduce(torch.ones(4), async_op=True)
        work.get_future().wait()
        child = os.fork()
        if child == 0:
            signal.alarm(40)
            # The end of the interpreter would wait for the thread of the test's time limit
            atexit._run_exitfuncs()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        dist.barrier()
        dist.destroy_process_group()
        fork("between two jobs", no_group)


def _garbage(rank: int, size: int, place: str) -> None:
    """Nothing of a destroyed job that holds torch's store is left to the collector."""
    _join(rank, size, place)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()
    group = dist.new_group()
    dist.all_reduce(torch.ones(3), group=group)
    dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda done: 1).wait()
    boxes = [None] * size
    dist.all_gather_object(boxes, rank)
    box = torch.zeros(2)
    if rank == 0:
        dist.recv(box)
    else:
        dist.send(box, 0)
    dist.irecv(box, rank)
    dist.barrier()
    del model, group
    gc.collect()
    gc.disable()
    dist.destroy_process_group()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    left = [type(each) for each in gc.garbage]
    found = [
        each
        for each in left
        if issubclass(each, (dist.Store, dist.ProcessGroup, dist.Work))
        or each.__module__.startswith("dfccl.torch")
    ]
    assert not found, found
    stores = [type(each) for each in gc.get_objects() if issubclass(type(each), dist.Store)]
    assert not stores, stores
    assert dfccl.torch.job._world is None


class Forks(Case):
    def _on(self, function) -> None:
        self.assertEqual(on_processes(function, 2, meeting_place()), [0, 0])

    def test_forks_in_a_life(self):
        self._on(_life)

    def test_forks_of_later_jobs(self):
        self._on(_again)

    def test_garbage(self):
        self._on(_garbage)


if __name__ == "__main__":
    unittest.main()
