"""Promises of the life of process groups together with worker processes, objects and sequence
numbers. Skipped without torch."""

from __future__ import annotations

import os
import signal
import unittest

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, Dataset
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl
import dfccl.torch  # noqa: F401  its import registers the backend
from support import Case, meeting_place, on_processes


def join(rank: int, size: int, place: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")


class Squares(Dataset):
    def __init__(self, dies_at: int = -1):
        self.dies_at = dies_at

    def __len__(self) -> int:
        return 24

    def __getitem__(self, at: int) -> torch.Tensor:
        if at == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((4,), float(at * at))


def _workers(rank: int, size: int, place: str) -> None:
    """Worker processes are forked from a rank in the middle of its job, with runs outstanding and
    futures watched."""
    join(rank, size, place)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    for _ in range(2):
        outstanding = torch.ones(5)
        work = dist.all_reduce(outstanding, async_op=True)
        rows = 0
        for batch in DataLoader(
            Squares(), batch_size=4, num_workers=2, multiprocessing_context="fork"
        ):
            model(batch).sum().backward()
            rows += len(batch)
        work.wait()
        assert rows == 24 and (outstanding == size).all()
    # torch reports a worker that dies. The death ends neither the rank nor the job. The worker dies
    # before it passes a tensor on, because torch fetches the memory of a tensor from the worker,
    # and might otherwise report the error of a closed socket.
    try:
        list(
            DataLoader(
                Squares(dies_at=0), batch_size=4, num_workers=2, multiprocessing_context="fork"
            )
        )
    except RuntimeError as error:
        assert "DataLoader worker" in str(error), error
    else:
        raise AssertionError("a worker was killed, and nobody noticed")
    child = os.fork()  # the child ends normally, which must not close the context of its parent
    if child == 0:
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    left = torch.ones(3)
    dist.all_reduce(left)
    assert (left == size).all()
    dist.destroy_process_group()


def _objects(rank: int, size: int, place: str) -> None:
    join(rank, size, place)
    mine = {"rank": rank, "text": "x" * 100 * rank}
    found = [None] * size if rank == 1 else None
    dist.gather_object(mine, found, 1)
    assert rank != 1 or [each["rank"] for each in found] == list(range(size))
    box = [None]
    dist.scatter_object_list(box, [("for", at) for at in range(size)] if rank == 0 else None, 0)
    assert box == [("for", rank)]
    if rank == 0:
        dist.send_object_list([mine, "second"], 1)
    elif rank == 1:
        dist.recv_object_list(both := [None, None], 0)
        assert both == [{"rank": 0, "text": ""}, "second"], both
        dist.send_object_list(["back"], 2)
    elif rank == 2:
        dist.recv_object_list(box := [None], 1)
        assert box == ["back"]
    group = dist.group.WORLD
    numbers = [group._get_sequence_number_for_group()]
    for _ in range(3):
        dist.all_reduce(torch.ones(2))
        numbers.append(group._get_sequence_number_for_group())
    assert numbers == list(range(numbers[0], numbers[0] + 4)), numbers
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert (
        work._get_sequence_number() == numbers[-1] + 1
        and work._get_operation_type() == "all_reduce"
    )
    work.wait()
    dist.barrier()
    dist.destroy_process_group()


class Life(Case):
    def _on(self, function, size: int) -> None:
        self.assertEqual(on_processes(function, size, meeting_place()), [0] * size)

    def test_worker_processes(self):
        self._on(_workers, 2)

    def test_objects_and_numbers(self):
        self._on(_objects, 3)


if __name__ == "__main__":
    unittest.main()
