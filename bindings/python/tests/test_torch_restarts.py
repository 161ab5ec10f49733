"""Promises of a job that is started again under the same store: it joins and works, whenever the
ranks of earlier attempts were killed, and whatever they have left in the store. Skipped without
torch."""

from __future__ import annotations

import datetime
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

import dfccl.torch
from support import INNER_SECONDS, Case, meeting_place, on_processes

PROGRAM = """
import datetime, os, signal, torch, torch.distributed as dist
import dfccl.torch
torch.set_num_threads(1)
at = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if at == 0 and os.environ["RANK"] == "2":
    os.kill(os.getpid(), signal.SIGKILL)  # before it joins, so that rank 0 is killed while it waits
dist.init_process_group("dfccl", timeout=datetime.timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
for step in range(20):
    tensor = torch.full((1000,), float(rank + at))
    dist.all_reduce(tensor)
    assert (tensor == sum(range(size)) + size * at).all()
    if rank == 1 and step == 10 and at == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and step == 10 and at == 2:
        raise RuntimeError("a fault of the program")
dist.barrier()
print(f"rank {rank} is right in attempt {at}", flush=True)
dist.destroy_process_group()
"""


def _join(rank: int, size: int, place: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "dfccl",
        rank=rank,
        world_size=size,
        init_method=f"file://{place}",
        timeout=datetime.timedelta(seconds=30),
    )


def _killed_before(rank: int, size: int, place: str) -> None:
    """The last rank never comes, and the others are killed while they wait for it."""
    if rank < size - 1:
        threading.Timer(2, os.kill, (os.getpid(), signal.SIGKILL)).start()
        _join(rank, size, place)


def _asks_and_is_killed(rank: int, size: int, place: str) -> None:
    """A rank requests the id, and is killed before rank 0 has come."""
    if rank > 0:
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGKILL)).start()
        _join(rank, size, place)


def _killed_with_questions(rank: int, size: int, place: str) -> None:
    """The ranks leave questions of the coordinators, counts of messages and answers."""
    _join(rank, size, place)
    boxes = torch.zeros(2)
    if rank == 0:
        dist.recv(boxes)
        dist.group.WORLD.recv_anysource([boxes], 3)
    elif rank == 1:
        dist.send(boxes, 0)
    dist.barrier()
    os.kill(os.getpid(), signal.SIGKILL)


def _counts_differ(rank: int, size: int, place: str) -> None:
    """Nodes of a job can have different numbers for one attempt."""
    os.environ["TORCHELASTIC_RESTART_COUNT"] = str(rank)
    _right(rank, size, place)


def _right(rank: int, size: int, place: str) -> None:
    _join(rank, size, place)
    for count in (3, 5):
        tensor = torch.full((count,), float(rank))
        dist.all_reduce(tensor)
        assert (tensor == size * (size - 1) / 2).all(), tensor
    box = torch.zeros(4)
    if rank == 0:
        sources = {dist.recv(box) for _ in range(size - 1)}
        assert sources == set(range(1, size)), sources
    else:
        dist.send(box, 0)
    dist.barrier()
    assert len(dfccl.torch.flight()["entries"]) > 3
    dist.destroy_process_group()


class Restarts(Case):
    def test_attempts_under_one_store(self):
        """The attempts that are killed end in any way."""
        place = meeting_place()
        for attempt, size, must_end_well in (
            (_asks_and_is_killed, 3, False),
            (_killed_before, 3, False),
            (_right, 3, True),
            (_killed_with_questions, 3, False),
            (_right, 2, True),
            (_killed_with_questions, 2, False),
            (_counts_differ, 3, True),
        ):
            ends = on_processes(attempt, size, place)
            if must_end_well:
                self.assertEqual(ends, [0] * size, attempt.__name__)

    def test_torchrun(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(PROGRAM)
            options = ["--nproc-per-node", "3", "--max-restarts", "3", "--monitor-interval", "0.1"]
            run = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", *options, str(program)],
                capture_output=True,
                text=True,
                timeout=INNER_SECONDS,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for rank in range(3):
            self.assertIn(f"rank {rank} is right in attempt 3", run.stdout)


if __name__ == "__main__":
    unittest.main()
