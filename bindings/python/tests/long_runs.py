"""Runs that take too long for the lane: python long_runs.py memory [CALLS], new [CALLS], or
gpt [STEPS]. Each run prints its results, and fails if they are wrong.

    memory    all-reduces of 1,000 shapes in the same random order on two ranks: the use of memory
              and descriptors does not grow
    new       all-reduces of new signatures only, more than a context can have: registrations that
              are not used are evicted
    gpt       a small GPT under DistributedDataParallel: each rank reduces its buckets in a
              different order in each step. Losses and parameters are those of the ordered run, bit
              for bit.
"""

from __future__ import annotations

import os
import random
import sys
import time
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

if __name__ == "__main__":
    os.environ.setdefault("TEST_SECONDS", "7200")

import dfccl.torch
from support import meeting_place, on_processes


class Shuffled:
    """A hook that collects all buckets of a step, and reduces them in a random order of this
    rank."""

    def __init__(self, rank: int):
        self.chance, self.kept, self.orders = random.Random(rank), [], set()

    def __call__(self, state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        kept = SimpleNamespace(
            parameters=lambda all=bucket.parameters(): all, buffer=lambda flat=bucket.buffer(): flat
        )
        future = torch.futures.Future()
        self.kept.append((bucket.index(), kept, future))
        if bucket.is_last():
            buckets, self.kept = self.kept, []
            self.chance.shuffle(buckets)
            self.orders.add(tuple(index for index, _, _ in buckets))
            for _, each, promised in buckets:
                dfccl.torch.ddp_hook(None, each).then(
                    lambda done, promised=promised: promised.set_result(done.value())
                )
        return future

    def of(self, module: DistributedDataParallel) -> None:
        Shuffled.__call__.__annotations__.update(
            bucket=dist.GradBucket, **{"return": torch.futures.Future[torch.Tensor]}
        )
        module.register_comm_hook(None, self.__call__)


class Gpt(torch.nn.Module):
    WORDS, LENGTH, WIDTH = 64, 16, 32

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = (
            torch.nn.Embedding(self.WORDS, self.WIDTH),
            torch.nn.Embedding(self.LENGTH, self.WIDTH),
        )
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                self.WIDTH, 2, 4 * self.WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(2)
        )
        self.out = torch.nn.Linear(self.WIDTH, self.WORDS)
        self.mask = torch.nn.Transformer.generate_square_subsequent_mask(self.LENGTH)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        values = self.words(text) + self.places.weight
        for layer in self.layers:
            values = layer(values, self.mask, is_causal=True)
        return self.out(values)


def gpt(rank: int, size: int, place: str, steps: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")
    runs, hook = [], Shuffled(rank)
    for shuffled in (False, True):
        torch.manual_seed(0)
        module = DistributedDataParallel(Gpt(), bucket_cap_mb=0.01)
        if shuffled:
            hook.of(module)
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.001)
        chance = torch.Generator().manual_seed(rank)
        losses, begin = [], time.monotonic()
        for _ in range(steps):
            start = torch.randint(0, Gpt.WORDS, (4, 1), generator=chance)
            text = (
                start + 3 * torch.arange(Gpt.LENGTH + 1)
            ) % Gpt.WORDS  # the next word can be predicted
            loss = functional.cross_entropy(
                module(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        runs.append((losses, [parameter.detach().clone() for parameter in module.parameters()]))
        if rank == 0 and steps > 1000:
            print(
                f"{'shuffled' if shuffled else 'ordered'}: {steps} steps in "
                f"{time.monotonic() - begin:.0f} s, first loss "
                f"{losses[0]:.6f}, last {losses[-1]:.6f}",
                flush=True,
            )
    (ordered, wanted), (losses, found) = runs
    assert losses == ordered, next(step for step in range(steps) if losses[step] != ordered[step])
    assert all(torch.equal(one, other) for one, other in zip(wanted, found))
    assert len(hook.orders) > min(steps // 2, 1000), len(hook.orders)
    if rank == 0 and steps > 1000:
        print(
            f"all {steps} losses and {len(found)} parameters are equal, bit for bit; "
            f"{len(hook.orders)} orders of "
            f"{len(next(iter(hook.orders)))} buckets on rank 0"
        )
    dist.destroy_process_group()


def _uses() -> dict[str, int]:
    """The memory of this process in KiB (private and shared with ranks), descriptors and
    threads."""
    with open("/proc/self/status") as text:
        used = {
            line.split()[0]: line.split()[1]
            for line in text
            if line.startswith(("RssAnon:", "RssShmem:"))
        }
    return {
        "own KiB": int(used["RssAnon:"]),
        "shared KiB": int(used["RssShmem:"]),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def memory(rank: int, size: int, place: str, calls: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")
    shapes = min(1000, calls // 100)
    chance, tensors = random.Random(0), [torch.ones(8 * count) for count in range(1, shapes + 1)]
    for tensor in tensors:  # outstanding runs use all slots, which take memory at their first use
        for work in [dist.all_reduce(tensor, async_op=True) for _ in range(30)]:
            work.wait()
    begin, seen = time.monotonic(), []
    for call in range(calls + 1):
        if call % (calls // 10) == 0:
            seen.append(_uses())
            if rank == 0 and calls > 100_000:
                print(f"{call} calls, {time.monotonic() - begin:.0f} s: {seen[-1]}", flush=True)
        tensor = tensors[chance.randrange(shapes)].fill_(1)
        dist.all_reduce(tensor)
    for what, most in (("own KiB", 2048), ("shared KiB", 1024), ("descriptors", 0), ("threads", 0)):
        assert abs(seen[-1][what] - seen[0][what]) <= most, (what, seen)
    dist.destroy_process_group()


def new(rank: int, size: int, place: str, calls: int) -> None:
    torch.set_num_threads(1)
    os.environ["DFCCL_TORCH_REGISTRATIONS"] = str(min(2048, calls // 40))
    dist.init_process_group("dfccl", rank=rank, world_size=size, init_method=f"file://{place}")
    chance, begin, seen = random.Random(rank), time.monotonic(), []
    for window in range(calls // 10 + 1):
        if window % (calls // 100) == 0:
            seen.append(_uses())
            if rank == 0 and calls > 10_000:
                print(
                    f"{10 * window} calls, {time.monotonic() - begin:.0f} s: {seen[-1]}", flush=True
                )
        names = [f"{window}.{at}" for at in range(10)]
        chance.shuffle(names)
        tensors = [torch.ones(64) for _ in names]
        for work in [
            dfccl.torch.all_reduce(tensor, async_op=True, name=name)
            for tensor, name in zip(tensors, names)
        ]:
            work.wait()
        assert all((tensor == size).all() for tensor in tensors)
    for what, most in (
        ("own KiB", 4096 + calls // 4),
        ("shared KiB", 1024),
        ("descriptors", 0),
        ("threads", 0),
    ):
        assert abs(seen[-1][what] - seen[3][what]) <= most, (what, seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    function, count = {"memory": (memory, 10**6), "new": (new, 100_000), "gpt": (gpt, 10_000)}[
        sys.argv[1]
    ]
    ended = on_processes(
        function, 2, meeting_place(), int(sys.argv[2]) if len(sys.argv) > 2 else count
    )
    sys.exit(ended != [0, 0])
